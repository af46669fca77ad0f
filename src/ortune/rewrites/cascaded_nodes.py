"""Merges consecutive nodes of the same kind into one, or removes both.

What it is: Transpose after Transpose; Cast after a Cast that lost nothing; Reshape after anything that only changes the
    shape; Squeeze after Unsqueeze of the same axes and the other way round; Concat of all outputs of a Split, or of
    slices that together cover a whole tensor; Split of a Concat along the same axis and in the same pieces; Concat
    after a Concat along the same axis.
Why it costs: each node copies its tensor, or at least costs the overhead of a node. ONNX Runtime merges Cast and
    Transpose, and keeps the rest. Exporters leave such nodes between their own steps.
Evidence: such pairs in the graph.
Fix and its safety: exact: all values are equal.
Example: ``--rewrite cascaded-nodes``
References: ONNX operators, "Transpose", "Cast", "Reshape", "Split" and "Concat".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import cast_to, has_parameters, int_of, ints_of
from ortune.graph.constants import constant
from ortune.graph.model.graphs import name_of
from ortune.graph.nodes import holds, input_of, is_op, only_user, scopes_of, with_operator
from ortune.graph.shapes.known import Dims, InferredShape, Values, known_values
from ortune.graph.shapes.nearby import reduced_axes
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor, name_conflict

_LEAST_OPSET = 6  # before it, the type of a Cast is a string
_PIECES = ("Concat", "Split")
_THE_END = 2**31 - 1  # an end beyond any tensor
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
_D = ir.DataType
_HOLDS: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _D.BOOL: (_D.UINT8, _D.INT8, _D.INT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE),
    _D.UINT8: (_D.UINT16, _D.INT16, _D.INT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE),
    _D.INT8: (_D.INT16, _D.INT32, _D.INT64, _D.FLOAT16, _D.FLOAT, _D.DOUBLE),
    _D.INT16: (_D.INT32, _D.INT64, _D.FLOAT, _D.DOUBLE),
    _D.INT32: (_D.INT64, _D.DOUBLE),
    _D.FLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.BFLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.FLOAT: (_D.DOUBLE,),
}
"""Maps a type to the types that represent every number of it exactly."""
_WANTED = {*_HOLDS, _D.INT64, _D.DOUBLE} - {_D.UINT8}
"""Types to which a Cast gives the same result from every intermediate type. Casts of negative numbers to unsigned types
and all casts to strings depend on the intermediate type."""


class _Pairs:
    """Finds pairs of consecutive nodes and replaces each pair with one node or with none."""

    def __init__(self, model: ir.Model) -> None:
        self.model, self.editor = model, Editor(model)
        self.values = Values()
        self.merged: list[tuple[str, str]] = []  # name and operator of the second node of each pair
        self.reasons: dict[str, None] = {}

    @property
    def counts(self) -> Counter[str]:
        """Numbers of replaced pairs, keyed by the operator of the second node."""
        return Counter(op_type for _, op_type in self.merged)

    def run(self) -> None:
        """Replace pairs until none is left."""
        before = -1 if holds(self.model, *_FINDERS) else 0
        while before != len(self.merged):
            before = len(self.merged)
            self.values = known_values(self.model)
            for scope, opset in scopes_of(self.model):
                for node in list(scope) if opset >= _LEAST_OPSET else ():
                    if node.graph is scope and is_op(node, *_FINDERS) and not has_parameters(node):
                        _FINDERS[node.op_type](self, node)

    def replace(self, node: ir.Node, pairs: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """Replace all outputs of a node, or no outputs if a graph output's name cannot be taken over."""
        for old, new in pairs:
            if old.is_graph_output() and not self.editor.takes_name(new, old):
                self.reasons[name_conflict(node)] = None
                return
        for old, new in pairs:
            self.editor.replace(old, new)
        self.merged.append((name_of(node), node.op_type))

    def transposes(self, node: ir.Node) -> None:
        """Merge two consecutive Transposes."""
        first = _before(node, "Transpose")
        if first is None or first.inputs[0] is None:
            return
        one, other = (
            _perm(first, self.values.inferred(first.outputs[0])),
            _perm(node, self.values.inferred(first.outputs[0])),
        )
        if one is None or other is None or len(one) != len(other):
            return
        # Axis n of the result is axis other[n] of the intermediate value, so axis one[other[n]] of the input.
        order = [one[axis] for axis in other]
        if order == sorted(order):
            self.replace(node, [(node.outputs[0], first.inputs[0])])
            return
        merged = self.editor.node(
            node,
            "Transpose",
            [first.inputs[0]],
            [ir.AttrInt64s("perm", order)],
            name=node.name or "transpose",
        )
        self.replace(node, [(node.outputs[0], merged)])

    def casts(self, node: ir.Node) -> None:
        """Merge two consecutive Casts if the intermediate type represents every number of the source."""
        first = _before(node, "Cast")
        if first is None or first.inputs[0] is None:
            return
        source, middle, wanted = self.values.inferred(first.inputs[0]).dtype, cast_to(first), cast_to(node)
        if source is None or middle not in _HOLDS.get(source, ()) or wanted not in _WANTED:
            return
        if wanted == source:
            self.replace(node, [(node.outputs[0], first.inputs[0])])
            return
        attributes = list(node.attributes.values())
        merged = self.editor.node(node, "Cast", [first.inputs[0]], attributes, name=node.name or "cast")
        self.replace(node, [(node.outputs[0], merged)])

    def reshapes(self, node: ir.Node) -> None:
        """Merge a Reshape with a preceding view, unless the Reshape copies an intermediate size (0 in its shape)."""
        first = _before(node, *_VIEWS)
        sizes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
        if first is None or first.inputs[0] is None or sizes is None or not sizes.all():
            return
        attributes = list(node.attributes.values())
        inputs = [first.inputs[0], node.inputs[1]]
        merged = self.editor.node(node, "Reshape", inputs, attributes, name=node.name or "reshape")
        self.replace(node, [(node.outputs[0], merged)])

    def squeezes(self, node: ir.Node) -> None:
        """Remove a Squeeze and Unsqueeze of the same axes."""
        first = _before(node, "Unsqueeze" if node.op_type == "Squeeze" else "Squeeze")
        if first is None or first.inputs[0] is None:
            return
        rank = self.values.inferred((first if node.op_type == "Squeeze" else node).outputs[0]).dims
        one, other = _axes(first, rank), _axes(node, rank)
        if one is not None and one == other:
            self.replace(node, [(node.outputs[0], first.inputs[0])])

    def concats(self, node: ir.Node) -> None:
        """Merge a Concat with the Split, Slices or unshared Concats that compute its inputs."""
        axis = _axis(node, self.values.inferred(node.outputs[0]))
        if axis is None or None in node.inputs:
            return
        pieces = [value for value in node.inputs if value is not None]
        merged: list[ir.Value] = []
        while pieces:
            inner, count = self._inner(node, pieces, axis)
            merged += inner
            del pieces[:count]
        if merged == list(node.inputs):
            return
        if len(merged) == 1:
            self.replace(node, [(node.outputs[0], merged[0])])
            return
        attributes = list(node.attributes.values())
        joined = self.editor.node(node, "Concat", merged, attributes, name=node.name or "concat")
        self.replace(node, [(node.outputs[0], joined)])

    def _inner(self, node: ir.Node, pieces: Sequence[ir.Value], axis: int) -> tuple[Sequence[ir.Value], int]:
        """Return (values that can replace the leading pieces, number of these pieces)."""
        source, itself = pieces[0].producer(), (pieces[:1], 1)
        if source is None or source.graph is not node.graph or has_parameters(source):
            return itself
        values = [value for value in source.inputs if value is not None]
        if is_op(source, "Slice"):
            count = self._cut_up(pieces, axis)
            return (values[:1], count) if count else itself
        if not is_op(source, "Split", "Concat") or _axis(source, self.values.inferred(pieces[0])) != axis:
            return itself
        n_outputs = len(source.outputs)
        if None in source.inputs[:1] or list(source.outputs) != list(pieces[:n_outputs]):
            return itself
        if is_op(source, "Split"):
            return values[:1], n_outputs
        # An inner Concat with other readers stays, so merging would copy its tensors twice.
        joined = only_user(pieces[0]) is node and len(values) == len(source.inputs)
        return (values, 1) if joined else itself

    def _cut_up(self, pieces: Sequence[ir.Value], axis: int) -> int:
        """Return the number of leading pieces that together are all slices of one value; 0 if they are not.

        If the value's size is unknown, all bounds must count from the same end; otherwise the pieces of a short value
        could overlap.
        """
        first = pieces[0].producer()
        value = first.inputs[0] if first is not None else None
        dims = self.values.inferred(value).dims
        size = dims[axis] if dims is not None and axis < len(dims) else None
        at, from_the_end = 0, False
        for count, piece in enumerate(pieces, 1):
            bounds = _bounds(piece.producer(), value, axis, dims)
            if bounds is None:
                return 0
            low, high = bounds
            if isinstance(size, int):
                low, high, _ = slice(low, high).indices(size)
                high = max(low, high)
            if low != at:
                return 0
            if high >= (size if isinstance(size, int) else _THE_END):
                return count
            from_the_end = high < 0 if count == 1 else from_the_end
            if (high < 0) != from_the_end or (count > 1 and high < low):
                return 0
            at = high
        return 0

    def splits(self, node: ir.Node) -> None:
        """Remove a Concat and a Split into the same pieces."""
        first = _before(node, "Concat")
        if first is None or len(first.inputs) != len(node.outputs) or None in first.inputs:
            return
        joined = self.values.inferred(first.outputs[0])
        axis = _axis(node, joined)
        if axis is None or axis != _axis(first, joined):
            return
        pieces = [value for value in first.inputs if value is not None]
        before = [dims[axis] if (dims := self.values.inferred(v).dims) else None for v in pieces]
        after = [dims[axis] if (dims := self.values.inferred(v).dims) else None for v in node.outputs]
        if None not in before and before == after:
            self.replace(node, list(zip(list(node.outputs), pieces, strict=True)))


