"""Mapping from the nodes of an optimized graph back to those of the original model.

A profile refers to the graph that ONNX Runtime created, with fused, blocked and renamed nodes. Most fusions keep the
name of their output, so values are matched first (``carried_values``): by name, through nodes that only move or
convert, and by ONNX Runtime's naming schemes (``names``). A node then replaces all original nodes between its known
inputs and outputs (``segments``, ``origins``). ``pairing`` matches the nodes of two versions of a model.
"""

from __future__ import annotations

from ortune.graph.mapping.blocks import own_shapes
from ortune.graph.mapping.build import originals
from ortune.graph.mapping.inherit import inherited, placed, remarks, weights
from ortune.graph.mapping.model_view import step_names
from ortune.graph.mapping.pairing import counterparts
from ortune.graph.mapping.result import Mapping, as_logged

__all__ = [
    "Mapping",
    "as_logged",
    "counterparts",
    "inherited",
    "originals",
    "own_shapes",
    "placed",
    "remarks",
    "step_names",
    "weights",
]
