"""Classification of outputs by how they must be compared: as values, as labels decided by ties, or as reorderable rows.

Correct plans round differently. If the model then picks the largest score, a near tie may be decided either way: a
label changes, or two positions of a TopK are swapped, although neither plan is wrong. This module determines from the
graph which outputs may change in this way, along which axis their rows may be reordered, and which scores decide a
label. Outputs that cannot be followed are compared element by element.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import onnx_ir as ir

from ortune.graph.attributes import cast_to, int_of, ints_of, texts_of
from ortune.graph.dataflow import Flow
from ortune.graph.kinds import COMPARISONS, LOGICAL
from ortune.graph.labels import CLASSIFIERS, LabelSource, follows, label_source, takes_one
from ortune.graph.model.graphs import element_type, op_set
from ortune.graph.output_order import (
    Roles,
    RowOrder,
    Sized,
    decided_order,
    decided_roles,
    followed_order,
    followed_roles,
)
from ortune.graph.randomness import is_random, random_ops, random_outputs, value_dependent_ops
from ortune.graph.shapes.known import Values, known_values

__all__ = [
    "OutputComparison",
    "OutputKind",
    "class_labels",
    "column_classes",
    "deciding_scores",
    "output_comparisons",
    "random_ops",
    "random_outputs",
    "value_dependent_ops",
]

OutputKind = Literal["values", "labels", "indices", "set", "random", "random length"]
"""The way in which an output is compared; see ``OutputComparison``."""

_ORDER: tuple[OutputKind, ...] = ("values", "labels", "indices", "set")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """The comparison that an output requires.

    Attributes:
        kind: "values": element by element. "labels": element by element; a label with tied best scores may differ.
            "indices": positions that may be reordered. "set": rows that may be reordered, added or dropped. "random":
            by shape and finiteness. "random length": by rank, approximate size and finiteness.
        roles: For "indices" and "set", the role of each axis; None if it is unknown, so the order is fixed. Sorted
            scores of a TopK have roles too, but are compared as "values".
        order: The selection that gave the rows their order; None if it is unknown, or if there are no roles.
        labels: For "labels", the source of the scores; None if it cannot be traced, so no label may differ.
    """

    kind: OutputKind = "values"
    roles: Roles | None = None
    order: RowOrder | None = None
    labels: LabelSource | None = None


def deciding_scores(comparison: OutputComparison) -> ir.Value | None:
    """Return the value with the scores that decided an output's labels, or by which its rows are sorted, if any."""
    if comparison.labels is not None:
        return comparison.labels.scores
    return None if comparison.order is None else comparison.order.scores


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a value in the data-flow analysis.

    ``varies``: it depends on the model's inputs. ``rounded``: it was computed in floating point, so two plans may
    differ in the last bits; ties between exact numbers are decided the same way everywhere. ``floating``: its elements
    are floating-point numbers. ``ordered``: rows are sorted by their value, so reordering tied rows changes nothing.
    """

    kind: OutputKind = "values"
    varies: bool = False
    rounded: bool = False
    floating: bool = False
    ordered: bool = False
    roles: Roles | None = None
    order: RowOrder | None = None
    labels: LabelSource | None = None


# Operators that only move, copy or compare numbers: exact values stay exact.
_MOVES = op_set(
    "Identity Cast CastLike Reshape Flatten Squeeze Unsqueeze Transpose Split Tile Expand Pad Concat Slice "
    "DepthToSpace SpaceToDepth ReverseSequence Trilu Dropout Optional OptionalGetElement SequenceConstruct "
    "SequenceAt SequenceInsert SequenceErase SplitToSequence ConcatFromSequence LabelEncoder ZipMap "
    "CategoryMapper FeatureVectorizer"
)
_GATHERS = op_set("Gather GatherElements GatherND ArrayFeatureExtractor")
_COMPARES = COMPARISONS | LOGICAL | op_set("IsInf IsNaN")
# Arithmetic on positions gives positions, such as the class or the row of a flattened position.
_COMBINES = op_set(
    "Add Sub Mul Div Mod Neg Abs Floor Ceil Round Sign Min Max Clip Where Pow Sum BitShift BitwiseAnd Concat"
)
_EXACT = (
    _MOVES
    | _GATHERS
    | _COMPARES
    | op_set(
        "Neg Abs Floor Ceil Round Sign Min Max Clip Where Relu ReduceMax ReduceMin MaxPool NonZero ArgMax ArgMin "
        "TopK Compress Unique OneHot ScatterElements ScatterND Scatter ConstantOfShape NonMaxSuppression Shape "
        "Size"
    )
)
# Their result is a mask or a count, which does not depend on the order of positions.
_FORGETS = op_set("Shape Size OneHot GlobalAveragePool GlobalMaxPool Scatter ScatterElements ScatterND")
_INTEGER_RESULT = op_set("Shape Size NonZero ArgMax ArgMin NonMaxSuppression") | _COMPARES

_KEEP_COLUMNS = op_set("Identity Cast Dropout Softmax LogSoftmax Sigmoid Normalizer")

# Operators that decide by comparing values, and the kind of each of their outputs.
_DECIDES: dict[str, tuple[OutputKind, ...]] = {
    "ArgMax": ("labels",),
    "ArgMin": ("labels",),
    "NonZero": ("indices",),
    "NonMaxSuppression": ("indices",),
    "Compress": ("set",),
    "Unique": ("set", "indices", "values", "indices"),
}


def class_labels(model: ir.Model) -> dict[str, tuple[str, ...]]:
    """Return the class labels of each ZipMap output, in column order, as text."""
    labels = {}
    for value in model.graph.outputs:
        node = _behind(value, ("Identity",)).producer()
        if node is None or node.op_type != "ZipMap":
            continue
        numbers, texts = ints_of(node, "classlabels_int64s"), texts_of(node, "classlabels_strings")
        labels[value.name or ""] = tuple(map(str, numbers or texts or ()))
    return labels


def column_classes(model: ir.Model) -> dict[str, tuple[str, ...]]:
    """Return the classes of the columns of each output with a classifier's scores, as text."""
    classes = {}
    for value in model.graph.outputs:
        scores = _behind(value, _KEEP_COLUMNS)
        node = scores.producer()
        source = label_source(node, 0) if node is not None and node.op_type in CLASSIFIERS else None
        if source is not None and source.scores is scores and source.classes:
            classes[value.name or ""] = tuple(map(str, source.classes))
    return classes


