"""A model in ORT format is meant for WebGPU.

What it is: an .ort file, where the target is WebGPU. Its graph is finished: it was optimised for the CPU, to the
    level all unless ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL said otherwise.
Why it costs: FusedConv in the file, from the level extended on, makes the session fail, since the file lacks what
    WebGPU's layout of it needs. And no copies between CPU and GPU are put into an .ort: where one node of it runs on
    the CPU, or a constant is used on both sides, runs fail, or give wrong numbers without a word.
Evidence: the format; the operators.
Fix and its safety: advice: ship the .onnx for WebGPU. If it must be an .ort, then of the level basic, with every node
    on the GPU and the outputs compared.
Example: ``ortune rewrite model.onnx ort-format:level=basic``
References: microsoft/onnxruntime#24475, #23072.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.analysis.ort_files import FUSED_CONV, is_fused, saved_at
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._browsers import BACK, GPU
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "WEB003"


def find(facts: Facts) -> Iterator[Finding]:
    """In the file's format, where WebGPU runs it."""
    if facts.model is None or facts.target not in GPU or facts.model.facts.format != "ort":
        return
    fused = [node for node in nodes(facts.model.ir) if is_fused(node, FUSED_CONV)]
    if fused:
        level = saved_at(facts.model.ir)
        yield Finding(
            code=CODE,
            severity="error",
            what=f"no session on WebGPU: ORT format, fused for the CPU (level {level}): {counted(fused)}",
            where=tuple(map(name_of, fused)),
            fix=BACK,
        )
    else:
        yield Finding(
            code=CODE,
            what="ORT format on WebGPU: with a node or constant on the CPU, runs fail or give wrong numbers unnoticed",
            fix="ship the .onnx for WebGPU",
        )
