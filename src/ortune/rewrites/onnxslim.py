"""Lets onnxslim simplify the graph, where the environment that is measured has it.

What it is: the package ``onnxslim``: constants folded, dead and repeated nodes removed, batch normalisations and sums
    merged into the products before them. ortune never installs it.
Why it costs: ONNX Runtime does most of that at each start; what it leaves, shape arithmetic above all, runs each time.
Evidence: the number of nodes in the optimised graph, with and without.
Fix and its safety: exact: the same sums, some in another order. The outputs are compared, as for every rewrite.
Example: ``--rewrite onnxslim``
References: github.com/inisis/OnnxSlim.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite
from ortune.rewrites._marks import mend
from ortune.rewrites._others import refuses

NAME = "onnxslim"


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, NAME)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    return [] if _refuses(model) else [({}, "onnxslim is in the environment, and may simplify the graph")]


REWRITE = Rewrite(
    name=NAME,
    summary="onnxslim simplifies the graph",
    safety="exact",
    stage=6,
    task="onnxslim",
    needs="onnxslim",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