def _behind(value: ir.Value, operators: Collection[str]) -> ir.Value:
    """Return the value before the chain of ``operators`` that ends at ``value``; ``value`` itself without one."""
    node = value.producer()
    while node is not None and node.op_type in operators and node.inputs[0] is not None:
        value = node.inputs[0]
        node = value.producer()
    return value


def output_comparisons(model: ir.Model) -> dict[str, OutputComparison]:
    """Return how each graph output must be compared, by name, in graph order."""
    shapes: list[Values] = []

    def sized() -> Values:
        # Inferred on demand: most models have no output with a free order.
        if not shapes:
            shapes.append(known_values(model))
        return shapes[0]

    def transfer(node: ir.Node, inputs: list[_State], inside: list[_State] | None) -> list[_State]:
        return _transfer(node, inputs, inside, sized)

    flow: Flow[_State] = Flow(bottom=_State(), join=_join, transfer=transfer)
    fed = set(model.graph.inputs) - set(model.graph.initializers.values())
    flow.run(model, lambda value: _State(varies=value in fed, floating=_is_floating(value) is True))
    made = {value for node in model.graph for value in node.outputs}
    return {str(value.name): _comparison(flow.state(value), made) for value in model.graph.outputs}


def _comparison(state: _State, made: set[ir.Value]) -> OutputComparison:
    """Return the comparison for an output's final state; ``made`` contains the values computed in the main graph."""
    if state.kind == "labels":
        # Scores inside a subgraph cannot be read.
        labels = state.labels if state.labels is not None and state.labels.scores in made else None
        # Numbers computed from labels by nodes that are not followed are compared as values.
        return OutputComparison(
            kind="values" if state.floating and labels is None else "labels", labels=labels
        )
    if state.roles is None:
        return OutputComparison()
    order = state.order
    if order is not None and order.scores not in made:
        order = replace(order, scores=None)
    return OutputComparison(kind="values" if state.ordered else state.kind, roles=state.roles, order=order)


def _transfer(node: ir.Node, inputs: list[_State], inside: list[_State] | None, sized: Sized) -> list[_State]:
    op = node.op_type
    if inside is not None:
        # A body that runs once per element emits results in its own order.
        if op in ("Loop", "Scan", "SequenceMap"):
            return [replace(state, roles=None, order=None, labels=None) for state in inside]
        # Each call of a function selects rows of its own.
        return [
            state
            if state.order is None
            else replace(state, order=replace(state.order, key=(node, state.order.key)))
            for state in inside
        ]
    varies, rounded = any(s.varies for s in inputs), any(s.rounded for s in inputs)
    floating = any(s.floating for s in inputs)
    if is_random(node):
        varies = rounded = floating = True
    if op not in _EXACT and varies and floating:
        rounded = True
    kind = _kind(op, inputs)
    deciding = _deciding(node, rounded=rounded, varies=varies)
    after = []
    for index, value in enumerate(node.outputs):
        declared = _is_floating(value)
        state = _State(
            kind=kind,
            varies=varies,
            rounded=rounded,
            floating=_result_floating(node, floating=floating) if declared is None else declared,
        )
        if index < len(deciding) and deciding[index] != "values":
            after.append(_decided(node, index, deciding[index], state, inputs[0], sized))
        else:
            after.append(_inherited(node, index, state, inputs, sized))
    return after


