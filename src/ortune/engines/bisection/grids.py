"""Finds the values of a graph that are on a quantization grid, or computed from such values."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.grids import Grid, quantizes

INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})
"""Types of quantized activations, in which one grid step is 1."""


def behind_grids(graph: ir.Graph) -> set[str]:
    """Return the names of quantized values and values computed from them, which rounding changes by whole steps."""
    names: set[str] = set()
    for node in graph:
        if quantizes(node) or any(value is not None and str(value.name) in names for value in node.inputs):
            names |= {str(value.name) for value in node.outputs}
    return names


def step_of(grid: Grid | None) -> float | None:
    """Return the scale of a grid; None if there is no grid, or a grid with several scales."""
    return grid.scales[0] if grid is not None and len(grid.scales) == 1 else None


def zero_of(grid: Grid | None, onnx_type: str) -> float:
    """Return the integer that represents zero; 0 if the value is not an integer or has several zero points."""
    if grid is None or onnx_type not in INTEGERS or len(grid.zero_points) != 1:
        return 0.0
    return float(grid.zero_points[0])
