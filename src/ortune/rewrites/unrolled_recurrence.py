"""Replaces an unrolled recurrence with one LSTM, GRU or RNN.

What it is: steps with the same weights, each fed with the state of the previous one. They are matched by what they
    compute on sample values. Gates may have one MatMul each or share one, be split before or after the activation, and
    the state may be concatenated with the input. They become one LSTM, GRU or RNN over all steps.
Why it costs: each step has ten to thirty small nodes, and launching one takes longer than computing it. A single
    operator multiplies all inputs by the weights at once, and packs the recurrent weights once.
Evidence: MatMul nodes that share their weights, one per step, with Sigmoid and Tanh in between.
Fix and its safety: exact: the same function; only rounding differs.
Example: ``--rewrite unrolled-recurrence``
References: ONNX operators, "LSTM", "GRU" and "RNN"; microsoft/onnxruntime#27796.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of
from ortune.graph.constants import constant
from ortune.graph.nodes import Scope, holds, input_of, is_op, only_user, scopes_of
from ortune.graph.shapes.known import Dims
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._cells import RecurrentCell
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import PatternFacts
from ortune.rewrites._recurrence import Recurrence, match_index, recurrences

_LEAST_OPSET = 7  # first version of today's LSTM, GRU and RNN
_AXES_ARE_INPUT = 13  # first opset in which the axes of Squeeze and Unsqueeze are an input
_AXES = 3  # rank of a sequence: steps, batch, features


def replaceable_recurrences(scope: Scope, look: PatternFacts) -> tuple[list[Recurrence], list[str]]:
    """Return (unrolled recurrences that one operator can replace, reasons that others cannot be replaced)."""
    matches, reasons = list[Recurrence](), list[str]()
    for candidate in recurrences(scope, look) if look.opset >= _LEAST_OPSET else ():
        why = candidate if isinstance(candidate, str) else _refusal(candidate, look)
        if isinstance(candidate, str) or why:
            reasons.append(why)
        else:
            matches.append(candidate)
    return matches, reasons


def _refusal(recurrence: Recurrence, look: PatternFacts) -> str:
    """Return why a recurrence cannot be replaced; "" if it can be."""
    first = recurrence.cells[0]
    what = f"the {recurrence.kind} with {len(recurrence.cells)} steps from {recurrence.nodes[0].name!r}"
    dims = [look.inferred(value).dims for value in (first.x, recurrence.states[0])]
    sizes = [size for size in dims if size is not None]
    if len(sizes) < len(dims) or any(len(size) != _AXES - 1 for size in sizes):
        return f"the input or state of {what} might not be two-dimensional (batch, features)"
    kinds = {
        matrix.dtype
        for cell in recurrence.cells[:1]
        for form in cell.gates
        for matrix in form.parts.values()
        if matrix is not None
    }
    if kinds != {np.dtype(np.float32)}:
        return f"{what} is not float32"
    for before in (first.state, first.memory):
        if (
            before is not None
            and not _is_zero(before)
            and not _has_row_per_batch_element(before, first.x, sizes, look)
        ):
            return f"{what} starts with {before.name!r}, whose shape might not be that of a state"
    return ""


def _has_row_per_batch_element(
    before: ir.Value, x: ir.Value, sizes: Sequence[Dims], look: PatternFacts
) -> bool:
    """Return whether a state has one row per batch element, rather than one row for the whole batch."""
    dims, piece = look.inferred(before).dims, match_index(x)
    if dims is None or len(dims) != _AXES - 1:
        return False
    if dims[0] in {size[0] for size in sizes} - {None}:
        return True
    # Else compare the names of dynamic dimensions.
    source, graph = x if piece is None else piece.source, before.graph
    fed = [v for v in graph.inputs if len(v.shape or ()) >= _AXES] if graph is not None else []
    shapes = [value.shape for value in (source, *fed) if value.shape is not None]
    named = {str(dim) for shape in shapes for dim in shape if isinstance(dim, ir.SymbolicDim) and dim.value}
    return before.shape is not None and str(before.shape[0]) in named


def _is_zero(value: ir.Value) -> bool:
    """Return whether a value is all zeros, stored or computed."""
    numbers, node = constant(value), value.producer()
    if numbers is not None:
        return not numbers.any()
    if is_op(node, "Expand", "Identity") and node is not None and node.inputs[0] is not None:
        return _is_zero(node.inputs[0])
    if node is None or not is_op(node, "ConstantOfShape"):
        return False
    fill = node.attributes.get("value")
    return fill is None or not np.any(fill.as_tensor().numpy())


class _Writer:
    """Inserts the operator that replaces a recurrence."""

    def __init__(self, editor: Editor, recurrence: Recurrence, look: PatternFacts) -> None:
        self.editor, self.recurrence, self.look = editor, recurrence, look
        self.at = recurrence.nodes[0]
        self.name = f"{self.at.name or 'steps'}_{recurrence.kind.lower()}"
        self.places = list(range(len(recurrence.cells)))
        self.gone = [*reversed(recurrence.nodes)]

    def write(self) -> None:
        """Replace the steps with the operator."""
        recurrence, cells = self.recurrence, self.recurrence.cells
        scope = self.at.graph
        assert scope is not None
        x = self._sequence()
        before = [self._begin(value) for value in self._begins()]
        attributes: list[ir.Attr] = [ir.AttrInt64("hidden_size", _hidden(cells[0]))]
        # The steps run through the sequence in reverse.
        if self.places[0] > self.places[-1]:
            attributes.append(ir.AttrString("direction", "reverse"))
        first = recurrence.cells[0]
        if recurrence.kind == "GRU":
            # Without a reset state, the reset gate is applied to the product: linear_before_reset in ONNX.
            attributes.append(ir.AttrInt64("linear_before_reset", int(first.reset is None)))
        if first.hard is not None:
            others = ["Tanh", "Tanh"] if recurrence.kind == "LSTM" else ["Tanh"]
            attributes.append(ir.AttrStrings("activations", ["HardSigmoid", *others]))
            attributes.append(ir.AttrFloat32s("activation_alpha", [first.hard[0]]))
            attributes.append(ir.AttrFloat32s("activation_beta", [first.hard[1]]))
        inputs = [x, *self._weights(), *([None, *before] if any(before) else [])]
        outputs = self.editor.outputs(
            self.at,
            recurrence.kind,
            inputs,
            attributes,
            name=self.name,
            count=3 if recurrence.kind == "LSTM" else 2,
        )
        own = set(recurrence.nodes)
        used = [_is_read(value, own) for value in recurrence.states]
        if recurrence.memory is not None and _is_read(recurrence.memory, own):
            self._put(recurrence.memory, self._without(outputs[2], 0), own)
        if used[-1] and not any(used[:-1]):
            self._put(recurrence.states[-1], self._without(outputs[1], 0), own)
        elif any(used):
            self._states(self._without(outputs[0], 1), own)
        read = dict.fromkeys(value for node in self.gone for value in node.inputs if value is not None)
        for node in self.gone:
            scope.remove(node, safe=True)
        for value in read:
            if value.producer() not in own:
                self.editor.drop(value)
        scope.sort()

    def _begins(self) -> list[ir.Value | None]:
        first = self.recurrence.cells[0]
        begins = [first.state, first.memory] if self.recurrence.kind == "LSTM" else [first.state]
        return [None if value is None or _is_zero(value) else value for value in begins]

    def _begin(self, value: ir.Value | None) -> ir.Value | None:
        return None if value is None else self._unsqueezed(value, 0)

    def _unsqueezed(self, value: ir.Value, axis: int) -> ir.Value:
        return self._axis("Unsqueeze", value, axis)

    def _without(self, value: ir.Value, axis: int) -> ir.Value:
        return self._axis("Squeeze", value, axis)

    def _axis(self, operator: str, value: ir.Value, axis: int) -> ir.Value:
        name = f"{self.name}_{operator.lower()}"
        if self.look.opset < _AXES_ARE_INPUT:
            return self.editor.node(self.at, operator, [value], [ir.AttrInt64s("axes", [axis])], name=name)
        axes = self.editor.constant(self.at, f"{name}_axis", np.array([axis]))
        return self.editor.node(self.at, operator, [value, axes], name=name)

    def _transposed(self, value: ir.Value, order: list[int]) -> ir.Value:
        if order == [0, 1, 2]:
            return value
        perm = [ir.AttrInt64s("perm", order)]
        return self.editor.node(self.at, "Transpose", [value], perm, name=f"{self.name}_transpose")

    def _sequence(self) -> ir.Value:
        """Return the inputs of all steps as one sequence with the axes (steps, batch, features)."""
        xs = [cell.x for cell in self.recurrence.cells]
        pieces = [match_index(x) for x in xs]
        slices = [piece for piece in pieces if piece is not None]
        count, first = len(xs), slices[0] if slices else None
        dims: Dims | None = self.look.inferred(first.source).dims if first is not None else None
        if first is not None and dims is not None and len(slices) == count and len(dims) == _AXES:
            size = dims[first.axis]
            places = [piece.place % size if isinstance(size, int) else piece.place for piece in slices]
            one = all((piece.source, piece.axis) == (first.source, first.axis) for piece in slices)
            if one and size == count and places in ([*range(count)], [*range(count)][::-1]):
                self.places = places
                return self._transposed(
                    first.source, [first.axis, *(a for a in range(_AXES) if a != first.axis)]
                )
        rows = [self._unsqueezed(x, 0) for x in xs]
        return self.editor.node(self.at, "Concat", rows, [ir.AttrInt64("axis", 0)], name=f"{self.name}_steps")

    def _weights(self) -> list[ir.Value]:
        """Return the operator's weight inputs: input weights, state weights, and the biases of both."""
        cell = self.recurrence.cells[0]
        fed, recurrent, reset = cell.gates, cell.gates, cell.state
        if cell.reset is not None:
            reset = cell.reset
        elif cell.kind == "GRU":
            fed, recurrent = cell.gates[:3], (*cell.gates[:2], cell.gates[3])
        hidden = _hidden(cell)
        # ONNX stores [gates * hidden, inputs].
        w = np.concatenate([_matrix(form.parts[cell.x]).T for form in fed])
        states = [cell.state] * len(recurrent)
        states[-1] = reset
        r = np.concatenate(
            [_matrix(form.parts[state]).T for form, state in zip(recurrent, states, strict=True)]
        )
        biases = [np.zeros(hidden) if form.bias is None else form.bias for form in fed]
        others = [np.zeros(hidden)] * len(fed)
        # If the product is reset, so is its bias, which must not be added to that of the input.
        if cell.kind == "GRU" and cell.reset is None and recurrent[2].bias is not None:
            others[2] = recurrent[2].bias
        b = np.concatenate([*biases, *others])
        named = (("input_weights", w), ("state_weights", r), ("biases", b))
        return [
            self.editor.constant(self.at, f"{self.name}_{name}", array[None].astype(np.float32))
            for name, array in named
        ]

    def _states(self, states: ir.Value, own: set[ir.Node]) -> None:
        """Replace the states that other nodes read with the corresponding states of the sequence ``states``."""
        stacked = _stacked(
            [self.recurrence.states[self.places.index(i)] for i in range(len(self.places))], own
        )
        if stacked is not None:
            value, axis, nodes = stacked
            order = [1, 2]
            # The operator puts the steps first; move them to the axis along which the model stacks them.
            order.insert(axis, 0)
            self._put(value, self._transposed(states, order), own)
            own.update(nodes)
            self.gone = [*nodes, *self.gone]
        for place, value in zip(self.places, self.recurrence.states, strict=True):
            if _is_read(value, own):
                at = self.editor.constant(self.at, f"{self.name}_place", np.array(place))
                name = f"{self.name}_state"
                one = self.editor.node(self.at, "Gather", [states, at], [ir.AttrInt64("axis", 0)], name=name)
                self._put(value, one, own)

    def _put(self, old: ir.Value, new: ir.Value, own: set[ir.Node]) -> None:
        """Replace a value for all readers except the nodes in ``own``."""
        new.type, new.shape = old.type, old.shape
        if old.is_graph_output():
            graph = self.at.graph
            assert graph is not None
            for place, value in enumerate(graph.outputs):
                if value is old:
                    graph.outputs[place] = new
            name, old.name = old.name, self.editor.fresh(f"{old.name}_before")
            new.name = name
        for use in list(old.uses()):
            if use.node not in own:
                use.node.replace_input_with(use.idx, new)


