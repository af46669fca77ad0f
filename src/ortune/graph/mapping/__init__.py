"""From the nodes of an optimised graph back to those of the user's own model.

A profile speaks of the graph that ONNX Runtime made: fused, blocked, renamed nodes. Most fusions keep the name of the
value that they make, so values are matched first (``values``): by name, through nodes that only move or convert, and
by the names that ONNX Runtime gives (``names``). A node then replaces all nodes of the user's model between the
values that it reads and those that it makes (``segments``, ``origins``). Nodes of two models meet in ``pairing``.
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
