"""Takes weights out of the list of graph inputs.

What it is: an initializer that is also a graph input is a default value that each call may override, so ONNX Runtime
    treats it as unknown. Old exporters list every weight so (IR version 3 demands it, and there ONNX Runtime takes
    them for constants all the same). The inputs are removed, the
    weights stay; IR version 3 and below becomes 4, the first that allows it.
Why it costs: what is not constant is not folded, fused or prepacked: batch normalisations stay beside their
    convolutions, MatMul and Add do not become one Gemm, layouts are converted at every call.
Evidence: ONNX Runtime's warning "Initializer ... appears in graph inputs and will not be treated as constant value";
    more operators in the optimised graph than without the inputs.
Fix and its safety: exact. Callers that do feed one of the weights must keep it: ``keep`` takes names joined by ``+``.
Example: ``--rewrite initializers-out-of-inputs``
References: ONNX IR specification, "Graphs"; microsoft/onnxruntime#4507, #6094.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.constants import is_overridable
from ortune.model.graphs import FREE_INITIALIZERS_IR, NEVER_FED
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite, RewriteResult, unchanged


def _in_inputs(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.inputs if value.name in model.graph.initializers]


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    kept = set(filter(None, params["keep"].split("+")))
    overridable = _in_inputs(model)
    moved = [value for value in overridable if value.name not in kept]
    unknown = sorted(kept - {value.name for value in overridable})
    reasons = tuple(f"{name!r} is no initializer among the inputs, so it cannot be kept" for name in unknown)
    if not moved:
        why = (
            "no initializer is a graph input"
            if not overridable
            else "every initializer in the inputs is to be kept"
        )
        return unchanged(why, *reasons)
    for value in moved:
        model.graph.inputs.remove(value)
    for value in overridable:
        value.meta.pop(NEVER_FED, None)  # from the raised version on, what is kept can be fed
    raised = model.ir_version < FREE_INITIALIZERS_IR
    model.ir_version = max(model.ir_version, FREE_INITIALIZERS_IR)
    counted = "1 initializer" if len(moved) == 1 else f"{len(moved)} initializers"
    what = f"Took {counted} out of the graph inputs"
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
    reason = f"{count} of its weights are graph inputs, so that ONNX Runtime takes them for unknown"
    return [({"keep": "+".join(keep)} if keep else {}, reason)]


REWRITE = Rewrite(
    name="initializers-out-of-inputs",
    summary="weights that are listed as graph inputs become constants",
    safety="exact",
    stage=-1,
    params=(Param(name="keep", kind="text", summary="initializers that callers feed, joined by +"),),
    change=_change,
    proposes=_proposes,
)
