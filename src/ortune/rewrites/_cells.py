"""What one step of a recurrence computes, and of which cell that is: by values, whatever its nodes are.

Behind the products a step is a function element by element of linear forms: of its input, of the state before, and of
constants. Exporters write these in many ways: one product or one a gate, split before its activation or behind it,
the state joined to the input or not. Which gate is which follows from computing the function on chosen numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import float_of, int_of, ints_of
from ortune.graph.constants import Array, constant, one_number, scalar
from ortune.graph.nodes import input_of, is_op, source_of
from ortune.rewrites._pattern import Look
from ortune.rewrites._probe import ELEMENTWISE, FUNCTIONS, limits

Values = np.ndarray

_POINTS = 128
_NEAR = 1e-6  # slopes of gates are rounded to float32
_DEPTH = 64  # nodes within a step
_AXES = 2  # of what a step computes: rows of a batch, and numbers


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear form: values times constant matrices, plus a constant row.

    Attributes:
        parts: The matrix of each value; None for the value as it is.
        bias: The row; None for zeros.
    """

    parts: Mapping[ir.Value, Values | None]
    bias: Values | None = None

    def same(self, other: Linear) -> bool:
        """Whether two linear forms have the same values and the same numbers."""
        return self.parts.keys() == other.parts.keys() and self.equals(
            other, {key: key for key in self.parts}
        )

    def equals(self, other: Linear, named: Mapping[ir.Value, ir.Value]) -> bool:
        """Whether two linear forms have the same numbers after renaming values by ``named``."""
        if len(self.parts) != len(other.parts) or not _equal(self.bias, other.bias):
            return False
        return all(
            named.get(key) in other.parts and _equal(matrix, other.parts[named[key]])
            for key, matrix in self.parts.items()
        )

    @property
    def as_it_is(self) -> bool:
        """Whether a value is part of the form without a matrix."""
        return any(matrix is None for matrix in self.parts.values())

    @property
    def is_value(self) -> bool:
        """Whether the form is a single value without a matrix."""
        return self.bias is None and len(self.parts) == 1 and self.as_it_is


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """An elementwise function of other parts."""

    operator: str
    inputs: tuple[Part, ...]


Part = Linear | Curve | float


def _clipped(part: Part, low: float, high: float) -> Curve:
    """Cuts a part off below and above."""
    return Curve("Min", (Curve("Max", (part, low)), high))


