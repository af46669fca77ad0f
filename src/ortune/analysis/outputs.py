"""How a model's outputs must be compared: some are values, some are positions or selections that a tie decides.

Two correct plans round differently. Where the model then picks the largest score, a near tie may be decided the
other way: the index changes, and with it everything gathered through it, though neither plan is wrong. Comparing
such outputs element by element would reject good plans; this module finds them from the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import onnx_ir as ir

from ortune.graph.attributes import cast_to, ints_of, texts_of
from ortune.graph.dataflow import Flow
from ortune.graph.randomness import is_random, random_ops, value_dependent_ops
from ortune.model.graphs import element_type, name_of, op_set

__all__ = [
    "OutputComparison",
    "OutputKind",
    "class_labels",
    "output_comparisons",
    "output_kinds",
    "random_ops",
    "value_dependent_ops",
]

OutputKind = Literal["values", "indices", "set"]
"""How an output must be compared; ``OutputComparison`` says what each means."""

_ORDER: tuple[OutputKind, ...] = ("values", "indices", "set")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputComparison:
    """How one graph output must be compared.

    Attributes:
        kind: "values": element by element. "indices": positions or labels that a near tie may change.
            "set": rows whose order or selection a near tie may change.
        paired: The graph output with the scores that decided (equal scores excuse other indices), or "".
        source: The node that decided: its name, or its first output's where it has none.
    """

    kind: OutputKind
    paired: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class _State:
    """What is known of a value.

    ``varies``: it depends on the model's inputs. ``rounded``: it went through floating-point arithmetic, so
    that two plans may differ in the last bits; a tie between exact numbers is decided the same way everywhere.
    """

    kind: OutputKind = "values"
    varies: bool = False
    rounded: bool = False
    floating: bool = False
    source: ir.Node | None = None


# Operators that only move, copy or compare numbers: what was exact stays exact.
_MOVES = op_set(
    "Identity Cast CastLike Reshape Flatten Squeeze Unsqueeze Transpose Split Tile Expand Pad Concat Slice "
    "DepthToSpace SpaceToDepth ReverseSequence Trilu Dropout Optional OptionalGetElement SequenceConstruct "
    "SequenceAt SequenceInsert SequenceErase SplitToSequence ConcatFromSequence LabelEncoder ZipMap "
    "CategoryMapper FeatureVectorizer"
)
_GATHERS = op_set("Gather GatherElements GatherND ArrayFeatureExtractor")
_COMPARES = op_set("Equal Greater GreaterOrEqual Less LessOrEqual Not And Or Xor IsNaN IsInf")
# Arithmetic on positions gives positions: the class of a flattened position, the row it lies in.
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
# What goes in as positions comes out as a mask, a sum or a count: the order no longer shows.
_FORGETS = op_set(
    "Shape Size OneHot ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp "
    "ReduceSumSquare GlobalAveragePool GlobalMaxPool"
)
_SCATTERS = op_set("Scatter ScatterElements ScatterND")
_INTEGER_RESULT = op_set("Shape Size NonZero ArgMax ArgMin NonMaxSuppression") | _COMPARES

# Operators that decide, and the kind of each of their outputs.
_DECIDES: dict[str, tuple[OutputKind, ...]] = {
    "TopK": ("set", "indices"),
    "ArgMax": ("indices",),
    "ArgMin": ("indices",),
    "NonZero": ("indices",),
    "NonMaxSuppression": ("indices",),
    "Compress": ("set",),
    "Unique": ("set", "indices", "indices", "indices"),
}
# These compute their scores themselves, so that even exact inputs end in a rounded tie.
_SCORES_AND_DECIDES: dict[str, tuple[OutputKind, ...]] = {
    "TreeEnsembleClassifier": ("indices", "values"),
    "LinearClassifier": ("indices", "values"),
    "SVMClassifier": ("indices", "values"),
    "GreedySearch": ("indices",),
    "BeamSearch": ("indices", "set", "set"),
    "WhisperBeamSearch": ("indices", "set", "set"),
}
# Between scores and a graph output that shows them, these keep which score is the largest.
_KEEPS_SCORES = op_set(
    "Identity Cast Reshape Flatten Squeeze Unsqueeze Transpose Softmax LogSoftmax Sigmoid ZipMap Normalizer "
    "Dropout"
)


def output_kinds(model: ir.Model) -> dict[str, OutputKind]:
    """Returns the kind of each graph output, by name, in graph order."""
    return {name: comparison.kind for name, comparison in output_comparisons(model).items()}


def class_labels(model: ir.Model) -> dict[str, tuple[str, ...]]:
    """Returns the class labels of each ZipMap output, in column order, as text."""
    labels = {}
    for value in model.graph.outputs:
        node = value.producer()
        while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        if node is None or node.op_type != "ZipMap":
            continue
        numbers, texts = ints_of(node, "classlabels_int64s"), texts_of(node, "classlabels_strings")
        labels[value.name or ""] = tuple(map(str, numbers or texts or ()))
    return labels


def output_comparisons(model: ir.Model) -> dict[str, OutputComparison]:
    """Decides how each graph output must be compared, by name, in graph order."""
    flow: Flow[_State] = Flow(bottom=_State(), join=_join, transfer=_transfer)
    fed = set(model.graph.inputs) - set(model.graph.initializers.values())
    flow.run(model, lambda value: _State(varies=value in fed, floating=_is_floating(value) is True))
    kinds = {}
    for value in model.graph.outputs:
        state = flow.of(value)
        source = state.source if state.kind != "values" else None
        kinds[value.name or ""] = OutputComparison(
            kind=state.kind,
            paired=_paired(model, value, source) if source is not None else "",
            source=name_of(source) if source is not None else "",
        )
    return kinds


def _transfer(node: ir.Node, inputs: list[_State], inside: list[_State] | None) -> list[_State]:
    if inside is not None:
        return inside
    op = node.op_type
    varies, rounded = any(s.varies for s in inputs), any(s.rounded for s in inputs)
    floating = any(s.floating for s in inputs)
    if is_random(node):
        varies = rounded = floating = True
    if op not in _EXACT and varies and floating:
        rounded = True
    deciding = _deciding(op, inputs, rounded=rounded, varies=varies)
    after = []
    for index, value in enumerate(node.outputs):
        declared = _is_floating(value)
        state = _State(
            kind=_kind(op, inputs),
            varies=varies,
            rounded=rounded,
            floating=_result_floating(node, floating=floating) if declared is None else declared,
            source=next((s.source for s in inputs if s.kind != "values" and s.source), None),
        )
        if index < len(deciding) and deciding[index] != "values":
            # A decision about rows that are already in no fixed order is in no fixed order either.
            unordered = inputs[0].kind == "set"
            source = state.source if unordered else node
            state = replace(state, kind="set" if unordered else deciding[index], source=source)
        after.append(state)
    return after


def _deciding(op: str, inputs: list[_State], *, rounded: bool, varies: bool) -> tuple[OutputKind, ...]:
    if op in _SCORES_AND_DECIDES and varies:
        return _SCORES_AND_DECIDES[op]
    return _DECIDES.get(op, ()) if rounded and inputs else ()


def _kind(op: str, inputs: list[_State]) -> OutputKind:
    """The kind that an operator's result inherits from its inputs."""
    kinds = [s.kind for s in inputs]
    if all(kind == "values" for kind in kinds) or op in _FORGETS:
        return "values"
    if op in _SCATTERS:
        return kinds[0]
    return "set" if "set" in kinds else _kind_with_indices(op, inputs)