def _decided(
    node: ir.Node, index: int, kind: OutputKind, state: _State, source: _State, sized: Sized
) -> _State:
    """Return the state of an output that a node decides by comparing values."""
    if source.kind == "set" and node.op_type not in ("NonMaxSuppression", "NonZero"):
        # A decision about rows in free order has a free order too.
        roles = followed_roles(node, [source.roles], [True], sized) if source.roles else None
        return replace(state, kind="set", roles=roles, order=decided_order(node, source.order))
    if kind == "labels":
        return replace(state, kind=kind, labels=label_source(node, index))
    # Sorted best scores differ only by rounding, whichever of two tied scores comes first.
    ordered = node.op_type == "TopK" and index == 0 and bool(int_of(node, "sorted", 1))
    roles, order = decided_roles(node, index, sized), decided_order(node, source.order)
    return replace(state, kind=kind, roles=roles, order=order, ordered=ordered)


def _inherited(node: ir.Node, index: int, state: _State, inputs: list[_State], sized: Sized) -> _State:
    """Return the state of an output with the order and labels inherited from the node's inputs."""
    if state.kind == "values":
        return state
    if state.kind == "labels":
        (at, *more) = [i for i, s in enumerate(inputs) if s.kind == "labels"]
        source = inputs[at].labels
        alone = not more and all(not s.varies for i, s in enumerate(inputs) if i != at)
        if source is None or not alone or not follows(node, at):
            return state
        return replace(state, labels=replace(source, path=(*source.path, node)))
    tracked = [s.roles if s.kind in ("indices", "set") else None for s in inputs]
    if all(roles is None for roles in tracked):
        return state
    # Inputs with a free order that could not be followed mix with the others.
    if any(s.kind in ("indices", "set") and roles is None for s, roles in zip(inputs, tracked, strict=True)):
        return state
    roles = followed_roles(node, tracked, [not s.varies for s in inputs], sized)
    order = None if roles is None else followed_order(node, index, tracked, [s.order for s in inputs])
    ordered = all(s.ordered for s, own in zip(inputs, tracked, strict=True) if own is not None)
    return replace(state, roles=roles, order=order, ordered=ordered)


def _deciding(node: ir.Node, *, rounded: bool, varies: bool) -> tuple[OutputKind, ...]:
    op = node.op_type
    if op in CLASSIFIERS and varies:
        # They compute scores internally, so even exact inputs may give a rounded tie.
        return ("labels", "values")
    if op == "TopK" and rounded:
        if takes_one(node):
            return ("values", "labels")
        return ("set", "indices")
    return _DECIDES.get(op, ()) if rounded else ()


def _kind(op: str, inputs: Sequence[_State]) -> OutputKind:
    """Return the kind that an operator's output inherits from its inputs."""
    kinds = [s.kind for s in inputs]
    if all(kind == "values" for kind in kinds) or op in _FORGETS:
        return "values"
    if "set" in kinds:
        return "set"
    if "indices" in kinds:
        return _kind_with_indices(op, inputs)
    # A mask of labels, or a sum over them, is compared as values.
    return "values" if op in _COMPARES or op.startswith("Reduce") else "labels"


def _kind_with_indices(op: str, inputs: Sequence[_State]) -> OutputKind:
    if op == "Where":
        inputs = inputs[1:]
    indices = [s.kind == "indices" for s in inputs]
    if op in _COMPARES or not any(indices):
        return "values"
    if op in _GATHERS and not indices[0]:
        # Constant integers gathered at positions rename the positions; anything else is a selection of rows.
        still = not inputs[0].varies and not inputs[0].floating
    elif op in _GATHERS:
        # Positions gathered at fixed places stay positions; positions gathered at positions are reordered.
        still = not any(indices[1:])
    elif op in _MOVES and op != "Concat":
        # Positions that are moved, or other data moved according to positions.
        still = indices[0]
    else:
        still = op in _COMBINES and all(s.kind == "indices" or not s.varies for s in inputs)
    return "indices" if still else "set"


def _join(a: _State, b: _State) -> _State:
    return _State(
        kind=max(a.kind, b.kind, key=_ORDER.index),
        varies=a.varies or b.varies,
        rounded=a.rounded or b.rounded,
        floating=a.floating or b.floating,
        ordered=a.ordered and b.ordered,
        roles=a.roles if a.roles == b.roles else None,
        order=a.order if a.order == b.order else None,
        labels=a.labels if a.labels == b.labels else None,
    )


def _is_floating(value: ir.Value) -> bool | None:
    if not isinstance(value.type, ir.TensorType):
        return None
    return value.type.dtype.is_floating_point()


def _result_floating(node: ir.Node, *, floating: bool) -> bool:
    if node.op_type in _INTEGER_RESULT:
        return False
    to = element_type(cast_to(node))
    return floating if to is None else to.is_floating_point()
