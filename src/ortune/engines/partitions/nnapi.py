"""Constraints of ONNX Runtime's NNAPI provider on a node, in addition to the list of operators.

Some constraints are remarks in the list; others are from the provider's own checks (microsoft/onnxruntime,
``core/providers/nnapi/nnapi_builtin/builders/impl/*_op_builder.cc``, ``helper.cc`` for quantized nodes, and
``op_builder_helpers.cc`` for batched MatMul). Android 11 is assumed, which has NNAPI's feature level 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortune.engines.partitions.facts import Check, NodeFacts, reason
from ortune.graph.constants import constant, is_constant
from ortune.graph.model.graphs import op_set
from ortune.records import NodeReason

STOP = op_set("NonMaxSuppression")
"""Operators after which the provider takes nothing, unless ``ep.nnapi.partitioning_stop_ops`` changes that."""

NOT_ALONE = op_set("Reshape Flatten Identity")
"""Operators that do not form a region by themselves, since such a region would only copy."""

_FLOAT, _UINT8, _INT8, _INT32 = ir.DataType.FLOAT, ir.DataType.UINT8, ir.DataType.INT8, ir.DataType.INT32
_QDQ = op_set("Conv Resize AveragePool Add Mul Transpose Reshape Softmax Concat Gemm MatMul")
"""Operators that are taken with their QDQ nodes."""
_FLOAT_OR_UINT8 = op_set("MaxPool Resize Transpose Concat")
_WEIGHTED = op_set("Conv Gemm MatMul")

_LEAST = {
    **dict.fromkeys(op_set("Add Sub Mul Div Pow Gemm BatchNormalization"), 7),
    **dict.fromkeys(op_set("Abs Exp Floor Log Neg Sqrt Sigmoid Tanh Sin Elu LeakyRelu Relu Max Min Cast"), 6),
    "Reshape": 5, "Slice": 10, "Pad": 11, "Resize": 11, "Split": 13,
}  # fmt: skip
"""The oldest supported opset version by operator; earlier versions have other parameters."""


def check(node: NodeFacts) -> Check:
    """Yield the result of each check for a node with a listed operator."""
    yield from node.shapes_known(fixed=True)
    op = node.node.op_type
    yield node.least_opset(_LEAST.get(op, 1))
    yield from _types(node)
    if op in _CHECKS:
        yield from _CHECKS[op](node)


def _types(node: NodeFacts) -> Check:
    op = node.node.op_type
    if node.quantized:
        yield from _qdq(node)
    elif op.startswith("QLinear"):
        yield node.typed(0, (_UINT8,))
        # Data, scale and zero point are three inputs in a row, and those of the output are last.
        second = op in ("QLinearAdd", "QLinearMul")
        yield node.fixed(*(place for place in range(1, node.count) if not (second and place == 3)))
    elif op in ("QuantizeLinear", "DequantizeLinear"):
        yield node.fixed(1, 2)
        yield reason("quantized-form", "per-channel") if _size(node.value(1)) != 1 else None
        yield node.typed(0, (_FLOAT,) if op == "QuantizeLinear" else (_UINT8,))
        stored = node.dtype(2) if node.has(2) else _UINT8
        yield None if stored == _UINT8 else reason("element-type", "zero point")
    elif op in _FLOAT_OR_UINT8:
        yield node.typed(0, (_FLOAT, _UINT8))
    else:
        yield node.typed(0, (_FLOAT,))


def _qdq(node: NodeFacts) -> Check:
    """Check a node with its QDQ nodes: unsigned activations, constant scales, per-channel scales only for weights."""
    op = node.node.op_type
    yield None if op in _QDQ else reason("quantized-form", "QDQ")
    for place, before in node.unit.dequantized.items():
        scale, zero = before.inputs[1], before.inputs[2] if len(before.inputs) > 2 else None
        yield _constant_scales(scale, zero)
        weight = place == 1 and op in _WEIGHTED
        if place == 2 and op in _WEIGHTED:
            yield node.typed(place, (_INT32,))
        else:
            yield node.typed(place, (_UINT8, _INT8) if weight else (_UINT8,))
        if _size(scale) != 1:
            yield None if op == "Conv" and place else reason("quantized-form", "per-channel")
            stored = constant(zero)
            asymmetric = stored is not None and bool(np.any(stored))
            yield reason("quantized-form", "asymmetric per-channel") if asymmetric else None
    for behind in node.unit.quantizers:
        scale, zero = behind.inputs[1], behind.inputs[2] if len(behind.inputs) > 2 else None
        yield _constant_scales(scale, zero)
        yield reason("quantized-form", "per-channel") if _size(scale) != 1 else None
        kind = node.values.inferred(zero).dtype if zero is not None else _UINT8
        yield None if kind == _UINT8 else reason("element-type", "output")
        if op == "Softmax":
            number = constant(scale)
            exact = number is not None and float(number.reshape(-1)[0]) == 1 / 256
            yield None if exact else reason("quantized-form", "output scale is not 1/256")


def _constant_scales(scale: ir.Value | None, zero: ir.Value | None) -> NodeReason | None:
    constants = is_constant(scale) and (zero is None or is_constant(zero))
    return None if constants else reason("not-constant", "scale or zero point")


def _size(value: ir.Value | None) -> int:
    own = constant(value)
    return 1 if own is None else own.size


def _binary(node: NodeFacts) -> Check:
    yield node.ranked(0, 0, 1, 2, 3, 4)
    yield node.ranked(1, 0, 1, 2, 3, 4)
    if node.node.op_type == "Pow":
        yield node.typed(1, (_FLOAT,))


def _pool(node: NodeFacts) -> Check:
    yield node.ranked(0, 4)
    if not node.node.op_type.startswith("Global"):
        yield node.integer_is("count_include_pad", 0)
        yield node.integer_is("storage_order", 0)
        yield node.integer_is("ceil_mode", 0)
        yield node.integers_are("dilations", 1)
        yield None if len(node.node.outputs) == 1 else reason("outputs", "indices")


def _conv(node: NodeFacts) -> Check:
    place = 3 if node.node.op_type == "QLinearConv" else 1
    yield node.fixed(place)
    yield node.ranked(place, 4)
    grouped = node.integer("group", 1) != 1 and node.shape(place)[1] != 1
    if grouped:
        yield node.integers_are("dilations", 1)
    if node.quantized:
        yield node.fixed(2)


def _gemm(node: NodeFacts) -> Check:
    left, right = node.shape(0), node.shape(1)
    if node.node.op_type == "MatMul" and not node.quantized:
        batched = len(left) == len(right) >= 3 and left[:-2] == right[:-2]
        if batched:
            return
    yield node.ranked(0, 2)
    place = 3 if node.node.op_type == "QLinearMatMul" else 1
    yield node.ranked(place, 2)
    transposed = node.integer("transB", 0)
    if not transposed:
        yield node.fixed(place)
    if node.node.op_type == "Gemm":
        yield node.integer_is("transA", 0)
        for name in ("alpha", "beta"):
            yield None if node.real(name, 1.0) == 1.0 else reason("attribute", name)
        if node.has(2):
            bias, wanted = node.shape(2), right[0] if transposed else right[1]
            right_form = bool(bias) and bias[-1] == wanted and all(n == 1 for n in bias[:-1])
            yield None if right_form else reason("shape", "input 2")
        if node.quantized:
            yield node.fixed(2)


def _upto_four(node: NodeFacts) -> Check:
    yield node.ranked(0, 1, 2, 3, 4)


def _batch_normalization(node: NodeFacts) -> Check:
    yield None if len(node.node.outputs) == 1 else reason("outputs")
    yield node.ranked(0, 1, 2, 3, 4)
    yield node.fixed(1, 2, 3, 4)
    yield node.integer_is("training_mode", 0)


def _cast(node: NodeFacts) -> Check:
    to = node.integer("to", 0)
    yield (
        None
        if to in (_FLOAT.value, _INT32.value)
        else reason("attribute", f"to={ir.DataType(to).name.lower()}")
    )


def _clip(node: NodeFacts) -> Check:
    yield node.fixed(1, 2)
    low, high = node.numbers(1), node.numbers(2)
    least = float(low[0]) if low.size else node.real("min", float("-inf"))
    most = float(high[0]) if high.size else node.real("max", float("inf"))
    yield (
        None
        if (least, most) in ((0.0, 6.0), (-1.0, 1.0))
        else reason("constant-value", f"{least:g}..{most:g}")
    )


def _depth_to_space(node: NodeFacts) -> Check:
    yield node.ranked(0, 4)
    yield node.one_of("mode", "DCR", "DCR")


def _gather(node: NodeFacts) -> Check:
    yield from _upto_four(node)
    yield reason("empty-shape", "input 0") if 0 in node.shape(0) else None
    if node.dtype(1) != _INT32:
        yield node.fixed(1)


def _lrn(node: NodeFacts) -> Check:
    yield node.ranked(0, 4)


def _two_inputs(node: NodeFacts) -> Check:
    yield None if node.count == 2 else reason("inputs", str(node.count))


def _pad(node: NodeFacts) -> Check:
    yield from _upto_four(node)
    yield reason("empty-shape", "input 0") if 0 in node.shape(0) else None
    yield node.one_of("mode", "constant", "constant")
    yield node.fixed(1, 2)
    yield reason("constant-value", "negative padding") if (node.numbers(1) < 0).any() else None


def _reduce(node: NodeFacts) -> Check:
    yield from _upto_four(node)
    yield node.fixed(1)


def _reshape(node: NodeFacts) -> Check:
    yield node.fixed(1)
    yield from _upto_four(node)
    zero = node.integer("allowzero", 0) and (node.numbers(1) == 0).any()
    yield reason("constant-value", "shape with 0") if zero else None


def _resize(node: NodeFacts) -> Check:
    yield node.ranked(0, 4)
    yield node.one_of("mode", "nearest", "nearest", "linear")
    yield node.integer_is("exclude_outside", 0)
    if node.text("mode", "nearest") == "linear":
        yield node.one_of(
            "coordinate_transformation_mode", "half_pixel", "half_pixel", "align_corners", "asymmetric"
        )
    else:
        yield node.one_of("coordinate_transformation_mode", "half_pixel", "asymmetric")
        yield node.one_of("nearest_mode", "round_prefer_floor", "floor")
    yield node.integer_is("antialias", 0)
    yield node.without("axes")
    yield node.one_of("keep_aspect_ratio_policy", "stretch", "stretch")
    yield from _resize_sizes(node)


def _resize_sizes(node: NodeFacts) -> Check:
    before = node.shape(0)
    by_scales = node.has(2) and node.values.sizes(node.value(2)) != (0,)
    place = 2 if by_scales else 3
    yield None if node.has(place) else reason("inputs", "neither scales nor sizes")
    yield node.fixed(place)
    numbers = node.numbers(place)
    if numbers.size != 4:
        yield reason("shape", f"input {place}")
        return
    if not by_scales:
        channels = 1 if numbers[1] == before[1] else 3
        kept = numbers[0] == before[0] and numbers[channels] == before[channels]
        yield None if kept else reason("constant-value", "sizes of batch or channels")
        return
    first = numbers[1] == 1.0  # else the channels are last
    yield None if numbers[0] == 1.0 == numbers[1 if first else 3] else reason("constant-value", "scales")
    for size, scale in zip(
        before[2:] if first else before[1:3], numbers[2:] if first else numbers[1:3], strict=True
    ):
        even = scale >= 1 or (size is not None and size % max(1, round(1 / scale)) == 0)
        yield None if even else reason("constant-value", "scales do not divide the size")


def _slice(node: NodeFacts) -> Check:
    yield from _upto_four(node)
    yield reason("empty-shape", "input 0") if 0 in node.shape(0) else None
    yield node.fixed(1, 2, 3, 4)


def _softmax(node: NodeFacts) -> Check:
    yield node.ranked(0, 2, 4)


def _split(node: NodeFacts) -> Check:
    yield node.fixed(1)
    axis = node.integer("axis", 0)
    size = node.shape(0)[axis] if -len(node.shape(0)) <= axis < len(node.shape(0)) else None
    parts = node.numbers(1)
    if parts.size:
        yield reason("constant-value", "uneven parts") if len(set(parts.tolist())) > 1 else None
    elif size is None or size % len(node.node.outputs):
        yield reason("shape", "uneven parts")


def _squeeze(node: NodeFacts) -> Check:
    yield from _upto_four(node)
    yield node.fixed(1)


def _unsqueeze(node: NodeFacts) -> Check:
    yield node.fixed(1)
    axes = len(node.integers("axes")) or node.numbers(1).size
    rank = (node.rank(0) or 0) + axes
    yield None if rank <= 4 else reason("rank", f"output has {rank}")


_CHECKS: dict[str, Callable[[NodeFacts], Check]] = {
    **dict.fromkeys(op_set("Add Sub Mul Div Pow PRelu QLinearAdd QLinearMul"), _binary),
    **dict.fromkeys(op_set("AveragePool MaxPool GlobalAveragePool GlobalMaxPool QLinearAveragePool"), _pool),
    **dict.fromkeys(op_set("Conv QLinearConv"), _conv),
    **dict.fromkeys(op_set("Gemm MatMul QLinearMatMul"), _gemm),
    **dict.fromkeys(op_set("Max Min"), _two_inputs),
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _upto_four,
    "DepthToSpace": _depth_to_space,
    "Gather": _gather,
    "LRN": _lrn,
    "LeakyRelu": _upto_four,
    "Pad": _pad,
    "ReduceMean": _reduce,
    "Reshape": _reshape,
    "Resize": _resize,
    "Sigmoid": _upto_four,
    "Slice": _slice,
    "Softmax": _softmax,
    "Split": _split,
    "Squeeze": _squeeze,
    "Transpose": _upto_four,
    "Unsqueeze": _unsqueeze,
}