def _kind_with_indices(op: str, inputs: list[_State]) -> OutputKind:
    if op == "Where":
        inputs = inputs[1:]
    indices = [s.kind == "indices" for s in inputs]
    if op in _COMPARES or not any(indices):
        return "values"
    if op in _GATHERS and not indices[0]:
        # What constant labels give at positions are positions by another name; anything else is a selection.
        still = not inputs[0].varies and not inputs[0].floating
    elif op in _GATHERS:
        # Positions gathered at fixed places stay positions; positions gathered at positions are reordered.
        still = not any(indices[1:])
    elif op in _MOVES and op != "Concat":
        # Moved, or something else moved to where the positions say.
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
        source=a.source or b.source,
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


def _paired(model: ir.Model, output: ir.Value, source: ir.Node) -> str:
    scores = set(_score_values(source))
    for other in model.graph.outputs:
        if other is not output and scores.intersection(_shown(other)):
            return other.name or ""
    return ""


def _score_values(source: ir.Node) -> list[ir.Value]:
    if source.op_type == "TopK":
        return [source.outputs[0]]
    if source.op_type in _SCORES_AND_DECIDES:
        return [source.outputs[1]] if len(source.outputs) > 1 else []
    if source.op_type in ("ArgMax", "ArgMin") and source.inputs[0] is not None:
        return _shown(source.inputs[0])
    return []


def _shown(value: ir.Value) -> list[ir.Value]:
    """The value and what it is made of by operators that keep which score is the largest."""
    chain = [value]
    while (node := chain[-1].producer()) is not None and node.op_type in _KEEPS_SCORES:
        before = node.inputs[0] if node.inputs else None
        if before is None:
            break
        chain.append(before)
    return chain
