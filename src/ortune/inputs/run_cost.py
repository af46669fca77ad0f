"""The work of a run with the inputs that were chosen."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortune.graph import cost
from ortune.inputs import workload
from ortune.records import Case, ModelCost, Workload


def run_cost(
    model: ir.Model, work: Workload, stop: Callable[[], bool] = lambda: False
) -> tuple[float, ModelCost]:
    """Floating-point operations of one run, and what they are made of.

    Args:
        model: The model.
        work: Its inputs, at least one case.
        stop: Asked at each node whether there is no time for more.

    Raises:
        CountingStopped: ``stop`` said so.

    Returns:
        The weighted mean over the shapes; and the first shape's cost, node by node.
    """
    numbers_of_cases = zip(work.cases, workload.whole_numbers(model, work), strict=True)
    costs = [
        (case.weight, cost.costs(model, _shapes(case), values, stop=stop))
        for case, values in numbers_of_cases
    ]
    total = sum(weight * case_cost.flops for weight, case_cost in costs) / sum(weight for weight, _ in costs)
    return float(total), costs[0][1]


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors among the inputs; a sequence has a length and no shape."""
    return {choice.name: choice.shape for choice in case.inputs if "(" not in choice.dtype}
