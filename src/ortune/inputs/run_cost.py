"""The work of a run with the inputs that were chosen."""

from __future__ import annotations

import onnx_ir as ir

from ortune.analysis import cost
from ortune.inputs import workload
from ortune.records import Case, ModelCost, Workload


def run_cost(model: ir.Model, work: Workload) -> tuple[float, ModelCost]:
    """Floating-point operations of one run, and what they are made of.

    Args:
        model: The model.
        work: Its inputs, at least one case.

    Returns:
        The weighted mean over the shapes; and the first shape's cost, node by node.
    """
    known = zip(work.cases, workload.whole_numbers(model, work), strict=True)
    found = [(case.weight, cost.costs(model, _shapes(case), values)) for case, values in known]
    total = sum(weight * each.flops for weight, each in found) / sum(weight for weight, _ in found)
    return float(total), found[0][1]


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    """Of the tensors among the inputs; a sequence has a length and no shape."""
    return {choice.name: choice.shape for choice in case.inputs if "(" not in choice.dtype}
