"""Random operators, and operators with a cost or output shape that depends on input values."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.constants import constant
from ortune.graph.dataflow import Flow
from ortune.graph.model.graphs import name_of, nodes, op_set, subgraphs

RANDOM = op_set(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Sampling"
)
"""Operators that always draw random numbers."""
_TRAINING_INPUT = {"Dropout": 2, "BiasDropout": 4, "BitmaskDropout": 2, "BitmaskBiasDropout": 4}
"""Maps operators that draw random numbers only in training mode to the index of their ``training_mode`` input."""

# The values determine the output size or the amount of work, regardless of shapes.
_BY_VALUES = op_set(
    "NonMaxSuppression NonZero Unique Compress StringNormalizer StringSplit TfIdfVectorizer Tokenizer "
    "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor SequenceAt SequenceInsert SequenceErase "
    "SplitToSequence ConcatFromSequence SequenceMap MoE QMoE GreedySearch BeamSearch WhisperBeamSearch "
    "Sampling"
)
# Of these, the output shape depends only on the input shape.
_SAME_SHAPE = op_set("StringNormalizer TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor MoE QMoE")
SIZES: dict[str, tuple[int, ...]] = {
    "Range": (0, 1, 2),
    "Expand": (1,),
    "ConstantOfShape": (0,),
    "Reshape": (1,),
    "Slice": (1, 2, 3, 4),
    "Tile": (1,),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "OneHot": (1,),
    "TopK": (1,),
    "Split": (1,),
    "CenterCropPad": (1,),
    "MaxUnpool": (2,),
    "If": (0,),
    "Loop": (0, 1),
    "HannWindow": (0,),
    "HammingWindow": (0,),
    "BlackmanWindow": (0,),
}
"""Maps operators to the indices of inputs that determine the output size; few models compute such inputs from data."""


def is_random(node: ir.Node) -> bool:
    """Return whether a node's result may differ between runs; an unknown training mode counts as training."""
    if node.op_type in RANDOM:
        return True
    at = _TRAINING_INPUT.get(node.op_type, len(node.inputs))
    training = node.inputs[at] if at < len(node.inputs) else None
    if training is None:
        return False
    mode = constant(training)
    return mode is None or bool(mode.any())


def random_ops(model: ir.Model) -> list[tuple[str, str]]:
    """List the random nodes of all graphs as (name, operator), in graph order.

    A Dropout counts if its training mode is true or not constant.
    """
    return [_named(node) for node in nodes(model) if is_random(node)]


@dataclass(frozen=True, slots=True)
class _State:
    """``data``: the value depends on fed or random values, not only on shapes. ``shape``: the shape depends on them."""

    data: bool = False
    shape: bool = False


def value_dependent_ops(model: ir.Model) -> list[tuple[str, str]]:
    """List the nodes whose cost or output shape depends on input values, as (name, operator).

    Sizes computed from shapes do not count: the length of ``Range(0, Shape(x))`` is the same for any values.
    """
    return [_named(node) for node in _followed(model, fed=_State(data=True))[1]]


def random_outputs(model: ir.Model) -> dict[str, bool]:
    """Map each output name that depends on random numbers to whether its lengths do too, not only its values."""
    if not random_ops(model):
        return {}
    flow, _ = _followed(model, fed=_State())
    states = {str(value.name): flow.state(value) for value in model.graph.outputs}
    return {name: state.shape for name, state in states.items() if state.data or state.shape}


def _followed(model: ir.Model, fed: _State) -> tuple[Flow[_State], list[ir.Node]]:
    """Return the states of all values, and the nodes whose cost or output shape depends on values.

    Args:
        model: The model.
        fed: State of the model's inputs; initializers depend on neither fed nor random values.
    """
    dependents: dict[ir.Node, None] = {}

    def transfer(node: ir.Node, inputs: list[_State], inside: list[_State] | None) -> list[_State]:
        data, shape = any(s.data for s in inputs), any(s.shape for s in inputs)
        if node.op_type in ("Shape", "Size"):
            # A property of the input's shape becomes one of the output's values.
            return [_State(data=shape)]
        depends = _depends(node, inputs, flow)
        if depends:
            dependents[node] = None
        after = _State(
            data=data or is_random(node), shape=shape or (depends and node.op_type not in _SAME_SHAPE)
        )
        # With subgraphs, each output combines its own state with that of the condition or trip count.
        if inside is None:
            return [after] * len(node.outputs)
        decided = _State(data=depends, shape=depends)
        return [_join(state, decided) for state in inside]

    flow: Flow[_State] = Flow(bottom=_State(), join=_join, transfer=transfer)
    inputs = set(model.graph.inputs) - set(model.graph.initializers.values())
    flow.run(model, lambda value: fed if value in inputs else _State())
    return flow, list(dependents)


def _depends(node: ir.Node, inputs: list[_State], flow: Flow[_State]) -> bool:
    if node.op_type in _BY_VALUES:
        return any(s.data for s in inputs)
    if any(inputs[at].data for at in SIZES.get(node.op_type, ()) if at < len(inputs)):
        return True
    # A loop can also end by the condition that its body returns.
    return node.op_type == "Loop" and any(flow.state(body.outputs[0]).data for body in subgraphs(node))


def _join(a: _State, b: _State) -> _State:
    return _State(data=a.data or b.data, shape=a.shape or b.shape)


def _named(node: ir.Node) -> tuple[str, str]:
    return name_of(node), node.op_type
