"""Writes the model in ORT format, as ONNX Runtime's converter does.

What it is: a finished graph as a flatbuffer, weights included, which is read without being parsed. It is optimised
    while it is written: basic folds constants and batch normalisation, extended fuses for the CPU's kernels, all lays
    out for them too (without the blocks of x86). The style fixed does so at once; runtime keeps the graph at the
    level basic and stores what the CPU may still fuse at load.
Why it costs: an .onnx is parsed and optimised at every start; and builds for phones, or pages that count their bytes,
    read this format alone.
Evidence: time to make the session; the size of the build that can read it.
Fix and its safety: exact (sums are reassociated). Keep the original beside it, since nothing can be changed in an
    .ort. From extended on it holds operators of the CPU (FusedConv, FusedGemm, FusedMatMul): on WebGPU those are
    slow, wrong, or no session at all. Even at basic WebGPU copies nothing between CPU and GPU for an .ort: give it
    the .onnx.
Example: ``--rewrite ort-format:level=basic``
References: ONNX Runtime documentation, "ORT model format"; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.model.graphs import nodes
from ortune.providers.web_wasm import PROVIDER as WEB_WASM
from ortune.records import Workload
from ortune.rewrites._base import ORT, Param, Proposed, Rewrite

_LEVELS = ("basic", "extended", "all")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count = sum(1 for _ in nodes(model))
    their = "node" if count == 1 else f"{count} nodes"
    return [
        (
            {"level": level},
            f"ONNX Runtime parses and optimises its {their} at every start; in ORT format less of that",
        )
        for level in _LEVELS
    ]


REWRITE = Rewrite(
    name="ort-format",
    summary="the model is written in ORT format, to start faster",
    safety="exact",
    stage=10,
    params=(
        Param(
            name="level",
            kind="choice",
            default="basic",
            choices=_LEVELS,
            summary="how far ONNX Runtime optimises before writing",
        ),
        Param(
            name="style",
            kind="choice",
            default="fixed",
            choices=("fixed", "runtime"),
            summary="all of that at once, or the CPU's own part when it is loaded",
        ),
        Param(
            name="platform",
            kind="choice",
            default="any",
            choices=("any", "arm", "amd64"),
            summary="arm keeps int8 weights signed; amd64 adds the blocked layout of this CPU at level all",
        ),
    ),
    objectives=("cold-start", "memory"),
    targets=(WEB_WASM.target,),
    task="ort-format",
    makes=ORT,
    proposes=_proposes,
)
