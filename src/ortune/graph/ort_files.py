"""Facts about a file in ORT format: optimization level, style, releases that read it, and targets that reject it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import providers_with
from ortune.graph.model.graphs import nodes
from ortune.graph.model.open import OpenModel
from ortune.graph.model.ort_file import SAVED, VERSION
from ortune.printable import amount
from ortune.records import OrtFile, Rejection

KEPT_FOR = "ortune.kept_for"
"""Metadata key of a provider-aware file: the target for which nodes were left unfused."""
BLOCKED = "com.microsoft.nchwc"
CONTRIB = "com.microsoft"
FUSED_CONV = "FusedConv"
FUSED_PRODUCTS = frozenset({"FusedGemm", "FusedMatMul"})
_RESIDUAL = 3

_READ_BY = {
    "1": "onnxruntime 1.5 to 1.7",
    "2": "onnxruntime 1.6 and 1.7",
    "3": "onnxruntime 1.7",
    "4": "onnxruntime 1.8 to 1.12, and full builds of 1.14 and later",
    "5": "onnxruntime 1.13 and later",
    "6": "onnxruntime 1.16 and later",
}
"""Maps each version of the format to the releases that read it, according to ONNX Runtime's documentation."""
_TODAY = ("5", "6")
"""Versions of the format that every current build reads."""


def is_blocked(node: ir.Node) -> bool:
    """Return whether a node is in the NCHWc blocked layout, which is specific to a CPU's vector width."""
    return node.domain == BLOCKED


def is_fused(node: ir.Node, *names: str) -> bool:
    """Return whether a node has one of these fused operators of the domain ``com.microsoft``."""
    return node.domain == CONTRIB and node.op_type in names


def has_residual(node: ir.Node) -> bool:
    """Return whether a FusedConv has the optional fourth input Z, which is added to the result."""
    return len(node.inputs) > _RESIDUAL and node.inputs[_RESIDUAL] is not None


def saved_at(model: ir.Model) -> str:
    """Return the CPU optimization level at which a model was saved, judged by its operators; "" if unknown."""
    present = list(nodes(model))
    if any(is_blocked(n) for n in present):
        return "all, for x86"
    if any(is_fused(n, FUSED_CONV) and has_residual(n) for n in present):
        return "all"
    if any(is_fused(n, FUSED_CONV, *FUSED_PRODUCTS) for n in present):
        return "extended or all"
    return ""


def inspect(model: OpenModel) -> OrtFile | None:
    """Return the facts about a file in ORT format; None for other formats."""
    if not model.in_ort_format:
        return None
    version, saved = str(model.ir.meta[VERSION]), dict(model.ir.meta[SAVED])
    own = Counter(f"{n.domain}.{n.op_type}" for n in nodes(model.ir) if n.domain.startswith(CONTRIB))
    return OrtFile(
        version=version,
        read_by=_READ_BY.get(version, ""),
        level=saved_at(model.ir) or "basic or none",
        style="runtime" if saved else "fixed",
        saved_optimisations=saved,
        own_operators=dict(own.most_common()),
        kept_for=model.ir.metadata_props.get(KEPT_FOR, ""),
        rejected_by=tuple(_rejections(model.ir, version, own)),
    )


def _rejections(model: ir.Model, version: str, own: Counter[str]) -> Iterator[Rejection]:
    if version not in _READ_BY:
        yield Rejection(
            where="every known release of onnxruntime", why=f"format version {version!r} is unknown"
        )
    elif version not in _TODAY:
        yield Rejection(
            where="current mobile and web builds", why=f"they do not read format version {version}"
        )
    if any(is_blocked(node) for node in nodes(model)):
        yield Rejection(
            where="processors other than the one it was converted on",
            why="its convolutions are laid out in blocks as wide as that processor's vectors",
        )
    if any(is_fused(node, FUSED_CONV) for node in nodes(model)):
        yield Rejection(where="WebGPU", why="a FusedConv in an .ort file makes session creation fail")
    if own:
        count = own.total()
        left = amount(count, "node")
        names = ", ".join(p.target for p in providers_with(lambda p: p.standard_operators))
        yield Rejection(where=names, why=f"{left} of onnxruntime's own operators would stay on the CPU")
        yield Rejection(where="builds without contrib operators", why=f"it needs {', '.join(sorted(own))}")
