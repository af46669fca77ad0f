"""Constraints of ONNX Runtime's XNNPACK provider on a node, in addition to the recorded results for single nodes.

The results are from its last browser build; the constraints are from the provider's own checks
(microsoft/onnxruntime, ``core/providers/xnnpack``). Its kernels are created with the model, so all sizes except the
batch must be known, and weights must be constants.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortune.catalogue.providers import XNNPACK
from ortune.engines.partitions.facts import Check, NodeFacts, reason
from ortune.engines.partitions.probed import check_answers, probed_answers
from ortune.engines.partitions.units import Unit
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import operator

_ACTIVATIONS = op_set("Relu Clip")
"""Operators that the provider takes only after a node into which it fuses them."""
_IN_IMAGES = op_set("Conv ConvTranspose MaxPool AveragePool Resize")
_EIGHT_BITS = (ir.DataType.UINT8, ir.DataType.INT8)


def check(node: NodeFacts) -> Check:
    """Yield the result of each check for a node with a listed operator."""
    op = node.node.op_type
    if op in _ACTIVATIONS:
        yield from _taken_up(node)
        return
    yield from check_answers(node, probed_answers(XNNPACK.target))
    if op in _IN_IMAGES:
        open_sizes = None in node.shape(0)[1:]
        yield reason("dynamic-shape", "input 0") if open_sizes else None
    if op in _CHECKS:
        yield from _CHECKS[op](node)


def _taken_up(node: NodeFacts) -> Check:
    """Check an activation: the node before it must be taken, and have no other reader."""
    value = node.value(0)
    before = value.producer() if value is not None else None
    if value is None or before is None or node.quantized:
        yield reason("neighbour", "does not follow a node that fuses it")
        return
    kinds = probed_answers(XNNPACK.target).forms.get(node.operator, {})
    ranks = kinds.get(f"float behind {operator(before)}")
    alone = len(tuple(value.uses())) == 1 and not value.is_graph_output()
    fits = ranks is not None and bool(ranks.taken) and alone
    yield None if fits else reason("neighbour", "does not follow a node that fuses it")
    facts = node.of_unit(Unit(target=before, nodes=(before,)))
    taken = next((why for why in check(facts) if why is not None), None) is None
    yield None if taken else reason("neighbour", "the preceding node is not supported")
    yield node.fixed(1, 2)


def _conv(node: NodeFacts) -> Check:
    yield node.ranked(1, 4)
    yield node.fixed(1, 2)
    yield node.one_of("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER")
    if node.quantized:
        yield node.typed(0, _EIGHT_BITS)
        yield None if node.dtype(0) == node.dtype(1) else reason("quantized-form", "input and weight differ")
        scale = constant(node.unit.dequantized[1].inputs[1]) if 1 in node.unit.dequantized else None
        signed = node.dtype(0) == ir.DataType.INT8
        yield None if signed or scale is None or scale.size == 1 else reason("quantized-form", "per-channel")


def _pool(node: NodeFacts) -> Check:
    yield None if len(node.node.outputs) == 1 else reason("outputs")
    yield node.integer_is("ceil_mode", 0)
    yield node.one_of("auto_pad", "NOTSET", "NOTSET", "VALID", "SAME_UPPER")
    kernel = node.integers("kernel_shape")
    yield reason("attribute", f"kernel_shape={kernel}") if kernel == [1, 1] else None
    if node.node.op_type == "AveragePool":
        yield node.integer_is("count_include_pad", int(node.quantized))


def _softmax(node: NodeFacts) -> Check:
    if node.version < 13:
        return
    rank = node.rank(0)
    axis = node.integer("axis", -1)
    yield None if rank is not None and axis in (-1, rank - 1) else reason("attribute", f"axis={axis}")


def _resize(node: NodeFacts) -> Check:
    yield node.one_of("mode", "nearest", "linear")
    yield node.one_of(
        "coordinate_transformation_mode",
        "half_pixel",
        "half_pixel",
        "align_corners",
        "asymmetric",
        "pytorch_half_pixel",
    )
    yield node.fixed(1, 2, 3)


def _matmul(node: NodeFacts) -> Check:
    yield node.ranked(1, 1, 2)
    yield node.fixed(1)


def _gemm(node: NodeFacts) -> Check:
    yield node.fixed(1, 2)
    for name in ("alpha", "beta"):
        yield None if node.real(name, 1.0) == 1.0 else reason("attribute", f"{name}={node.real(name, 1.0)}")
    bias = node.shape(2)
    if node.has(2):
        yield None if bias[:1] and bias[0] in node.shape(1) else reason("shape", "input 2")


_CHECKS: dict[str, Callable[[NodeFacts], Check]] = {
    "Conv": _conv,
    "Gemm": _gemm,
    "ConvTranspose": _conv,
    "QLinearConv": lambda node: iter((node.fixed(1, 2, 3, 4, 5, 6, 7, 8),)),
    "MaxPool": _pool,
    "AveragePool": _pool,
    "Softmax": _softmax,
    "Resize": _resize,
    "MatMul": _matmul,
}
