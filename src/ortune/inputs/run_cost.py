"""Counts the work of a run with the chosen inputs."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortune.graph import cost
from ortune.inputs import workload
from ortune.records import Case, ModelCost, Workload


def run_cost(
    model: ir.Model, work: Workload, stop: Callable[[], bool] = lambda: False
) -> tuple[float, ModelCost]:
    """Return the floating-point operations of one run, and the cost of the first case by node.

    Args:
        model: The model.
        work: The workload, with at least one case.
        stop: Called at each node; returns True to stop for lack of time.

    Raises:
        CountingStopped: ``stop`` returned True.

    Returns:
        The operations as the weighted mean over the cases, and the first case's cost.
    """
    numbers_of_cases = zip(work.cases, workload.whole_numbers(model, work), strict=True)
    costs = [
        (case.weight, cost.costs(model, _shapes(case), values, stop=stop))
        for case, values in numbers_of_cases
    ]
    total = sum(weight * case_cost.flops for weight, case_cost in costs) / sum(weight for weight, _ in costs)
    return float(total), costs[0][1]


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs that are tensors; sequences are omitted."""
    return {choice.name: choice.shape for choice in case.inputs if "(" not in choice.dtype}
