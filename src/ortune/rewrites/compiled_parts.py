"""Saves the parts that an execution provider compiles, which speeds up session creation.

What it is: the model in which each part that the execution provider takes is one EPContext node with the provider's
    compiled code inside. ONNX Runtime writes it (``ep.context_enable``), for OpenVINO, QNN and TensorRT for RTX.
Why it costs: at every start the provider compiles its parts again, which can take seconds. Latency is unchanged.
Evidence: session creation time, with and without; the time to compile and the size of the file.
Fix and its safety: exact, but bound to the device, the provider's version and this version of ONNX Runtime. Keep the
    original. A provider that cannot read its own code back fails the trial. Tested with OpenVINO 2026.4 on an Intel CPU
    and with QNN's emulator; not tested with TensorRT for RTX.
Example: ``--target openvino --rewrite compiled-parts``
References: ONNX Runtime documentation, "EP Context Design".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.catalogue import providers
from ortune.graph.model.graphs import nodes
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import repair_saved

_PART = "EPContext"


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if any(node.op_type == _PART for node in nodes(model)):
        return ("the model already contains compiled parts; pass the original instead",)
    return ()


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if _refuses(model):
        return []
    count = sum(1 for node in nodes(model) if node.op_type != "Constant")
    their = amount(count, "node")
    return [
        ({}, f"the execution provider compiles its part of {their} at every start; saved parts avoid that")
    ]


REWRITE = Rewrite(
    name="compiled-parts",
    summary="saves the parts that the execution provider compiles, so sessions start faster",
    safety="exact",
    stage=10,
    hardware_bound=True,
    by_provider=True,
    objectives=("cold-start",),
    targets=providers.target_names(lambda p: p.saves_compiled),
    task="compile",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
