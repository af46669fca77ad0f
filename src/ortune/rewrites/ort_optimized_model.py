"""Saves the graph as ONNX Runtime has optimised it, so that starting need not do it again.

What it is: the session's own optimised graph, written to a file by the same build that will run it. It may hold
    operators of ONNX Runtime alone (com.microsoft, com.microsoft.nchwc).
Why it costs: at every start the graph is resolved, folded, fused and laid out anew; in a large graph that takes longer
    than reading the weights. Steady calls are as fast as before: prepacking the weights for the kernels is not part
    of the graph, and is done at each start as ever.
Evidence: time of session creation, with and without.
Fix and its safety: exact, and bound to the hardware and the build: at level ``all`` convolutions are in blocks as wide
    as this CPU's vectors, and at ``extended`` fused operators may be unknown to an older build. Keep the original
    beside it. What was computed once is stored, so the file can be several times larger. The plan must turn the
    optimiser off (``graph_optimization_level=disable``), or nothing is saved; single optimisers that cost more than
    they bring are therefore left out here (``without``), and not by a setting.
Example: ``--rewrite ort-optimized-model:level=extended``
References: ONNX Runtime documentation, "Graph Optimizations", online and offline mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.model.graphs import nodes
from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import made_by, mend

NAME = "ort-optimized-model"


def _refuses(model: ir.Model) -> tuple[str, ...]:
    if NAME in made_by(model):
        return ("the model is ONNX Runtime's optimised graph already; give the original to optimise it anew",)
    return ()


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if _refuses(model):
        return []
    count = sum(1 for node in nodes(model) if node.op_type != "Constant")
    their = "node" if count == 1 else f"{count} nodes"
    return [({}, f"ONNX Runtime optimises its {their} at every start; saved, that is done once")]


REWRITE = Rewrite(
    name=NAME,
    summary="ONNX Runtime's optimised graph is saved, to start faster",
    safety="exact",
    stage=9,
    hardware_bound=True,
    params=(
        Param(
            name="level",
            kind="choice",
            default="all",
            choices=("all", "extended", "basic"),
            summary="how far ONNX Runtime optimises before saving",
        ),
        Param(
            name="without",
            kind="text",
            summary="optimisers that are left out, joined by +: SkipLayerNormFusion, say",
        ),
    ),
    settings={"graph_optimization_level": "disable"},
    objectives=("cold-start",),
    task="optimize",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
