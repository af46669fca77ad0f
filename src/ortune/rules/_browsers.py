"""What rules on browsers have in common: their targets and builds, and what fusions for the CPU mean there."""

from __future__ import annotations

import onnx_ir as ir

from ortune.catalogue.computed.web_build import build_of
from ortune.catalogue.named import WEB_BUILD as BUILD
from ortune.catalogue.providers import COREML, NNAPI, QNN, WEB_WASM, WEB_WEBGPU, WEBGPU, XNNPACK, targets
from ortune.graph.model.graphs import nodes
from ortune.graph.ort_files import FUSED_CONV, has_residual, is_fused
from ortune.rules.facts import Facts

GPU = targets(lambda p: WEBGPU.name in p.profiled_as)
"""Targets that run ONNX Runtime's own WebGPU provider, in a browser and outside."""

NATIVE = ("asyncify", "jspi")
"""Builds of onnxruntime-web with that provider: WebGPU in the others is JSEP."""

JSEP = "jsep"

_PLACES = tuple(p.target for p in (NNAPI, COREML, XNNPACK, QNN, WEB_WASM))
"""Targets that ``ortune convert --to ort`` has a place of its own for; what it makes for WebGPU is plain ONNX."""


def back(facts: Facts) -> str:
    """Return how to have a file whose operators the target knows."""
    place = facts.target if facts.target in _PLACES else WEB_WEBGPU.target
    return (
        f"ship the original .onnx, or convert it again: ortune convert original.onnx --to ort --for {place}"
    )


def build_run(facts: Facts) -> str:
    """The build of onnxruntime-web that runs the model; "" outside of pages, and where a watched one shows none."""
    usual = "" if facts.asked else facts.provider.name
    return build_of(facts.plan.settings, usual)


def shows_build(facts: Facts) -> bool:
    """Return whether it is known how a page loads the model, which a file alone does not tell."""
    return facts.work is not None or BUILD.name in facts.plan.settings


def residual_convolutions(model: ir.Model) -> list[ir.Node]:
    """Convolutions that add a fourth input, Z, to what they compute."""
    return [n for n in nodes(model) if is_fused(n, FUSED_CONV) and has_residual(n)]
