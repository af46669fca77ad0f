"""Operators that draw random numbers: the one list of them."""

from __future__ import annotations

import onnx_ir as ir

from ortune.model.graphs import op_set

RANDOM = op_set(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli Sampling"
)
"""Operators that draw numbers whatever they are given."""
_TRAINING_INPUT = {"Dropout": 2, "BiasDropout": 4, "BitmaskDropout": 2, "BitmaskBiasDropout": 4}
"""Operators that draw numbers in training mode only, and which of their inputs says so."""


def is_random(node: ir.Node) -> bool:
    """Whether a node's result may change from run to run: a training mode that is not known counts too."""
    if node.op_type in RANDOM:
        return True
    at = _TRAINING_INPUT.get(node.op_type, len(node.inputs))
    training = node.inputs[at] if at < len(node.inputs) else None
    if training is None:
        return False
    # What is a graph input too, each call may set.
    mode = None if training.is_graph_input() else ir.convenience.get_const_tensor(training)
    return mode is None or bool(mode.numpy().any())
