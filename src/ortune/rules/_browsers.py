"""Code shared by rules on browsers: targets, builds, and the effect of fusions made for the CPU."""

from __future__ import annotations

import onnx_ir as ir

from ortune.catalogue.computed.web_build import build_of
from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.providers import COREML, NNAPI, QNN, WEB_WASM, WEB_WEBGPU, WEBGPU, XNNPACK, target_names
from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import FUSED_CONV, has_residual, is_fused
from ortune.rules.facts import Facts

GPU = target_names(lambda p: WEBGPU.name in p.profiled_as)
"""Targets that run ONNX Runtime's WebGPU provider, in and outside of browsers."""

NATIVE = ("asyncify", "jspi")
"""Builds of onnxruntime-web with ONNX Runtime's WebGPU provider; other builds implement WebGPU as JSEP."""

JSEP = "jsep"

_PLACES = tuple(p.target for p in (NNAPI, COREML, XNNPACK, QNN, WEB_WASM))
"""Targets that ``ortune convert --to ort`` accepts by name; files for WebGPU keep plain ONNX operators."""


def supported_file_fix(facts: Facts) -> str:
    """Return the text of a fix that creates a file with operators that the target supports."""
    place = facts.target if facts.target in _PLACES else WEB_WEBGPU.target
    return (
        f"ship the original .onnx, or convert it again: ortune convert original.onnx --to ort --for {place}"
    )


def build_run(facts: Facts) -> str:
    """Return the name of the onnxruntime-web build that runs the model; "" outside browsers or if unknown."""
    usual = "" if facts.asked else facts.provider.name
    return build_of(facts.plan.settings, usual)


def shows_build(facts: Facts) -> bool:
    """Return whether the build of onnxruntime-web is known; a model file alone does not name the build."""
    return facts.work is not None or BUILD.name in facts.plan.settings


def residual_convolutions(model: ir.Model) -> list[ir.Node]:
    """Return the fused convolutions with a fourth input, Z, that is added to the result."""
    return [n for n in nodes(model) if is_fused(n, FUSED_CONV) and has_residual(n)]
