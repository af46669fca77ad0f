"""Constraints of ONNX Runtime's CoreML provider on a node, in addition to the list of operators.

CoreML has two formats: MLProgram, and the older NeuralNetwork, which is the provider's default. Some constraints are
remarks in the operator lists; others are from the provider's own checks (microsoft/onnxruntime,
``core/providers/coreml/builders/impl/*_op_builder.cc``, and ``helper.cc`` for constraints of every input).
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortune.catalogue.providers import COREML_NETWORK as NETWORK
from ortune.engines.partitions.facts import Check, NodeFacts, reason
from ortune.engines.partitions.tables import table
from ortune.graph.attributes import cast_to
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op

_MOST_RANK = 5
_MOST_SIZE = 16384
"""Maximum size of a dimension of any input; CoreML models with larger dimensions do not load."""

_FLOAT, _FLOAT16 = ir.DataType.FLOAT, ir.DataType.FLOAT16
_INT32, _INT64, _BOOL = ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL
_ANY_TYPE = op_set("Shape Cast Gather ArgMax Where And GatherND Slice")
"""Operators without the common check of the element type: they have a separate check, or none."""

_LEAST = {
    **dict.fromkeys(op_set("Add Sub Mul Div Pow Max Gemm"), 7),
    "Reshape": 5, "Slice": 10, "Pad": 11, "Resize": 11,
}  # fmt: skip
"""The oldest supported opset version by operator; earlier versions have other parameters."""


def check_program(node: NodeFacts) -> Check:
    """Yield the result of each MLProgram check for a node with a listed operator."""
    yield from _check(node, program=True)


def check_network(node: NodeFacts) -> Check:
    """Yield the result of each NeuralNetwork check for a node with a listed operator."""
    yield from _check(node, program=False)


def _check(node: NodeFacts, *, program: bool) -> Check:
    op = node.node.op_type
    yield node.least_opset(_LEAST.get(op, 1))
    yield from node.shapes_known(fixed=False)
    for place in range(node.count):
        shape = node.shape(place)
        # One of the size inputs of Resize may be empty, which means that it is omitted.
        empty = 0 in shape and not (op == "Resize" and place in (1, 2))
        yield reason("empty-shape", f"input {place}") if empty else None
        yield reason("rank", f"input {place} has {len(shape)}") if len(shape) > _MOST_RANK else None
        large = [n for n in shape if n is not None and n > _MOST_SIZE]
        yield reason("large-dimension", f"input {place}: {large[0]}") if large else None
    if op not in _ANY_TYPE:
        yield node.typed(0, (_FLOAT, _FLOAT16) if program else (_FLOAT,))
    if op in _CHECKS:
        yield from _CHECKS[op](node, program)


def _argmax(node: NodeFacts, program: bool) -> Check:
    yield node.typed(0, (_FLOAT, _FLOAT16))
    yield node.integer_is("select_last_index", 0)
    # A following Cast to int32 is merged with it, and then the int64 output is not available to others.
    readers = [use.node for use in node.node.outputs[0].uses()]
    casts = [r for r in readers if is_op(r, "Cast") and cast_to(r) == _INT32.value]
    yield (
        reason("neighbour", "followed by a Cast to int32 and by other nodes")
        if casts and len(readers) > 1
        else None
    )


def _batch_normalization(node: NodeFacts, program: bool) -> Check:
    yield None if len(node.node.outputs) == 1 else reason("outputs")
    yield node.fixed(1, 2, 3, 4)
    yield node.integer_is("training_mode", 0)


def _boolean(node: NodeFacts, program: bool) -> Check:
    for place in (0, 1):
        yield node.typed(place, (_BOOL,))


def _cast(node: NodeFacts, program: bool) -> Check:
    producer = node.node.inputs[0].producer() if node.node.inputs[0] is not None else None
    yield None if producer is not None else reason("neighbour", "no node before it")
    if program:
        types = (_INT32, _INT64, _FLOAT, _FLOAT16, _BOOL)
        yield node.typed(0, types)
        to = node.integer("to", 0)
        yield None if to in types else reason("attribute", f"to={ir.DataType(to).name.lower()}")
    else:
        before = is_op(producer, *table(NETWORK).since)
        yield None if before else reason("neighbour", "the preceding node is not supported")


def _clip(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1, 2)


def _concat(node: NodeFacts, program: bool) -> Check:
    yield None if node.count > 1 else reason("inputs", "1")
    if not program:
        yield node.ranked(0, 4)  # with three dimensions it joins another axis than the requested one
        axis = node.integer("axis", 1)
        yield None if axis in (1, -3) else reason("attribute", f"axis={axis}")


def _conv(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(1, 3, 4)
    yield node.fixed(2) if program else node.fixed(1, 2)


def _fused_conv(node: NodeFacts, program: bool) -> Check:
    yield from _conv(node, program)
    yield node.one_of("activation", "", "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
    yield reason("inputs", "a sum") if node.count > 3 else None


def _conv_transpose(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1, 2)
    yield node.ranked(0, 3, 4)
    yield node.one_of("auto_pad", "NOTSET", "NOTSET", "VALID")
    yield node.without("output_shape")
    yield node.integers_are("output_padding", 0)


def _depth_to_space(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(0, 4)
    if not program:
        yield node.one_of("mode", "DCR", "DCR")
    elif node.text("mode", "DCR") == "CRD":
        yield reason("dynamic-shape", "input 0") if None in node.shape(0) else None


def _gather(node: NodeFacts, program: bool) -> Check:
    yield node.typed(0, (_FLOAT, _FLOAT16, _INT32, _INT64) if program else (_FLOAT, _INT64))
    yield reason("rank", "input 1 has 0") if node.rank(1) == 0 else None


def _gather_nd(node: NodeFacts, program: bool) -> Check:
    yield node.integer_is("batch_dims", 0)


def _gemm(node: NodeFacts, program: bool) -> Check:
    matmul = node.node.op_type == "MatMul"
    if not (program and matmul):
        yield node.fixed(1)
        yield node.ranked(0, 2)
        yield node.ranked(1, 2)
    if not matmul:
        yield node.integer_is("transA", 0)
        for name in ("alpha", "beta"):
            yield None if node.real(name, 1.0) == 1.0 else reason("attribute", name)
        yield node.fixed(2)
        if node.has(2):
            right, bias = node.shape(1), node.shape(2)
            wanted = right[0] if node.integer("transB", 0) else right[1]
            yield None if bias in ((), (1,), (wanted,), (1, wanted)) else reason("shape", "input 2")


def _grid_sample(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(0, 4)
    mode, padding = node.text("mode", "linear"), node.text("padding_mode", "zeros")
    yield node.one_of("mode", "linear", "linear", "bilinear", "nearest")
    mirrored = mode != "nearest" and padding == "reflection" and not node.integer("align_corners", 0)
    yield reason("attribute", "padding_mode=reflection") if mirrored else None


def _four_dimensions(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(0, 4)


def _normalization(node: NodeFacts, program: bool) -> Check:
    yield None if len([v for v in node.node.outputs if v.name]) == 1 else reason("outputs")
    yield node.fixed(1, 2)


def _pad(node: NodeFacts, program: bool) -> Check:
    rank = node.rank(0) or 0
    yield reason("rank", f"input 0 has {rank}") if rank < 2 else None
    yield node.one_of("mode", "constant", "constant")
    yield None if node.has(2) else reason("inputs", "no constant_value")
    yield node.fixed(1, 2, 3)
    pads = node.numbers(1)
    yield reason("constant-value", "negative padding") if (pads < 0).any() else None
    axes = [int(axis) % rank for axis in node.numbers(3)] or list(range(rank))
    outer = any(
        pads[i] or pads[i + len(axes)]
        for i, axis in enumerate(axes)
        if axis < rank - 2 and i + len(axes) < pads.size
    )
    yield reason("constant-value", "padding of axes other than the last two") if outer else None


def _pool(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(0, 4)
    if not node.node.op_type.startswith("Global"):
        yield node.integer_is("storage_order", 0)
        yield node.integer_is("ceil_mode", 0) if not program else None
        yield node.integers_are("dilations", 1)
        yield None if len(node.node.outputs) == 1 else reason("outputs", "indices")


def _pow(node: NodeFacts, program: bool) -> Check:
    yield node.typed(1, (_FLOAT, _FLOAT16) if program else (_FLOAT,))


def _prelu(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1)
    slope = node.shape(1)
    one = all(n == 1 for n in slope)
    by_channel = len(slope) == 3 and slope[1:] == (1, 1)
    yield None if one or by_channel else reason("shape", "input 1")


def _reduce(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1)
    nothing = (
        node.integer("noop_with_empty_axes", 0) and not node.integers("axes") and not node.numbers(1).size
    )
    yield reason("attribute", "noop_with_empty_axes=1") if nothing and not program else None


def _reshape(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1)
    shape = node.numbers(1)
    yield reason("constant-value", "empty shape") if not shape.size else None
    yield reason("rank", f"output has {shape.size}") if shape.size > _MOST_RANK else None
    yield reason("rank", "input 0 has 0") if not node.rank(0) else None
    yield reason("dynamic-shape", "input 0") if None in node.shape(0) else None
    zero = node.integer("allowzero", 0) and (shape == 0).any()
    yield reason("constant-value", "shape with 0") if zero else None


def _resize(node: NodeFacts, program: bool) -> Check:
    yield node.ranked(0, 3, 4, 5) if program else node.ranked(0, 4)
    yield node.integer_is("antialias", 0)
    yield node.one_of("mode", "nearest", "nearest", "linear")
    linear = node.text("mode", "nearest") == "linear"
    if not linear:
        yield node.one_of("nearest_mode", "round_prefer_floor", "floor")
    yield node.integer_is("exclude_outside", 0)
    yield node.one_of("keep_aspect_ratio_policy", "stretch", "stretch")
    by_sizes = node.has(3)
    yield None if by_sizes or node.has(2) else reason("inputs", "neither scales nor sizes")
    yield from _resized_by_sizes(node, program) if by_sizes else _resized_by_scales(node, program)
    modes = ["asymmetric"]
    if program and linear:
        modes = ["half_pixel", "pytorch_half_pixel", "align_corners", *(modes if by_sizes else ())]
    yield node.one_of("coordinate_transformation_mode", "half_pixel", *modes)


def _resized_by_scales(node: NodeFacts, program: bool) -> Check:
    shape = node.shape(0)
    yield reason("dynamic-shape", "input 0") if None in shape[-2:] else None
    yield node.fixed(2)
    scales = node.numbers(2)
    outer = any(s != 1 for a, s in zip(_axes(node), scales, strict=False) if a < len(shape) - 2)
    yield reason("constant-value", "scales of batch or channels") if outer else None
    for size, scale in zip(shape[-2:], scales[-2:], strict=False):
        if scale >= 1:
            yield reason("constant-value", "scales are not integers") if scale != round(scale) else None
        else:
            even = program and size is not None and size % max(1, round(1 / scale)) == 0
            yield None if even else reason("constant-value", "scales below 1")
    mixed = scales[-2:].min() < 1 < scales[-2:].max()
    yield reason("constant-value", "one scale above 1 and one below") if mixed else None


def _resized_by_sizes(node: NodeFacts, program: bool) -> Check:
    shape = node.shape(0)
    yield node.fixed(3)
    sizes = node.numbers(3)
    outer = any(n != shape[a] for a, n in zip(_axes(node), sizes, strict=False) if a < len(shape) - 2)
    yield reason("constant-value", "sizes of batch or channels") if outer else None
    if not program:
        yield reason("dynamic-shape", "input 0") if None in shape else None
        whole = all(n and not int(wanted) % n for n, wanted in zip(shape[-2:], sizes[-2:], strict=False))
        yield None if whole else reason("constant-value", "sizes are not multiples")


def _axes(node: NodeFacts) -> list[int]:
    rank = node.rank(0) or 0
    return [axis % rank for axis in node.integers("axes")] or list(range(rank))


def _shape(node: NodeFacts, program: bool) -> Check:
    yield node.integer_is("start", 0)
    yield node.without("end")


def _slice(node: NodeFacts, program: bool) -> Check:
    yield node.typed(0, (_FLOAT, _INT64, *((_FLOAT16,) if program else ())))
    yield reason("dynamic-shape", "input 0") if None in node.shape(0) else None
    yield node.fixed(1, 2, 3, 4)
    yield reason("empty-shape", "output") if 0 in node.output_shape() else None


def _split(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1)


def _squeeze(node: NodeFacts, program: bool) -> Check:
    yield node.fixed(1)
    if node.node.op_type == "Unsqueeze":
        rank = (node.rank(0) or 0) + (len(node.integers("axes")) or node.numbers(1).size)
        yield reason("rank", f"output has {rank}") if rank > _MOST_RANK else None


def _check_where(node: NodeFacts, program: bool) -> Check:
    for place in (1, 2):
        yield node.typed(place, (_FLOAT, _FLOAT16))


_CHECKS: dict[str, Callable[[NodeFacts, bool], Check]] = {
    **dict.fromkeys(op_set("AveragePool MaxPool GlobalAveragePool GlobalMaxPool"), _pool),
    **dict.fromkeys(op_set("Gemm MatMul"), _gemm),
    **dict.fromkeys(op_set("InstanceNormalization LayerNormalization GroupNormalization"), _normalization),
    **dict.fromkeys(op_set("ReduceMean ReduceSum ReduceMax"), _reduce),
    **dict.fromkeys(op_set("Squeeze Unsqueeze"), _squeeze),
    "And": _boolean,
    "ArgMax": _argmax,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concat,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "FusedConv": _fused_conv,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "GridSample": _grid_sample,
    "LRN": _four_dimensions,
    "Pad": _pad,
    "Pow": _pow,
    "PRelu": _prelu,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Slice": _slice,
    "Split": _split,
    "Where": _check_where,
}