_FINDERS = {
    "Transpose": _Pairs.transposes,
    "Cast": _Pairs.casts,
    "Reshape": _Pairs.reshapes,
    "Squeeze": _Pairs.squeezes,
    "Unsqueeze": _Pairs.squeezes,
    "Concat": _Pairs.concats,
    "Split": _Pairs.splits,
}


def _before(node: ir.Node, *names: str) -> ir.Node | None:
    """Return the producer of a node's first input if it has one of the given operators; otherwise None."""
    producer = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
    return (
        producer
        if producer is not None and is_op(producer, *names) and not has_parameters(producer)
        else None
    )


def _bounds(
    node: ir.Node | None, value: ir.Value | None, axis: int, dims: Dims | None
) -> tuple[int, int] | None:
    """Return (start, end) of a Slice of a value along one axis with step 1; None for any other node."""
    if node is None or not is_op(node, "Slice") or has_parameters(node) or node.inputs[0] is not value:
        return None
    if input_of(node, 1) is None:
        starts, ends, axes, steps = (ints_of(node, name) for name in ("starts", "ends", "axes", "steps"))
    else:
        starts, ends, axes, steps = (_ints(input_of(node, position)) for position in (1, 2, 3, 4))
    if starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    # An input that is given but not constant is not the default.
    if (axes is None and input_of(node, 3) is not None) or (steps is None and input_of(node, 4) is not None):
        return None
    (along,) = axes or [0]
    along += len(dims) if along < 0 and dims is not None else 0
    return (starts[0], ends[0]) if along == axis and steps in (None, [1]) else None


