"""Latency grows faster than the inputs.

What it is: the same model was measured at several sizes of its inputs, and latency per input element is higher at the
    larger sizes.
Why it costs: attention compares every position with every other one, and a list grown by Concat is copied at every
    step: work grows with the square of the length. Tensors that no longer fit in a cache have the same effect.
Evidence: the median latency at two sizes, with its confidence interval, and the nodes whose estimated work grows in
    this way.
Fix and its safety: advice: where a loop copies a list (SequenceInsert, Concat), return each step's result as a scan
    output of the Loop. Otherwise pad to fewer or shorter sizes, split long inputs, or use a model with windowed
    attention.
Example: ``ortune bench model.onnx --dim seq=128,256,512``
References: A. Vaswani et al., "Attention Is All You Need", table 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ortune.errors import InputError
from ortune.graph.model.open import OpenModel
from ortune.records import BenchRow, Case, Finding, NodeCost
from ortune.rules._grown import concatenations, insertions
from ortune.rules._words import duration, name_of, subject
from ortune.rules.facts import Facts

CODE = "SHP008"

_LEAST_STEP = 1.5  # minimum ratio of two sizes; closer ones give no reliable exponent
_LEAST_EXPONENT = 1.2  # minimum exponent; caches and overhead alone cause deviations of 0.1 or 0.2
_NODES = 8
_LEAST_SHARE = 0.05  # minimum share of the added work that the named nodes have


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One input size: the total elements of all inputs, and the median latency with its interval, in nanoseconds."""

    case: Case
    elements: int
    low: float
    median: float
    high: float


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on the two adjacent sizes between which latency grows fastest, if it grows superlinearly."""
    steps = [
        # From the upper bound of the smaller to the lower bound of the larger: the least growth that both
        # intervals allow.
        (_exponent(small.high, large.low, small, large), small, large)
        for small, large in pairwise(_points(facts))
        if large.elements >= _LEAST_STEP * small.elements
    ]
    steep = [step for step in steps if step[0] >= _LEAST_EXPONENT]
    if not steep:
        return
    _, small, large = max(steep, key=lambda step: step[0])
    # Lists that a loop copies take precedence, since operation counts do not include their growth.
    grown = [*insertions(facts.model.ir), *concatenations(facts.model.ir)] if facts.model else []
    nodes = tuple(map(name_of, grown))
    if facts.model and not grown:
        nodes = _nodes_that_grow(facts.model, small, large)
    times, longer = large.elements / small.elements, large.median / small.median
    yield Finding(
        code=CODE,
        severity="note",
        what=f"latency grows {longer:.3g}x while the inputs grow {times:.3g}x"
        + (
            f": {subject(grown, 'copies', 'copy')} all earlier results in every iteration of a loop"
            if grown
            else ""
        ),
        where=nodes,
        evidence=f"{_point_words(small)}, {_point_words(large)}",
        fix="return each step's result as a scan output of the Loop"
        if grown
        else "pad to shorter sizes, or split long inputs",
    )


def _point_words(point: _Point) -> str:
    return f"{point.case.name}: {duration(point.median)}"


def _points(facts: Facts) -> list[_Point]:
    """Return the sizes that were measured with an interval, smallest first."""
    cases = {case.name: case for case in facts.work.cases} if facts.work else {}
    points = [_point(cases[row.case], row) for row in facts.rows if row.case in cases]
    return sorted((point for point in points if point is not None), key=lambda point: point.elements)


def _point(case: Case, row: BenchRow) -> _Point | None:
    median = row.median_ns
    if median.low is None or median.high is None or median.low <= 0:
        return None
    elements = sum(math.prod(choice.shape) for choice in case.inputs)
    return _Point(case=case, elements=elements, low=median.low, median=median.value, high=median.high)


def _exponent(small_value: float, large_value: float, small: _Point, large: _Point) -> float:
    """Return the exponent with which a quantity grows with the number of elements; 0.0 if a value is not positive."""
    if small_value <= 0 or large_value <= 0:
        return 0.0
    return math.log(large_value / small_value) / math.log(large.elements / small.elements)


def _nodes_that_grow(model: OpenModel, small: _Point, large: _Point) -> tuple[str, ...]:
    """Return the names of nodes whose work grows faster than the inputs, most added work first; () if it is little."""
    try:
        before, after = (_work(model, point.case) for point in (small, large))
    except InputError:
        return ()
    added = sum(_amount(cost) for cost in after.values()) - sum(_amount(cost) for cost in before.values())
    steep = [
        (name, _amount(cost) - _amount(before[name]))
        for name, cost in after.items()
        if name in before and _exponent(_amount(before[name]), _amount(cost), small, large) >= _LEAST_EXPONENT
    ]
    if sum(amount for _, amount in steep) < _LEAST_SHARE * added:
        return ()
    return tuple(name for name, _ in sorted(steep, key=lambda pair: -pair[1])[:_NODES])


def _work(model: OpenModel, case: Case) -> Mapping[str, NodeCost]:
    from ortune.graph.cost import costs  # needed only with a bench, which a check does not have

    shapes = {choice.name: choice.shape for choice in case.inputs}
    return {cost.called: cost for cost in costs(model.ir, shapes).nodes if cost.known and cost.times}


def _amount(cost: NodeCost) -> float:
    """Return the amount of a node's work in one run: the sum of its operations and bytes, since either can limit it."""
    # Weights are read once for any input size, and would hide growth at the smaller one.
    return float(cost.times) * (cost.flops + cost.bytes_read + cost.bytes_written - cost.weight_bytes)
