"""A model in ORT format is used with WebGPU.

What it is: an .ort file for WebGPU. Its graph is final: it was optimised for the CPU, at level all unless
    ORT_CONVERT_ONNX_MODELS_TO_ORT_OPTIMIZATION_LEVEL was set.
Why it costs: with FusedConv in the file (level extended or higher), session creation fails, because an .ort file lacks
    what WebGPU's layout conversion needs. ONNX Runtime also inserts no copies between CPU and GPU into an .ort file. If
    only some nodes run on the GPU, or CPU and GPU share a constant, runs fail or silently return wrong values.
Evidence: the format and the operators.
Fix and its safety: advice: ship the .onnx for WebGPU. If it must be an .ort file, use level basic, with every node on
    the GPU, and compare the outputs.
Example: ``ortune convert model.onnx --to ort --for web-webgpu``
References: microsoft/onnxruntime#24475, #23072.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import FUSED_CONV, is_fused, saved_at
from ortune.records import Finding
from ortune.rules._browsers import GPU, supported_file_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "WEB003"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the model is in ORT format and WebGPU runs it."""
    if facts.model is None or facts.target not in GPU or not facts.model.in_ort_format:
        return
    fused = [node for node in nodes(facts.model.ir) if is_fused(node, FUSED_CONV)]
    if fused:
        level = saved_at(facts.model.ir)
        yield Finding(
            code=CODE,
            severity="error",
            what=f"session creation fails on WebGPU: ORT format with CPU fusions (level {level}): {counted(fused)}",
            where=tuple(map(name_of, fused)),
            fix=supported_file_fix(facts),
        )
    else:
        yield Finding(
            code=CODE,
            what="ORT format on WebGPU fails or silently returns wrong values if only some nodes run on the GPU, "
            "or CPU and GPU share a constant",
            fix="ship the .onnx for WebGPU",
        )
