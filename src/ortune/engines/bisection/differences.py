"""Differences between the two values of each pair, and how much of them rounding explains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from ortune.engines.bisection.observing import ObservedGraph
from ortune.engines.bisection.value_pairs import Pair
from ortune.engines.bisection.value_statistics import (
    FARTHEST,
    Steps,
    ValueStatistics,
    differing_share,
    in_steps,
    relative_l2,
    rounding_l2,
    worst_slice,
)
from ortune.graph.grids import Grid, grids, quantizes
from ortune.graph.nodes import operator
from ortune.outputs import rounding
from ortune.outputs.files import family
from ortune.records import GridSteps, SliceError, ValuePair

SHOWN = 0.05
"""Least relative L2 at which a difference counts as a break, and a slice is reported in addition to its value."""
OWN_MOVES = 32.0
"""Factor on a value's response to one rounding step in its inputs, since intermediate sums are rounded too."""
GRID_MOVES = 4.0
"""Value of ``OWN_MOVES`` for values after a quantization, where a few elements that round to the next step cause the
response."""
MOST_MOVES = 0.1
"""Limit on the relative L2 attributed to rounding, unless a value responds nearly as much to one rounding step."""
STEPS_ONCE, STEPS_EACH = 0.25, 0.75
"""RMS error, in grid steps, that rounding explains: a constant, plus an amount for each quantization upstream.

A processor with saturating 8-bit multiplication is slightly below this limit; a misread bias is far above.
"""
WORST_STEPS = 4.0
"""Factor on this limit for the RMS error of the worst slice."""
DIFFERING_SHARE = 0.01
"""Fraction of the elements of an internal integer value that rounding may change."""
INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})
"""Types of quantized activations, in which one grid step is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPairs:
    """Every pair with its comparison.

    Attributes:
        values: Comparison of each pair, by the name in A.
        moves: Relative L2 by which a value of A responds to one rounding step in its inputs, by name.
        steps: Difference in grid steps of each unequal pair on one grid, by the name in A.
    """

    values: dict[str, ValuePair] = field(default_factory=dict)
    moves: dict[str, float] = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)


def compare_pairs(
    a: ObservedGraph,
    b: ObservedGraph,
    pairs: Mapping[str, Pair],
    seen_a: Mapping[str, ValueStatistics],
    seen_b: Mapping[str, ValueStatistics],
    moved: Mapping[str, ValueStatistics],
    exact: Collection[str] = (),
) -> ComparedPairs:
    """Measure the difference of every pair, and how much of it rounding explains.

    Args:
        a: The base.
        b: The side compared with it.
        pairs: Pairs by the name in A.
        seen_a: Values of A.
        seen_b: Values of B.
        moved: Values of A with inputs and small weights moved by one rounding step.
        exact: Names of integer values of which every element must be equal: outputs that are known to differ.
    """
    makers = {str(v.name): node for node in a.nodes for v in node.outputs}
    scales = grids(a.graph), grids(b.graph)
    behind = _behind_grids(a.graph.graph)
    compared = ComparedPairs()
    for name, pair in pairs.items():
        mine, theirs, node = seen_a[name], seen_b[pair.b], makers[name]
        alike_in_shape = mine.shape == theirs.shape or pair.sorted
        grid, grid_b = scales[0].get(name), scales[1].get(pair.b)
        # ONNX Runtime converts int8 to uint8: the same values, with another integer for zero.
        zero, zero_b = _zero_of(grid, mine.onnx_type), _zero_of(grid_b, theirs.onnx_type)
        distance = FARTHEST
        if alike_in_shape:
            distance = relative_l2(mine, theirs, any_order=pair.sorted, zero=zero, zero_b=zero_b)
        if name in moved and moved[name].shape == mine.shape:
            compared.moves[name] = relative_l2(mine, moved[name], zero=zero)
        own = compared.moves.get(name, 0.0)
        # The precision of the types, and the response of this value to one rounding step in the inputs: a common
        # limit for all values would be too strict after a Softmax and too lax after a Relu.
        limit = max(rounding_l2(mine, theirs), _explained(own, behind_grid=name in behind))
        equal = distance <= limit or (alike_in_shape and _zeros_that_move(mine, theirs, moved.get(name)))
        steps: GridSteps | None = None
        worst: SliceError | None = None
        if mine.shape == theirs.shape and distance > 0.0 and not pair.sorted:
            apart = _steps(mine, theirs, grid, grid_b)
            # On one grid whole steps are counted: relative errors are meaningless for values with few steps.
            if apart is not None:
                equal = explained_by_rounding(apart, 1)
                compared.steps[name] = apart
                steps = GridSteps(
                    scale=_step_of(grid) or 1.0,
                    most=round(apart.most),
                    share=apart.share,
                    same=round(apart.most) <= 1,
                )
            # One wrong channel among hundreds hardly changes the whole value, but is still the result.
            elif family(mine.onnx_type) == "float":
                # An error of one channel in 256 is a sixteenth as large in the whole value.
                worst = _worst_slice(mine, theirs)
                equal = equal and (worst is None or worst.relative_l2 <= max(SHOWN, OWN_MOVES * own))
            elif name in exact:
                equal = False
            elif not equal:
                equal = differing_share(mine, theirs) <= DIFFERING_SHARE  # some may be rounded otherwise
        compared.values[name] = ValuePair(
            a=name,
            b=pair.b,
            node=node.name or "",
            operator=operator(node),
            matched_by=pair.by,
            onnx_type=mine.onnx_type,
            shape=mine.shape,
            relative_l2=None if distance >= FARTHEST else distance,
            limit=min(limit, FARTHEST),
            equal=equal,
            steps=steps,
            slice=worst,
            shape_b=None if alike_in_shape else theirs.shape,
        )
    return compared


def _explained(own: float, *, behind_grid: bool) -> float:
    """Return the relative L2 that rounding explains for a value with a given response to one rounding step.

    The result is limited so that faults remain detectable: for a large response to three times this response.
    """
    if own >= FARTHEST:
        return 0.0  # zeros have no scale of their own
    most = max(MOST_MOVES, rounding.FORGIVEN * own)
    # Example: a value that moves by 0.001 may be 0.032 apart, and 0.004 behind a grid.
    return min((GRID_MOVES if behind_grid else OWN_MOVES) * own, most)


def _zeros_that_move(mine: ValueStatistics, theirs: ValueStatistics, moved: ValueStatistics | None) -> bool:
    """Return whether a value is all zeros in A, and differs in B by no more than rounding of the inputs explains."""
    # Zeros have no relative distance, so the size of the result is compared.
    if moved is None or mine.figures[0] or theirs.n_nan + theirs.n_inf:
        return False
    return theirs.figures[0] <= OWN_MOVES * moved.figures[0]


def _steps(
    mine: ValueStatistics, theirs: ValueStatistics, grid: Grid | None, other: Grid | None
) -> Steps | None:
    """Return the difference in steps if both values are on one grid; None otherwise."""
    step = _step_of(grid)
    moved = _zero_of(grid, mine.onnx_type) - _zero_of(other, theirs.onnx_type)
    integers = mine.onnx_type in INTEGERS and theirs.onnx_type in INTEGERS
    if not (integers and mine.onnx_type == theirs.onnx_type) and (step is None or step != _step_of(other)):
        return None
    return in_steps(mine, theirs, 1.0 if integers or step is None else step, moved)


def explained_by_rounding(steps: Steps, quantizations: int) -> bool:
    """Return whether rounding explains a difference in steps after a number of quantizations."""
    limit = STEPS_ONCE + STEPS_EACH * max(1, quantizations)
    return steps.typical <= limit and steps.worst <= WORST_STEPS * limit


def _worst_slice(mine: ValueStatistics, theirs: ValueStatistics) -> SliceError | None:
    worst = worst_slice(mine, theirs)
    if worst is None:
        return None
    return SliceError(
        axis=worst.axis,
        first=worst.index,
        last=worst.index,
        relative_l2=min(worst.relative_l2, FARTHEST),
    )


def _behind_grids(graph: ir.Graph) -> set[str]:
    """Return the names of quantized values and values computed from them, which rounding changes by whole steps."""
    names: set[str] = set()
    for node in graph:
        if quantizes(node) or any(value is not None and str(value.name) in names for value in node.inputs):
            names |= {str(value.name) for value in node.outputs}
    return names


def _step_of(grid: Grid | None) -> float | None:
    """Return the scale of a grid; None if there is no grid, or a grid with several scales."""
    return grid.scales[0] if grid is not None and len(grid.scales) == 1 else None


def _zero_of(grid: Grid | None, onnx_type: str) -> float:
    """Return the integer that represents zero; 0 if the value is not an integer or has several zero points."""
    if grid is None or onnx_type not in INTEGERS or len(grid.zero_points) != 1:
        return 0.0
    return float(grid.zero_points[0])
