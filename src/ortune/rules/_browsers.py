"""What rules on browsers have in common: their targets, and how far a file was optimised before it was saved."""

from __future__ import annotations

import onnx_ir as ir

from ortune.knobs.web.web_build import KNOB as BUILD
from ortune.knobs.web.web_build import build_of
from ortune.model.graphs import nodes
from ortune.providers import targets
from ortune.providers.webgpu import PROVIDER as WEBGPU
from ortune.rules.facts import Facts

GPU = targets(lambda p: WEBGPU.name in p.profiled_as)
"""Targets that run ONNX Runtime's own WebGPU provider, in a browser and outside."""

NATIVE = ("asyncify", "jspi")
"""Builds of onnxruntime-web with that provider: WebGPU in the others is JSEP."""

JSEP = "jsep"

FUSED_PRODUCTS = frozenset({"FusedGemm", "FusedMatMul"})
FUSED_CONV = "FusedConv"
_RESIDUAL = 3

BACK = "ship the .onnx it was made from, or convert that: ortune rewrite MODEL ort-format:level=basic"


def build_run(facts: Facts) -> str:
    """The build of onnxruntime-web that runs the model; "" outside of pages, and where a watched one shows none."""
    usual = "" if facts.asked else facts.provider.name
    return build_of(facts.plan.settings, usual)


def shows_build(facts: Facts) -> bool:
    """Whether it is known how a page loads the model, which a file alone does not tell."""
    return facts.work is not None or BUILD.name in facts.plan.settings


def is_blocked(node: ir.Node) -> bool:
    """Whether an operator is of the layout in blocks, which is made for one kind of CPU."""
    return node.domain == "com.microsoft.nchwc"


def is_fused(node: ir.Node, *names: str) -> bool:
    """Whether it is one of these fusions of the CPU's optimiser."""
    return node.domain == "com.microsoft" and node.op_type in names


def residual_convolutions(model: ir.Model) -> list[ir.Node]:
    """Convolutions that add a fourth input, Z, to what they compute."""
    return [n for n in nodes(model) if is_fused(n, FUSED_CONV) and _has_residual(n)]


def saved_at(model: ir.Model) -> str:
    """The level at which a model was optimised for the CPU before it was saved, as far as its operators tell; or ""."""
    found = list(nodes(model))
    if any(is_blocked(n) for n in found):
        return "all, for x86"
    if any(is_fused(n, FUSED_CONV) and _has_residual(n) for n in found):
        return "all"
    if any(is_fused(n, FUSED_CONV, *FUSED_PRODUCTS) for n in found):
        return "extended or all"
    return ""


def _has_residual(node: ir.Node) -> bool:
    return len(node.inputs) > _RESIDUAL and node.inputs[_RESIDUAL] is not None
