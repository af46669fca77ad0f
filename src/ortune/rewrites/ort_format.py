"""Writes the model in ORT format, with ONNX Runtime's converter.

What it is: an optimised graph as a flatbuffer, weights included, which loads without parsing. The level sets how far
    the graph is optimised: ``basic`` folds constants and BatchNormalization, ``extended`` adds CPU fusions, ``all``
    adds CPU layouts (except the NCHWc blocks of x86). Style ``fixed`` applies all optimisations now. Style ``runtime``
    keeps the graph at level basic and stores the CPU fusions for load time.
Why it costs: an .onnx file is parsed and optimised at every start. Builds for phones, and small builds for web pages,
    read only this format.
Evidence: session creation time; the size of the build that can read it.
Fix and its safety: exact (sums are reassociated). Keep the original, because an .ort file cannot be changed. At level
    extended or higher, the file contains CPU operators (FusedConv, FusedGemm, FusedMatMul), which on WebGPU are slow,
    wrong, or make session creation fail. Even at level basic, ONNX Runtime inserts no copies between CPU and GPU
    into an .ort file, so use the .onnx file on WebGPU.
Example: ``--rewrite ort-format:level=basic``
References: ONNX Runtime documentation, "ORT model format"; microsoft/onnxruntime#24475.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.catalogue.providers import WEB_WASM
from ortune.graph.model.graphs import nodes
from ortune.records import Workload
from ortune.rewrites._base import ORT, Param, Proposed, Rewrite

_LEVELS = ("basic", "extended", "all")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    count = sum(1 for _ in nodes(model))
    those = "node" if count == 1 else f"{count} nodes"
    return [
        (
            {"level": level},
            f"ONNX Runtime parses and optimises the model's {those} at every start; ORT format reduces that",
        )
        for level in _LEVELS
    ]


REWRITE = Rewrite(
    name="ort-format",
    summary="writes the model in ORT format, so sessions start faster",
    safety="exact",
    stage=10,
    params=(
        Param(
            name="level",
            kind="choice",
            default="basic",
            choices=_LEVELS,
            summary="optimisation level before writing",
        ),
        Param(
            name="style",
            kind="choice",
            default="fixed",
            choices=("fixed", "runtime"),
            summary="apply all optimisations now, or CPU fusions at load time",
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
