"""Lets the optimiser of onnxscript rewrite the graph, where the environment that is measured has it.

What it is: ``onnxscript.optimizer.optimize``, which torch's newer exporter applies to what it writes: functions
    inlined, constants and shapes folded, redundant Casts, Reshapes and Transposes removed. ortune never installs it.
Why it costs: what other exporters leave, or torch's without optimisation, ONNX Runtime removes in part at each start.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in another order. The outputs are compared, as for every rewrite.
Example: ``--rewrite onnxscript-optimizer``
References: ONNX Script documentation, "Optimizer".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import mend
from ortune.rewrites._others import refuses

NAME = "onnxscript-optimizer"


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, NAME)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    return [] if _refuses(model) else [({}, "onnxscript is in the environment, and may simplify the graph")]


REWRITE = Rewrite(
    name=NAME,
    summary="the optimiser of onnxscript simplifies the graph",
    safety="exact",
    stage=6,
    task="onnxscript",
    needs="onnxscript",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
