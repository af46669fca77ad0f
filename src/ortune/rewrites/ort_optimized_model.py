"""Saves ONNX Runtime's optimised graph, which speeds up session creation.

What it is: the session's optimised graph, saved by the same build that will run it. It may contain operators that only
    ONNX Runtime has (com.microsoft, com.microsoft.nchwc).
Why it costs: at every start the graph is resolved, folded, fused and laid out again, which for a large graph takes
    longer than reading the weights. Latency is unchanged. Prepacking of weights is not part of the graph, and still
    happens at each start.
Evidence: session creation time, with and without.
Fix and its safety: exact, but bound to the hardware and the build: at level ``all`` convolutions use blocks as wide as
    this CPU's vectors, and at ``extended`` an older build may not know the fused operators. Keep the original. Folded
    constants are stored, so the file can be several times larger. The plan must disable the optimiser
    (``graph_optimization_level=disable``), or no time is saved. To disable individual optimisers, use the parameter
    ``without``: with the optimiser disabled, the setting ``disabled_optimizers`` has no effect.
Example: ``--rewrite ort-optimized-model:level=extended``
References: ONNX Runtime documentation, "Graph Optimizations", online and offline mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.model.graphs import nodes
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import made_by, repair_saved

NAME = "ort-optimized-model"


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if NAME in made_by(model):
        return ("the model is already ONNX Runtime's optimised graph; pass the original instead",)
    return ()


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if _refuses(model):
        return []
    count = sum(1 for node in nodes(model) if node.op_type != "Constant")
    those = "node" if count == 1 else f"{count} nodes"
    return [({}, f"ONNX Runtime optimises the model's {those} at every start; the saved graph avoids that")]


REWRITE = Rewrite(
    name=NAME,
    summary="saves ONNX Runtime's optimised graph, so sessions start faster",
    safety="exact",
    stage=9,
    hardware_bound=True,
    params=(
        Param(
            name="level",
            kind="choice",
            default="all",
            choices=("all", "extended", "basic"),
            summary="optimisation level before saving",
        ),
        Param(
            name="without",
            kind="text",
            summary="optimisers to disable, joined by + (for example SkipLayerNormFusion)",
        ),
    ),
    settings={"graph_optimization_level": "disable"},
    objectives=("cold-start",),
    task="optimize",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