def _matrix(matrix: np.ndarray | None) -> np.ndarray:
    assert matrix is not None
    return matrix


def _hidden(cell: RecurrentCell) -> int:
    matrix = cell.gates[0].parts[cell.state]
    return int(_matrix(matrix).shape[1])


def _is_read(value: ir.Value, own: set[ir.Node]) -> bool:
    """Return whether a value is a graph output or read by nodes other than ``own``."""
    return value.is_graph_output() or any(use.node not in own for use in value.uses())


def _stacked(states: Sequence[ir.Value], own: set[ir.Node]) -> tuple[ir.Value, int, list[ir.Node]] | None:
    """Match a stack of all states in order along a new axis; return (stacked value, axis, nodes), or None."""
    rows: list[ir.Value] = []
    axes: set[int] = set()
    for state in states:
        users = [use.node for use in state.uses() if use.node not in own]
        node = next((user for user in users if is_op(user, "Unsqueeze")), None)
        listed = None
        if node is not None:
            listed = ints_of(node, "axes") if input_of(node, 1) is None else constant(node.inputs[1])
        if node is None or listed is None or len(listed) != 1:
            return None
        rows.append(node.outputs[0])
        axes.add(int(listed[0]) % _AXES)
    join = only_user(rows[0])
    if join is None or not is_op(join, "Concat") or list(join.inputs) != rows or len(axes) != 1:
        return None
    (axis,) = axes
    if int_of(join, "axis", 0) % _AXES != axis or any(only_user(row) is not join for row in rows):
        return None
    return join.outputs[0], axis, [join] + [node for row in rows if (node := row.producer()) is not None]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    editor, kinds, reasons = Editor(model), Counter[str](), dict[str, None]()
    before = -1
    # The output of one recurrence may be the input of the next.
    while before != kinds.total():
        before = kinds.total()
        look = PatternFacts(model)
        for scope, look.opset in scopes_of(model):
            matches, why = replaceable_recurrences(scope, look)
            reasons.update(dict.fromkeys(why))
            for match in matches[:1]:
                _Writer(editor, match, look).write()
                kinds[match.kind] += 1
    if not kinds:
        return unchanged(
            *(reasons or ("no MatMul nodes share their weights like the steps of a recurrence",))
        )
    what = " and ".join(f"{count} {kind}" for kind, count in kinds.items())
    return RewriteResult(modified=True, what=f"Replaced unrolled steps with {what}.", reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not holds(model, "Tanh"):
        return []
    look, kinds = PatternFacts(model), Counter[str]()
    for scope, look.opset in scopes_of(model):
        matches, _ = replaceable_recurrences(scope, look)
        kinds.update(f"{match.kind} of {len(match.cells)} steps" for match in matches)
    return [({}, f"unrolled: {', '.join(f'{n} {what}' for what, n in kinds.items())}")] if kinds else []


REWRITE = Rewrite(
    name="unrolled-recurrence",
    summary="replaces an unrolled recurrence with one LSTM, GRU or RNN",
    safety="exact",
    stage=0,
    change=_change,
    proposes=_proposes,
)