def _ints(value: ir.Value | None) -> list[int] | None:
    numbers = constant(value, most=1)
    return None if numbers is None else [int(n) for n in numbers.reshape(-1)]


def _perm(node: ir.Node, source: InferredShape) -> list[int] | None:
    listed = ints_of(node, "perm")
    if listed is not None:
        return listed
    return list(reversed(range(len(source.dims)))) if source.dims is not None else None


def _axis(node: ir.Node, source: InferredShape) -> int | None:
    """Return a node's axis as a non-negative number; None if it is negative and the rank is unknown."""
    axis = int_of(node, "axis", 0)
    return axis if axis >= 0 else None if source.dims is None else axis + len(source.dims)


def _axes(node: ir.Node, dims: Dims | None) -> set[int] | None:
    """Return the axes of a Squeeze or Unsqueeze as non-negative numbers in the longer shape; None if unknown."""
    axes = reduced_axes(node)
    if axes is None or (dims is None and min(axes, default=0) < 0):
        return None
    return {axis % len(dims) if dims is not None else axis for axis in axes}


def _merge(model: ir.Model) -> _Pairs:
    pairs = _Pairs(model)
    pairs.run()
    return pairs


def joined_and_split(model: ir.Model) -> list[tuple[str, str]]:
    """Return pairs (name, operator) for each Concat and Split that the rewrite would merge or remove."""
    if not any(_before(node, *_PIECES, "Slice") for node in with_operator(model, *_PIECES)):
        return []
    return [entry for entry in dict.fromkeys(_merge(model.clone()).merged) if entry[1] in _PIECES]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    done = _merge(model)
    count, reasons = done.counts.total(), tuple(done.reasons)
    if not count:
        why = reasons or ("no consecutive nodes of the same kind were matched",)
        return unchanged(*why)
    what = f"Merged {amount(count, 'pair')} of nodes."
    return RewriteResult(modified=True, what=what, reasons=reasons)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not any(_before(node, *_FINDERS, *_VIEWS, "Slice") for node in with_operator(model, *_FINDERS)):
        return []
    counts = _merge(model.clone()).counts
    # ONNX Runtime itself merges pairs of Transposes and of Casts.
    count = counts.total() - counts["Transpose"] - counts["Cast"]
    pairs = amount(count, "pair of nodes", "pairs of nodes")
    return [({}, f"{pairs} could be merged into one node, or removed")] if count else []


REWRITE = Rewrite(
    name="cascaded-nodes",
    summary="merges consecutive nodes of the same kind, or removes them",
    safety="exact",
    stage=CLEAN_UP,
    change=_change,
    proposes=_proposes,
)
