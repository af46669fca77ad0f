"""Checks a node against the recorded results of a real provider, by operator, element type and rank.

``tools/probe_provider.py`` records which nodes the real provider takes: Qualcomm's emulator for QNN, a software adapter
for WebGPU, a browser build for XNNPACK. A case without a record uses the nearest record: another rank of the same type,
and for a quantized node the float node.
"""

from __future__ import annotations

from functools import cache

import msgspec
import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import QNN, WEBGPU
from ortune.engines.partitions.facts import Check, NodeFacts, reason
from ortune.engines.partitions.tables import FOLDER
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set, type_name

_WEIGHTED = op_set("Conv ConvTranspose Gemm MatMul")
_USUAL = {"float32": "float", "float64": "double"}
"""Names of element types in ONNX's own tests."""


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks of the first input for which the provider took a node, and for which it did not."""

    taken: tuple[int, ...]
    left: tuple[int, ...]


class ProbedAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """Recorded results of a provider.

    Attributes:
        fixed_sizes: Whether the provider refuses nodes with dynamic sizes.
        constants: Operators whose inputs must be constant, except the first input.
        forms: Ranks keyed by operator and element type; the type is "qdq" for float32 with QDQ nodes, and for a Cast
            like "float to int64".
    """

    fixed_sizes: bool
    constants: frozenset[str]
    forms: dict[str, dict[str, Ranks]]


@cache
def probed_answers(name: str) -> ProbedAnswers:
    """Return the recorded results of a target's provider."""
    return msgspec.json.decode((FOLDER / f"{name}.json").read_bytes(), type=ProbedAnswers)


def check_qnn(node: NodeFacts) -> Check:
    """Yield the result of each check for a node on QNN's HTP backend."""
    yield from check_answers(node, probed_answers(QNN.target))
    if node.quantized and node.node.op_type in _WEIGHTED:
        yield from _weights(node)


def _weights(node: NodeFacts) -> Check:
    """Yield the result of each check of quantized weights, as found with QNN's emulator."""
    before = node.unit.dequantized.get(1)
    if before is None:
        return
    scale, zero = constant(before.inputs[1]), constant(before.inputs[2]) if len(before.inputs) > 2 else None
    if scale is not None and scale.size != 1:
        yield None if node.dtype(1) == ir.DataType.INT8 else reason("quantized-form", "unsigned per-channel")
        asymmetric = zero is not None and bool(np.any(zero))
        yield reason("quantized-form", "asymmetric per-channel") if asymmetric else None
    mixed = (node.dtype(0), node.dtype(1)) == (ir.DataType.INT16, ir.DataType.UINT8)
    yield reason("quantized-form", "int16 activations with uint8 weights") if mixed else None


def check_webgpu(node: NodeFacts) -> Check:
    """Yield the result of each check for a node on WebGPU."""
    yield from check_answers(node, probed_answers(WEBGPU.target))


def check_answers(node: NodeFacts, provider_answers: ProbedAnswers) -> Check:
    """Yield the result of each check of a node against a provider's recorded results."""
    if node.count:
        yield from node.shapes_known(fixed=provider_answers.fixed_sizes)
    if node.node.op_type in provider_answers.constants:
        yield node.fixed(*range(1, node.count))
    forms = provider_answers.forms.get(node.operator, {})
    dtype = node.dtype(0)
    kind = "qdq" if node.quantized and "qdq" in forms else type_name(dtype) if dtype is not None else ""
    kind = _USUAL.get(kind, kind)
    if node.operator == "Cast":
        after = type_name(ir.DataType(node.integer("to", 0)))
        kind = f"{kind} to {_USUAL.get(after, after)}"
    ranks = forms.get("float" if node.quantized and kind not in forms else kind)
    if ranks is None:
        yield reason("element-type", f"input 0 is {kind or 'unknown'}") if node.count else None
        return
    rank = node.rank(0)
    if rank in ranks.taken:
        return
    yield reason("refused", f"{kind}, {rank} dimensions") if not ranks.taken else None
    yield reason("rank", f"input 0 has {rank}") if rank in ranks.left else None
