"""The cell that one step of a recurrence computes, matched by values and independent of its nodes.

Apart from its matrix products, a step is an elementwise function of linear forms of its input, the previous state and
constants. Exporters write these in many ways: one product or one per gate, split before or after the activation, the
state concatenated to the input or not. Evaluating the function on chosen numbers shows which gate is which.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import Array
from ortune.graph.evaluation import FUNCTIONS
from ortune.rewrites._linear_forms import Curve, Linear, Part
from ortune.rewrites._step import RecurrenceStep

_POINTS = 128
_NEAR = 1e-6  # gate slopes are rounded to float32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecurrentCell:
    """One step of an LSTM, a GRU or an RNN.

    Attributes:
        kind: The ONNX operator: "LSTM", "GRU" or "RNN".
        gates: The linear form of each gate, in ONNX's order; the last form of a GRU belongs to the reset state.
        x: Input of the step.
        state: State before the step.
        memory: Cell state of an LSTM before the step; None for other kinds and for a zero cell state.
        reset: The reset state that a GRU multiplies by weights; None if the reset gate is applied to the product
            instead.
        hard: Slope and offset of HardSigmoid if the gates use it; None for Sigmoid.
    """

    kind: str
    gates: tuple[Linear, ...]
    x: ir.Value
    state: ir.Value
    memory: ir.Value | None = None
    reset: ir.Value | None = None
    hard: tuple[float, float] | None = None

    def same(self, other: RecurrentCell) -> bool:
        """Return whether both cells compute the same function."""
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
    """Assigns random numbers to each distinct linear form, so that functions can be compared by their values."""

    pairs: list[tuple[Linear, Array]] = field(default_factory=list)

    def value(self, part: Part) -> Array:
        if isinstance(part, float):
            return np.asarray(part)
        if isinstance(part, Curve):
            function = FUNCTIONS[part.operator]
            return np.asarray(function(*(self.value(operand) for operand in part.inputs)), np.float64)
        for form, numbers in self.pairs:
            if form.same(part):
                return numbers
        # Half of the numbers are far enough from zero to saturate a HardSigmoid.
        numbers = np.random.default_rng(len(self.pairs)).normal(0.0, [1.5, 6.0] * (_POINTS // 2))
        self.pairs.append((part, numbers))
        return numbers


Gate = Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _gate(hard: tuple[float, float] | None) -> Gate:
    """Return the gate function: Sigmoid for None, or HardSigmoid with the given (slope, offset)."""
    if hard is None:
        return _sigmoid
    slope, offset = hard
    return lambda x: np.clip(slope * x + offset, 0.0, 1.0)


_HARD: tuple[tuple[float, float] | None, ...] = (None, (0.2, 0.5), (1 / 6, 0.5), (0.25, 0.5), (1.0, 0.0))
"""Gate functions to try: None for Sigmoid, then (slope, offset) of HardSigmoid in Keras, PyTorch and elsewhere."""


def lstm_memory(gates: Sequence[Array], memory: Array, gate: Gate) -> Array:
    """Compute the new cell state of an LSTM from its gates in ONNX's order (i, o, f, c) and the previous cell state."""
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


def _near(actual: Array, wanted: Array) -> bool:
    """Compare like ``np.allclose``, but five times as fast for few values; infinities are close to no number."""
    return bool((np.abs(actual - wanted) <= _NEAR * (1 + np.abs(wanted))).all())


def _is_clipped(part: Part) -> bool:
    """Return whether a part contains a clipped value, so a gate may be a HardSigmoid."""
    return isinstance(part, Curve) and (part.operator == "Min" or any(map(_is_clipped, part.inputs)))


def cell_of(step: RecurrenceStep, end: ir.Value) -> RecurrentCell | None:
    """Match the LSTM, GRU or RNN cell whose new state is `end`; return None if there is no such cell."""
    part = step.part(end)
    if not isinstance(part, Curve):
        return None
    atoms = _Atoms()
    with np.errstate(all="ignore"):
        result = atoms.value(part)
        gates = [atom for atom in atoms.pairs if not atom[0].is_value]
        values = {next(iter(form.parts)): numbers for form, numbers in atoms.pairs if form.is_value}
        # HardSigmoid is a clipped line, and only clipped parts contain a Min.
        bounds = _HARD if _is_clipped(part) else _HARD[:1]
        for (kind, count, function), hard in itertools.product(_CELLS, bounds):
            # An LSTM uses one value without a matrix, its cell state; a GRU uses its own state.
            memory = next(iter(values), None) if kind == "LSTM" else None
            if len(gates) != count or len(values) > 1 or (kind == "GRU" and step.state not in values):
                continue
            before = np.zeros(()) if memory is None else values[memory]
            state = values.get(step.state, np.zeros(()))
            # Gates come in any order and only the function identifies them, so all orders are tried, at most
            # 24.
            for order in itertools.permutations(gates):
                candidate = function([numbers for _, numbers in order], before, state, _gate(hard))
                if not _near(candidate, result):
                    continue
                cell = _cell(step, kind, tuple(form for form, _ in order), hard)
                if cell is not None:
                    return replace(cell, memory=memory)
    return None


def _cell(
    step: RecurrenceStep, kind: str, gates: tuple[Linear, ...], hard: tuple[float, float] | None
) -> RecurrentCell | None:
    """Return the cell with the given gates; None if the gates do not share one input in addition to the state."""
    reset = None
    # Here the reset gate is not among the forms of the new state: the product reads the reset state, which is
    # the reset gate times the state.
    if kind == "GRU" and len(gates) == 2:
        z, new = gates
        reset = next((value for value in new.parts if step.level(value) and value is not step.state), None)
        r = None if reset is None else _reset_gate(step, reset, hard)
        if r is None:
            return None
        gates = (z, r, new)
    # All gates must read one input, or no ONNX operator can replace the step.
    x = _common_input(kind, gates, step.state, reset)
    if x is None or step.level(x):
        return None
    return RecurrentCell(kind=kind, gates=gates, x=x, state=step.state, reset=reset, hard=hard)


def _reset_gate(step: RecurrenceStep, reset: ir.Value, hard: tuple[float, float] | None) -> Linear | None:
    """Return the linear form of the reset gate if `reset` is that gate times the state; otherwise None."""
    part, atoms = step.part(reset), _Atoms()
    if part is None:
        return None
    product = atoms.value(part)
    gates = [(form, numbers) for form, numbers in atoms.pairs if not form.is_value]
    states = [numbers for form, numbers in atoms.pairs if form.is_value and step.state in form.parts]
    if len(gates) != 1 or len(states) != 1 or len(atoms.pairs) != 2:
        return None
    (form, numbers), (state,) = gates[0], states
    return form if _near(product, _gate(hard)(numbers) * state) else None


def _common_input(
    kind: str, gates: Sequence[Linear], state: ir.Value, reset: ir.Value | None
) -> ir.Value | None:
    """Return the input that all gates read in addition to the state; None if the gates read different inputs."""
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


def is_memory(step: RecurrenceStep, cell: RecurrentCell, value: ir.Value) -> bool:
    """Return whether a value is the new cell state of an LSTM step."""
    part = step.part(value)
    if not isinstance(part, Curve):
        return False
    atoms = _Atoms()
    with np.errstate(all="ignore"):
        actual = atoms.value(part)
        gates = [atoms.value(gate) for gate in cell.gates]
        memory = np.zeros(()) if cell.memory is None else atoms.value(Linear({cell.memory: None}))
        wanted = lstm_memory(gates, memory, _gate(cell.hard))
        return _near(actual, wanted)