def _equal(one: Values | None, other: Values | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.shape == other.shape and bool((one == other).all())


class Step:
    """Expresses the values of one recurrence step as linear forms and elementwise functions.

    Attributes:
        state: The state before it.
        nodes: Its own, as far as they were gone through.
        fed: Those above, from which it is fed a product, the last first.
    """

    def __init__(self, state: ir.Value, number: int, levels: Mapping[ir.Value, int], look: Look) -> None:
        """``levels`` says of a value in how many steps up to ``number`` it was computed; 0 of what no step computes."""
        self.state, self.nodes, self.fed = state, dict[ir.Node, None](), dict[ir.Node, None]()
        self._number, self._levels, self._look = number, levels, look
        self._known: dict[ir.Value, Part | None] = {state: Linear({state: None})}

    def level(self, value: ir.Value) -> int:
        """Returns how many steps a value was computed in."""
        return self._levels.get(value, 0)

    def _own(self, value: ir.Value) -> bool:
        return self.level(value) == self._number

    def part(self, value: ir.Value | None, depth: int = _DEPTH) -> Part | None:
        """Returns the expression of a value; None if it is no linear form or elementwise function."""
        if value is None or depth == 0:
            return None
        value = self._source(value)
        if value not in self._known:
            self._known[value] = self._part(value, depth - 1)
        return self._known[value]

    def _source(self, value: ir.Value) -> ir.Value:
        """Follows copies to their source; copies inside the step count as its nodes."""
        source = source_of(value)
        while value is not source and (node := value.producer()) is not None and node.inputs[0] is not None:
            (self.nodes if self.level(value) else self.fed)[node] = None
            value = node.inputs[0]
        return source

    def _part(self, value: ir.Value, depth: int) -> Part | None:
        number = one_number(value)
        if number is not None:
            return float(number.reshape(()))
        numbers = constant(value)
        if numbers is not None:
            return _row(value, numbers)
        node, level = value.producer(), self.level(value)
        if node is None or 0 < level < self._number:
            return Linear({value: None}) if level in (0, self._number - 1) else None
        part = self._linear(node, value, depth)
        if not level:
            # What the step is fed: a product of it belongs to the cell, and nothing above.
            if part is not None:
                self.fed[node] = None
            return part or Linear({value: None})
        self.nodes[node] = None
        return self._curve(node, depth) if part is None else part

    def _curve(self, node: ir.Node, depth: int) -> Part | None:
        """Returns what a node computes element by element; None for other nodes."""
        if is_op(node, "HardSigmoid"):
            line = self.part(node.inputs[0], depth)
            slope, offset = float_of(node, "alpha", 0.2), float_of(node, "beta", 0.5)
            if line is None:
                return None
            return _clipped(Curve("Add", (Curve("Mul", (line, slope)), offset)), 0.0, 1.0)
        bounds = limits(node)
        if bounds is not None:
            operands = [
                value for value in node.inputs[: 1 if node.op_type == "Clip" else 2] if scalar(value) is None
            ]
            inner = self.part(operands[0], depth) if len(operands) == 1 else None
            return None if inner is None else _clipped(inner, *bounds)
        if not is_op(node, *ELEMENTWISE):
            return None
        inputs = [self.part(operand, depth) for operand in node.inputs]
        parts = tuple(part for part in inputs if part is not None)
        return Curve(node.op_type, parts) if len(parts) == len(inputs) else None

    def _linear(self, node: ir.Node, value: ir.Value, depth: int) -> Part | None:
        if is_op(node, "Gemm", "MatMul"):
            return self._product(node, depth)
        if is_op(node, "Split", "Slice"):
            bounds = _bounds(node, value)
            # Of a value of three axes, the second may be that of the steps.
            flat = len(self._look.of(value).dims or ()) == _AXES
            whole = self.part(node.inputs[0], depth) if bounds is not None and flat else None
            return None if bounds is None or whole is None else _cut(whole, *bounds)
        if is_op(node, "Add", "Sub"):
            one, other = (self.part(operand, depth) for operand in node.inputs)
            total = _sum(one, other, -1.0 if node.op_type == "Sub" else 1.0)
            if total is None and self._own(value) and is_op(node, "Add"):
                total = self._projected(one, other)
            return total
        return None

    def _product(self, node: ir.Node, depth: int) -> Linear | None:
        weight = weight_of(node)
        if weight is None:
            return None
        product = self._factor(node.inputs[0], weight[1])
        if product is None or input_of(node, 2) is None:
            return product
        bias = self.part(node.inputs[2], depth)
        if isinstance(bias, float):
            bias = Linear({}, np.full(weight[1].shape[1], bias, weight[1].dtype))
        beta = float_of(node, "beta", 1.0)
        return _sum(product, bias, 1.0) if isinstance(bias, Linear) and beta == 1.0 else None

    def _factor(self, value: ir.Value | None, matrix: Values) -> Linear | None:
        """Multiplies a value by a matrix; each part of a Concat takes its own rows."""
        if value is None:
            return None
        value = self._source(value)
        node = value.producer()
        if node is not None and self._joins(node):
            return self._factors(node, matrix) if int_of(node, "axis", 0) in (1, -1) else None
        return None if self._own(value) and not self._is_reset(value) else Linear({value: matrix})

    def _factors(self, node: ir.Node, matrix: Values) -> Linear | None:
        """Multiplies each part of a Concat by its own rows of a matrix."""
        self.nodes[node] = None
        widths = [self._width(operand) for operand in node.inputs]
        open_ones = [i for i, width in enumerate(widths) if width is None]
        if len(open_ones) > 1:
            return None
        rest = matrix.shape[0] - sum(width or 0 for width in widths)
        parts: dict[ir.Value, Values | None] = {}
        start = 0
        for operand, width in zip(node.inputs, widths, strict=True):
            end = start + (rest if width is None else width)
            source = None if operand is None else self._source(operand)
            if source is None or source in parts or end > matrix.shape[0]:
                return None
            if self._own(source) and not self._is_reset(source):
                return None
            parts[source], start = matrix[start:end], end
        return Linear(parts) if start == matrix.shape[0] else None

    def _joins(self, node: ir.Node) -> bool:
        """Whether a node is a Concat of the state, or of the state behind its reset, and others."""
        sources = [source_of(value) for value in node.inputs if value is not None]
        return is_op(node, "Concat") and any(
            value is self.state or (self._own(value) and self._is_reset(value)) for value in sources
        )

    def _is_reset(self, value: ir.Value) -> bool:
        """Whether a value is a gate times the state; its nodes count as those of the step."""
        part = self.part(value)
        return (
            isinstance(part, Curve)
            and part.operator == "Mul"
            and any(
                isinstance(factor, Linear) and factor.is_value and self.state in factor.parts
                for factor in part.inputs
            )
        )

    def _width(self, value: ir.Value | None) -> int | None:
        dims = self._look.of(value).dims
        return dims[-1] if dims and isinstance(dims[-1], int) else None

    def _projected(self, one: Part | None, other: Part | None) -> Linear | None:
        """Adds a value that was projected outside the step to a linear form."""
        if not isinstance(one, Linear) or not isinstance(other, Linear) or one.is_value == other.is_value:
            return None
        value, form = (one, other) if one.is_value else (other, one)
        arrays = [array for array in (*form.parts.values(), form.bias) if array is not None]
        if not arrays or not form.parts or value.parts.keys() & form.parts.keys():
            return None
        key, width = next(iter(value.parts)), arrays[0].shape[-1]
        if self._width(key) not in (None, width):
            return None
        return Linear({**form.parts, key: np.eye(width, dtype=arrays[0].dtype)}, form.bias)


def weight_of(node: ir.Node) -> tuple[ir.Value, Values] | None:
    """Returns the stored weights of a 2D product, and the matrix that multiplies its first input."""
    if not is_op(node, "Gemm", "MatMul") or len(node.inputs) < 2:
        return None
    value, turned = source_of(node.inputs[1]), False
    before = value.producer() if value is not None else None
    if before is not None and is_op(before, "Transpose") and (ints_of(before, "perm") or [1, 0]) == [1, 0]:
        value, turned = source_of(before.inputs[0]), True
    matrix = constant(value)
    if value is None or matrix is None or matrix.ndim != 2 or matrix.dtype.kind != "f":
        return None
    if int_of(node, "transA", 0) or float_of(node, "alpha", 1.0) != 1.0:
        return None
    turned ^= bool(int_of(node, "transB", 0))
    return value, matrix.T if turned else matrix


def _row(value: ir.Value, numbers: Values) -> Part:
    """Classifies a constant array: a row, one repeated number, or an ordinary value."""
    if numbers.dtype.kind != "f":
        return Linear({value: None})
    if numbers.size and (numbers == numbers.reshape(-1)[0]).all():
        return float(numbers.reshape(-1)[0])
    if numbers.ndim == 1 or numbers.shape[:-1] == (1,):
        return Linear({}, numbers.reshape(-1))
    return Linear({value: None})


def _bounds(node: ir.Node, value: ir.Value) -> tuple[int, int | None, int] | None:
    """Returns where a Split or Slice of the last axis begins and ends; the end is None for equal pieces."""
    if is_op(node, "Split"):
        if int_of(node, "axis", 0) not in (1, -1):
            return None
        place = list(node.outputs).index(value)
        listed = ints_of(node, "split") if input_of(node, 1) is None else constant(node.inputs[1])
        if listed is None:
            return place, None, len(node.outputs)
        sizes = [int(size) for size in listed]
        return sum(sizes[:place]), sum(sizes[: place + 1]), 0
    if input_of(node, 1) is None:
        starts, ends, axes, steps = (ints_of(node, name) for name in ("starts", "ends", "axes", "steps"))
    else:
        operands = [constant(input_of(node, place)) for place in (1, 2, 3, 4)]
        starts, ends, axes, steps = (None if array is None else [int(n) for n in array] for array in operands)
    if axes not in ([1], [-1]) or starts is None or ends is None or steps not in (None, [1]) or starts[0] < 0:
        return None
    return starts[0], ends[0], 0


def _cut(whole: Part, start: int, end: int | None, pieces: int) -> Part | None:
    """Slices the last axis of a part."""
    if isinstance(whole, float):
        return whole
    if isinstance(whole, Curve):
        inputs = [_cut(part, start, end, pieces) for part in whole.inputs]
        parts = tuple(part for part in inputs if part is not None)
        return Curve(whole.operator, parts) if len(parts) == len(inputs) else None
    arrays = [array for array in (*whole.parts.values(), whole.bias) if array is not None]
    if not arrays or whole.as_it_is:
        return None
    width = arrays[0].shape[-1]
    if pieces:
        if width % pieces:
            return None
        start, end = start * (width // pieces), (start + 1) * (width // pieces)
    part = slice(start, end)
    bias = None if whole.bias is None else whole.bias[part]
    return Linear({key: m if m is None else m[:, part] for key, m in whole.parts.items()}, bias)


def _sum(one: Part | None, other: Part | None, sign: float) -> Linear | None:
    """Adds two linear forms."""
    if isinstance(one, float) and isinstance(other, Linear):
        one = _full(other, one)
    if isinstance(other, float) and isinstance(one, Linear):
        other = _full(one, other)
    if not isinstance(one, Linear) or not isinstance(other, Linear) or one.is_value or other.is_value:
        return None
    if one.parts.keys() & other.parts.keys():
        return None
    if other.as_it_is:
        return None
    turned = {key: m if m is None or sign > 0 else -m for key, m in other.parts.items()}
    biases = [b for b in (one.bias, other.bias if other.bias is None else sign * other.bias) if b is not None]
    if len({b.shape for b in biases}) > 1:
        return None
    return Linear({**one.parts, **turned}, sum(biases[1:], biases[0]) if biases else None)


def _full(beside: Linear, number: float) -> Linear | None:
    """Broadcasts a number to the width of a linear form."""
    arrays = [array for array in (*beside.parts.values(), beside.bias) if array is not None]
    if not arrays:
        return None
    return Linear({}, np.full(arrays[0].shape[-1], number, arrays[0].dtype) if number else None)


# --- cells -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """One step of an LSTM, a GRU or an RNN.

    Attributes:
        kind: The operator.
        gates: The linear form of each, in ONNX's order; of a GRU that of the state behind its reset is the last.
        x: What the step is fed.
        state: The state before it.
        memory: The second state before it; None where there is none, or where it is zero.
        reset: The state behind its reset, of a GRU that multiplies it by weights; None where the product is reset.
        hard: The slope and the offset of HardSigmoid, where gates have that; None where they have Sigmoid.
    """

    kind: str
    gates: tuple[Linear, ...]
    x: ir.Value
    state: ir.Value
    memory: ir.Value | None = None
    reset: ir.Value | None = None
    hard: tuple[float, float] | None = None

    def same(self, other: Cell) -> bool:
        """Whether both are the same function."""
        named = {self.x: other.x, self.state: other.state}
        if (self.reset is None) != (other.reset is None) or self.hard != other.hard:
            return False
        if self.reset is not None and other.reset is not None:
            named[self.reset] = other.reset
        return self.kind == other.kind and all(
            one.equals(two, named) for one, two in zip(self.gates, other.gates, strict=True)
        )


@dataclass(slots=True)
class _Atoms:
    """Replaces each distinct linear form by random numbers, so functions can be compared by values."""

    pairs: list[tuple[Linear, Array]] = field(default_factory=list)

    def value(self, part: Part) -> Array:
        if isinstance(part, float):
            return np.asarray(part)
        if isinstance(part, Curve):
            function = _FUNCTIONS[part.operator]
            return np.asarray(function(*(self.value(operand) for operand in part.inputs)), np.float64)
        for form, numbers in self.pairs:
            if form.same(part):
                return numbers
        # Half of the numbers are far enough from zero for gates that end there.
        numbers = np.random.default_rng(len(self.pairs)).normal(0.0, [1.5, 6.0] * (_POINTS // 2))
        self.pairs.append((part, numbers))
        return numbers


_FUNCTIONS: dict[str, Callable[..., Array]] = {**FUNCTIONS, "Min": np.minimum}

Gate = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gate(hard: tuple[float, float] | None) -> Gate:
    """Returns the function of gates: Sigmoid, or HardSigmoid with a slope and an offset."""
    if hard is None:
        return _sigmoid
    slope, offset = hard
    return lambda x: np.clip(slope * x + offset, 0.0, 1.0)


_HARD: tuple[tuple[float, float] | None, ...] = (None, (0.2, 0.5), (1 / 6, 0.5), (0.25, 0.5), (1.0, 0.0))
"""Gates to try: Sigmoid, then HardSigmoid as Keras, as PyTorch and as others have it."""


def lstm_memory(gates: Sequence[Array], memory: Array, gate: Gate) -> Array:
    """Computes the cell state of an LSTM from its gates in ONNX's order (i, o, f, c) and the previous one."""
    i, _, f, c = gates
    new_memory: Array = gate(f) * memory + gate(i) * np.tanh(c)
    return new_memory


def _lstm(gates: Sequence[Array], memory: Array, _: Array, gate: Gate) -> Array:
    new_state: Array = gate(gates[1]) * np.tanh(lstm_memory(gates, memory, gate))
    return new_state


def _gru(gates: Sequence[Array], _: Array, state: Array, gate: Gate) -> Array:
    z, r, fed, recurrent = gates
    new_state: Array = (1 - gate(z)) * np.tanh(fed + gate(r) * recurrent) + gate(z) * state
    return new_state


def _gru_reset_first(gates: Sequence[Array], _: Array, state: Array, gate: Gate) -> Array:
    z, new = gates
    new_state: Array = (1 - gate(z)) * np.tanh(new) + gate(z) * state
    return new_state


def _rnn(gates: Sequence[Array], _: Array, __: Array, ___: Gate) -> Array:
    new_state: Array = np.tanh(gates[0])
    return new_state


_CELLS: tuple[tuple[str, int, Callable[[Sequence[Array], Array, Array, Gate], Array]], ...] = (
    ("LSTM", 4, _lstm),
    ("GRU", 4, _gru),
    ("GRU", 2, _gru_reset_first),
    ("RNN", 1, _rnn),
)


def _is_clipped(part: Part) -> bool:
    """Whether a gate of it may be a HardSigmoid."""
    return isinstance(part, Curve) and (part.operator == "Min" or any(map(_is_clipped, part.inputs)))


def cell_of(step: Step, end: ir.Value) -> Cell | None:
    """Matches the LSTM, GRU or RNN cell whose new state is a value; None if it is no such cell."""
    part = step.part(end)
    if not isinstance(part, Curve):
        return None
    atoms = _Atoms()
    with np.errstate(all="ignore"):
        result = atoms.value(part)
        gates = [atom for atom in atoms.pairs if not atom[0].is_value]
        values = {next(iter(form.parts)): numbers for form, numbers in atoms.pairs if form.is_value}
        # A Sigmoid is no clipped line, and only these have a Min.
        bounds = _HARD if _is_clipped(part) else _HARD[:1]
        for (kind, count, function), hard in itertools.product(_CELLS, bounds):
            memory = next(iter(values), None) if kind == "LSTM" else None
            if len(gates) != count or len(values) > 1 or (kind == "GRU" and step.state not in values):
                continue
            before = np.zeros(()) if memory is None else values[memory]
            state = values.get(step.state, np.zeros(()))
            for order in itertools.permutations(gates):
                candidate = function([numbers for _, numbers in order], before, state, _gate(hard))
                if not np.allclose(candidate, result, rtol=_NEAR, atol=_NEAR):
                    continue
                cell = _cell(step, kind, tuple(form for form, _ in order), hard)
                if cell is not None:
                    return replace(cell, memory=memory)
    return None


def _cell(step: Step, kind: str, gates: tuple[Linear, ...], hard: tuple[float, float] | None) -> Cell | None:
    """Returns the cell with these gates; None if they do not share one input beside the state."""
    reset = None
    if kind == "GRU" and len(gates) == 2:
        z, new = gates
        reset = next((value for value in new.parts if step.level(value) and value is not step.state), None)
        r = None if reset is None else _reset_gate(step, reset, hard)
        if r is None:
            return None
        gates = (z, r, new)
    x = _fed(kind, gates, step.state, reset)
    if x is None or step.level(x):
        return None
    return Cell(kind=kind, gates=gates, x=x, state=step.state, reset=reset, hard=hard)


def _reset_gate(step: Step, reset: ir.Value, hard: tuple[float, float] | None) -> Linear | None:
    """Returns the form of the gate that a value is the state times of; None if it is something else."""
    part, atoms = step.part(reset), _Atoms()
    if part is None:
        return None
    product = atoms.value(part)
    gates = [(form, numbers) for form, numbers in atoms.pairs if not form.is_value]
    states = [numbers for form, numbers in atoms.pairs if form.is_value and step.state in form.parts]
    if len(gates) != 1 or len(states) != 1 or len(atoms.pairs) != 2:
        return None
    (form, numbers), (state,) = gates[0], states
    return form if np.allclose(product, _gate(hard)(numbers) * state, rtol=_NEAR, atol=_NEAR) else None


def _fed(kind: str, gates: Sequence[Linear], state: ir.Value, reset: ir.Value | None) -> ir.Value | None:
    """Returns the input that all gates share beside the state; None if they have no single one."""
    of_x, of_state = list(gates), list(gates)
    if reset is not None:
        of_state = list(gates[:2])
        if state in gates[2].parts:
            return None
    elif kind == "GRU":
        of_x, of_state = list(gates[:3]), [*gates[:2], gates[3]]
        if state in gates[2].parts or len(gates[3].parts) != 1:
            return None
    others = {value for form in gates for value in form.parts if value is not state and value is not reset}
    (x,) = others if len(others) == 1 else (None,)
    if x is None or any(x not in form.parts for form in of_x):
        return None
    return x if all(state in form.parts for form in of_state) else None


def is_memory(step: Step, cell: Cell, value: ir.Value) -> bool:
    """Whether a value is the new cell state of an LSTM step."""
    part = step.part(value)
    if not isinstance(part, Curve):
        return False
    atoms = _Atoms()
    with np.errstate(all="ignore"):
        actual = atoms.value(part)
        gates = [atoms.value(gate) for gate in cell.gates]
        memory = np.zeros(()) if cell.memory is None else atoms.value(Linear({cell.memory: None}))
        wanted = lstm_memory(gates, memory, _gate(cell.hard))
        return bool(np.allclose(actual, wanted, rtol=_NEAR, atol=_NEAR))
