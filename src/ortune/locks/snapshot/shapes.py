"""Concrete shapes in an optimised graph, without running it and without its weights.

ONNX knows the shapes of its own operators. ONNX Runtime's fused and blocked ones are stood in for by the operator that
has the same output shape; what has no such stand-in leaves its values unknown, and that is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from ortune.locks.snapshot.structure import MOST_SHAPE_ELEMENTS, operator

Sizes = dict[str, int]
"""Bytes by value name; a value that is missing is not known."""

_CONV = ("kernel_shape", "strides", "pads", "dilations", "group", "auto_pad")
_POOL = ("kernel_shape", "strides", "pads", "dilations", "ceil_mode", "auto_pad", "count_include_pad")
_GEMM = ("transA", "transB")

# operator: (stand-in, how many inputs it takes, attributes that it keeps)
_STAND_INS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    "com.microsoft:FusedConv": ("Conv", 3, _CONV),
    "com.microsoft.nchwc:Conv": ("Conv", 3, _CONV),
    "com.microsoft.nchwc:MaxPool": ("MaxPool", 1, _POOL[:-1]),
    "com.microsoft.nchwc:AveragePool": ("AveragePool", 1, _POOL),
    "com.microsoft.nchwc:GlobalMaxPool": ("GlobalMaxPool", 1, ()),
    "com.microsoft.nchwc:GlobalAveragePool": ("GlobalAveragePool", 1, ()),
    "com.microsoft:FusedGemm": ("Gemm", 3, _GEMM),
}
# The first output is as the first input; further outputs that are used are too.
_AS_FIRST = frozenset({
    "com.microsoft:Gelu", "com.microsoft:BiasGelu", "com.microsoft:FastGelu", "com.microsoft:QuickGelu",
    "com.microsoft:SkipLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization",
    "SimplifiedLayerNormalization", "com.microsoft:BiasSoftmax", "com.microsoft:BiasDropout",
    "com.microsoft:QLinearSigmoid", "com.microsoft:QLinearLeakyRelu", "com.microsoft:QLinearSoftmax",
    "com.microsoft:MultiHeadAttention", "com.microsoft:BiasAdd", "com.microsoft:Rope",
    "com.microsoft:RotaryEmbedding", "com.microsoft:GroupNorm",
})  # fmt: skip
_MATRIX = frozenset({
    "com.microsoft:MatMulIntegerToFloat", "com.microsoft:DynamicQuantizeMatMul", "com.microsoft:FusedMatMul",
})  # fmt: skip
_BROADCAST = frozenset({"com.microsoft:QLinearAdd", "com.microsoft:QLinearMul"})


def byte_sizes(model: ModelProto, fed: Mapping[str, Sequence[int]]) -> Sizes:
    """Bytes of every value of the main graph and its subgraphs, as far as they can be told.

    Args:
        model: A graph as ONNX Runtime saved it; its large weights may be references.
        fed: Shapes of the inputs, by name.
    """
    scratch = _scratch(model, fed)
    try:
        inferred = onnx.shape_inference.infer_shapes(scratch, data_prop=True)
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        # One contradiction leaves the graph without any shapes but those of its inputs.
        inferred = scratch
    sizes: Sizes = {}
    _collect(inferred.graph, sizes)
    return sizes


def tensor_bytes(tensor: TensorProto) -> int:
    """Bytes of a weight by its type and shape, read or not; text counts nothing."""
    return bytes_of(tensor.data_type, list(tensor.dims)) or 0


def _scratch(model: ModelProto, fed: Mapping[str, Sequence[int]]) -> ModelProto:
    """The graph with concrete inputs, without large weights, and with stand-ins."""
    scratch = ModelProto()
    scratch.CopyFrom(model)
    known = {opset.domain for opset in scratch.opset_import}
    if not known & {"", "ai.onnx"}:
        scratch.opset_import.append(helper.make_opsetid("", 17))
    for value in scratch.graph.input:
        if value.name in fed and value.type.WhichOneof("value") == "tensor_type":
            shape = value.type.tensor_type.shape
            shape.ClearField("dim")
            for size in fed[value.name]:
                shape.dim.add().dim_value = size
    for value in scratch.graph.output:
        value.type.tensor_type.ClearField("shape")  # what is declared there may contradict, or be symbolic
    _prepare(scratch.graph)
    return scratch


def _prepare(graph: GraphProto) -> None:
    """Turns large weights into typed inputs, and ONNX Runtime's own operators into stand-ins."""
    declared = {value.name for value in graph.input}
    kept = []
    for tensor in graph.initializer:
        small = math.prod(tensor.dims) <= MOST_SHAPE_ELEMENTS and tensor.data_location != TensorProto.EXTERNAL
        if small:
            kept.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            )
    del graph.initializer[:]
    graph.initializer.extend(kept)
    del graph.value_info[:]
    nodes: list[NodeProto] = []
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _prepare(inner)
        nodes += _stand_in(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _stand_in(node: NodeProto) -> list[NodeProto]:
    name = operator(node)
    if name in _REORDERS:
        return _REORDERS[name](node)
    if name in _AS_FIRST:
        # The fourth output, where there is one, is the sum that was normalised.
        same = [out for out in (*node.output[:1], *node.output[3:4]) if out]
        return [helper.make_node("Identity", [node.input[0]], [out]) for out in same]
    if name in _MATRIX:
        return _matrix(node)
    if name in _BROADCAST:
        # a, its scale and zero point, b, ...: bytes as a has them
        return [helper.make_node("Sum", [node.input[0], node.input[3]], list(node.output[:1]))]
    if name in _STAND_INS:
        standard, count, attributes = _STAND_INS[name]
        made = helper.make_node(standard, [i for i in node.input[:count] if i], list(node.output[:1]))
        made.attribute.extend(a for a in node.attribute if a.name in attributes)
        return [made]
    return [node]


def _matrix(node: NodeProto) -> list[NodeProto]:
    """A product of matrices, whatever is done to the numbers on the way; a transposed side is transposed first."""
    flags = {a.name: a.i for a in node.attribute if a.type == onnx.AttributeProto.INT}
    if flags.get("transA") or flags.get("transB") or flags.get("transBatchA") or flags.get("transBatchB"):
        return _transposed_matrix(node, flags)
    quantized = operator(node) == "com.microsoft:MatMulIntegerToFloat"
    if quantized:
        whole = f"{node.output[0]}/int32"
        return [
            helper.make_node("MatMulInteger", list(node.input[:2]), [whole]),
            helper.make_node("Cast", [whole], list(node.output[:1]), to=TensorProto.FLOAT),
        ]
    if operator(node) == "com.microsoft:DynamicQuantizeMatMul":
        cast = f"{node.output[0]}/b"
        return [
            helper.make_node("Cast", [node.input[1]], [cast], to=TensorProto.FLOAT),
            helper.make_node("MatMul", [node.input[0], cast], list(node.output[:1])),
        ]
    return [helper.make_node("MatMul", list(node.input[:2]), list(node.output[:1]))]


def _transposed_matrix(node: NodeProto, flags: Mapping[str, int]) -> list[NodeProto]:
    if flags.get("transBatchA") or flags.get("transBatchB"):
        return [node]  # seldom, and not worth a guess: unknown
    letters = [("ji" if flags.get(flag) else "ij", side) for flag, side in (("transA", "a"), ("transB", "b"))]
    left = "...ki" if letters[0][0] == "ji" else "...ik"
    right = "...jk" if letters[1][0] == "ji" else "...kj"
    equation = f"{left},{right}->...ij"
    return [helper.make_node("Einsum", list(node.input[:2]), list(node.output[:1]), equation=equation)]


def _reorder_input(node: NodeProto) -> list[NodeProto]:
    last = any(a.name == "channels_last" and a.i for a in node.attribute)
    if last:
        return [helper.make_node("Transpose", [node.input[0]], list(node.output), perm=[0, 3, 1, 2])]
    return [helper.make_node("Identity", [node.input[0]], list(node.output))]


def _reorder_output(node: NodeProto) -> list[NodeProto]:
    """Back from blocks, whose last one may be filled up with channels that are none."""
    numbers = {a.name: a.i for a in node.attribute}
    out, whole = node.output[0], f"{node.output[0]}/blocked"
    cut = whole if numbers.get("channels_last") else out
    bounds = {"starts": 0, "ends": numbers["channels"], "axes": 1} if numbers.get("channels") else {}
    nodes = [
        helper.make_node(
            "Constant", [], [f"{out}/{name}"], value=helper.make_tensor("", TensorProto.INT64, [1], [value])
        )
        for name, value in bounds.items()
    ]
    if bounds:
        nodes.append(helper.make_node("Slice", [node.input[0], *(f"{out}/{name}" for name in bounds)], [cut]))
    else:
        nodes.append(helper.make_node("Identity", [node.input[0]], [cut]))
    if cut is whole:
        nodes.append(helper.make_node("Transpose", [whole], [out], perm=[0, 2, 3, 1]))
    return nodes


_REORDERS: dict[str, Callable[[NodeProto], list[NodeProto]]] = {
    "com.microsoft.nchwc:ReorderInput": _reorder_input,
    "com.microsoft.nchwc:ReorderOutput": _reorder_output,
}


def _collect(graph: GraphProto, sizes: Sizes) -> None:
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
            continue
        dims = value.type.tensor_type.shape.dim
        if all(dim.WhichOneof("value") == "dim_value" for dim in dims):
            size = bytes_of(value.type.tensor_type.elem_type, [dim.dim_value for dim in dims])
            if size is not None:
                sizes[value.name] = size
    for node in graph.node:
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                _collect(inner, sizes)


def bytes_of(kind: int, dims: Sequence[int]) -> int | None:
    """Bytes of a tensor by its element type (``TensorProto.DataType``) and shape; None for text."""
    if kind in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    packed = kind in (TensorProto.INT4, TensorProto.UINT4)
    count = math.prod(dims)
    return (count + 1) // 2 if packed else count * helper.tensor_dtype_to_np_dtype(kind).itemsize
