"""Comparison of quantized outputs in grid steps (multiples of their scale).

Rounding moves a value by at most half a step, and two correct computations may round a near tie to either neighbour.
Values one step apart therefore count as equal. If more than half of the values differ, more than half a step was added
before rounding, which rounding does not explain.
"""

from __future__ import annotations

import math

import numpy as np

from ortune.graph.grids import Grid
from ortune.outputs.files import Array, blocks, decode
from ortune.records import GridSteps

MOST_STEPS = 1
MOST_SHARE = 0.5
"""Maximum fraction of moved elements, to which two standard deviations are added for small outputs."""
NEAR = {"float16": 0.2}
NEAR_OTHERWISE = 0.05
"""Tolerance as a fraction of a step, since products of integers and scales are rounded to the output's type."""
OFF_GRID = 0.05
"""Maximum fraction of moved elements between grid steps; with more, the candidate has a different grid or none."""


def dequantized(integers: Array, grid: Grid) -> Array:
    """Return the real values of integers on a grid with one scale."""
    return np.asarray((integers.astype(np.float64) - grid.zero_points[0]) * grid.scales[0])


def grid_steps(arrays: tuple[Array, Array], types: tuple[str, str], grid: Grid) -> GridSteps | None:
    """Return statistics of the grid steps by which two arrays differ; None if the candidate is not on the grid.

    Args:
        arrays: Reference and candidate, of the same shape.
        types: Their ONNX types.
        grid: Grid of the reference.
    """
    old, new = (np.atleast_1d(array) for array in arrays)
    if grid.axis is not None and not _fits(grid, old.shape):
        return None
    near = max(NEAR.get(onnx_type, NEAR_OTHERWISE) for onnx_type in types)
    moved = between = 0
    most = 0.0
    for box in blocks(old.shape):
        a, b = (
            decode(np.asarray(array[box]), of).astype(np.float64)
            for array, of in ((old, types[0]), (new, types[1]))
        )
        steps = np.abs(b - a) / _scales(grid, old.shape, box)
        steps = steps[np.isfinite(steps) & (steps > near)]
        moved += steps.size
        between += int((np.abs(steps - np.rint(steps)) > near).sum())
        most = max(most, float(steps.max(initial=0.0)))
    if between > OFF_GRID * moved:
        return None
    whole = math.ceil(most - near)
    return GridSteps(
        scale=max(grid.scales),
        most=whole,
        share=moved / max(1, old.size),
        # The square root of n is two standard deviations of the number of n values that a fair coin would move.
        same=whole <= MOST_STEPS and moved <= MOST_SHARE * old.size + math.sqrt(old.size),
    )


def _fits(grid: Grid, shape: tuple[int, ...]) -> bool:
    """Return whether an array of this shape has one index per scale along the grid's axis."""
    axis = grid.axis or 0
    return -len(shape) <= axis < len(shape) and shape[axis] == len(grid.scales)


def _scales(grid: Grid, shape: tuple[int, ...], box: tuple[slice, ...]) -> Array:
    """Return the scales, broadcastable to a box of an array of this shape."""
    if grid.integers or grid.axis is None:
        return np.asarray(1.0 if grid.integers else grid.scales[0])
    along = [1] * len(shape)
    along[grid.axis] = len(grid.scales)
    return np.broadcast_to(np.reshape(grid.scales, along), shape)[box]
