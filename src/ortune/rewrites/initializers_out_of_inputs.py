"""Removes initializers from the graph inputs.

What it is: an initializer that is also a graph input is a default value that each run may override, so ONNX Runtime
    cannot treat it as a constant. Old exporters list every weight this way. The inputs are removed and the
    initializers stay. IR version 3, which requires the inputs and treats them as constants, is raised to 4.
Why it costs: values that are not constant are not folded, fused or prepacked: BatchNormalization stays after its
    convolution, MatMul and Add do not become Gemm, and layouts are converted in every run.
Evidence: ONNX Runtime's warning "Initializer ... appears in graph inputs and will not be treated as constant value";
    more operators in the optimised graph than without the inputs.
Fix and its safety: exact. If callers feed one of the initializers, keep it as an input: ``keep`` takes names joined by
    ``+``.
Example: ``--rewrite initializers-out-of-inputs``
References: ONNX IR specification, "Graphs"; microsoft/onnxruntime#4507, #6094.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.constants import is_overridable
from ortune.graph.model.graphs import FREE_INITIALIZERS_IR, NEVER_FED
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite, RewriteResult, unchanged


def _in_inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if value.name in model.graph.initializers]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    kept = set(filter(None, params["keep"].split("+")))
    overridable = _in_inputs(model)
    moved = [value for value in overridable if value.name not in kept]
    unknown = sorted(kept - {value.name for value in overridable})
    reasons = tuple(f"{name!r} is not an initializer among the inputs and cannot be kept" for name in unknown)
    if not moved:
        why = (
            "no initializer is a graph input"
            if not overridable
            else "all initializers among the inputs are listed in keep"
        )
        return unchanged(why, *reasons)
    for value in moved:
        model.graph.inputs.remove(value)
    for value in overridable:
        value.meta.pop(NEVER_FED, None)  # with the raised IR version, the kept ones can be fed
    raised = model.ir_version < FREE_INITIALIZERS_IR
    model.ir_version = max(model.ir_version, FREE_INITIALIZERS_IR)
    counted = amount(len(moved), "initializer")
    what = f"Removed {counted} from the graph inputs"
    what += f", and raised the IR version to {FREE_INITIALIZERS_IR}." if raised else "."
    return RewriteResult(modified=True, what=what, reasons=reasons)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    cases = workload.cases if workload else ()
    fed = {choice.name for case in cases for choice in case.inputs}
    overridable = [value.name or "" for value in model.graph.inputs if is_overridable(value)]
    keep = sorted(fed.intersection(overridable))
    count = len(overridable) - len(keep)
    if not count or any("+" in name for name in keep):
        return []
    verb = "initializer is also a graph input" if count == 1 else "initializers are also graph inputs"
    reason = f"{count} {verb}, so ONNX Runtime cannot treat {'it as a constant' if count == 1 else 'them as constants'}"
    return [({"keep": "+".join(keep)} if keep else {}, reason)]


REWRITE = Rewrite(
    name="initializers-out-of-inputs",
    summary="removes initializers from the graph inputs, which makes them constants",
    safety="exact",
    stage=-1,
    params=(Param(name="keep", kind="text", summary="initializers that callers feed, joined by +"),),
    change=_change,
    proposes=_proposes,
)
