"""Element types of values without a declared type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ortune.graph.attributes import optional_int, tensor_of
from ortune.graph.kinds import COMPARISONS, LOGICAL
from ortune.graph.model.graphs import element_type, op_set

_Type = ir.DataType | None

_FIXED: dict[str, ir.DataType] = {
    **dict.fromkeys(
        op_set("ArgMax ArgMin NonZero Shape Size NonMaxSuppression SequenceLength"), ir.DataType.INT64
    ),
    **dict.fromkeys(COMPARISONS | LOGICAL, ir.DataType.BOOL),
    **dict.fromkeys(op_set("IsNaN IsInf IsAllFinite OptionalHasElement"), ir.DataType.BOOL),
    **dict.fromkeys(
        op_set("LinearRegressor SVMRegressor Scaler Normalizer OneHotEncoder"), ir.DataType.FLOAT
    ),
    **dict.fromkeys(op_set("TreeEnsembleRegressor"), ir.DataType.FLOAT),
    **dict.fromkeys(op_set("LinearClassifier SVMClassifier TreeEnsembleClassifier"), ir.DataType.INT64),
}
# Operators with a first output of the type of this input.
_LIKE = {
    "Where": 1, "OneHot": 2, "QuantizeLinear": 2, "DequantizeLinear": 1, "QLinearConv": 7, "QLinearMatMul": 7,
    "CastLike": 1, "EmbedLayerNormalization": 2, "QLinearAdd": 0, "QLinearMul": 0, "MatMulIntegerToFloat": 2,
    "GatherBlockQuantized": 2, "QGemm": 8, "QAttention": 3, "QLinearConcat": 1,
}  # fmt: skip
_FALLBACK = {
    "QuantizeLinear": ir.DataType.UINT8, "DequantizeLinear": ir.DataType.FLOAT, "QGemm": ir.DataType.FLOAT,
    "MatMulInteger": ir.DataType.INT32, "ConvInteger": ir.DataType.INT32, "ConstantOfShape": ir.DataType.FLOAT,
    "RandomNormal": ir.DataType.FLOAT, "RandomUniform": ir.DataType.FLOAT, "BlackmanWindow": ir.DataType.FLOAT,
    "HammingWindow": ir.DataType.FLOAT, "HannWindow": ir.DataType.FLOAT, "MelWeightMatrix": ir.DataType.FLOAT,
    "Multinomial": ir.DataType.INT32,
}  # fmt: skip
_SECOND = {
    "MaxPool": ir.DataType.INT64, "TopK": ir.DataType.INT64, "Unique": ir.DataType.INT64,
    "Dropout": ir.DataType.BOOL,
    "EmbedLayerNormalization": ir.DataType.INT32, "LayerNormalization": ir.DataType.FLOAT,
    "LinearClassifier": ir.DataType.FLOAT, "SVMClassifier": ir.DataType.FLOAT,
    "TreeEnsembleClassifier": ir.DataType.FLOAT,
}  # fmt: skip


def output_types(node: ir.Node, inputs: Sequence[_Type], opset: int) -> list[_Type]:
    """Return each output's element type: the declared one, or that of the operator's schema at this opset version."""
    return [
        _declared(value) or _type_of_output(node, i, inputs, opset) for i, value in enumerate(node.outputs)
    ]


def _declared(value: ir.Value) -> _Type:
    return value.dtype if isinstance(value.type, ir.TensorType) else None


def _type_of_output(node: ir.Node, position: int, inputs: Sequence[_Type], opset: int) -> _Type:
    op, first = node.op_type, inputs[0] if inputs else None
    if op == "DynamicQuantizeLinear":
        # Outputs: the tensor, its scale, its zero point.
        return ir.DataType.FLOAT if position == 1 else ir.DataType.UINT8
    if position and op == "Dropout" and opset < 10:
        return first  # the mask was not bool yet
    if position:
        return _SECOND.get(op) or first
    if op in _FIXED:
        return _FIXED[op]
    at = _LIKE.get(op, -1)
    like = inputs[at] if 0 <= at < len(inputs) else None
    return _attribute(node) or like or _FALLBACK.get(op) or first


def _attribute(node: ir.Node) -> _Type:
    """Return the type from an attribute (``to``, ``dtype``, ``output_dtype``, or the tensor ``value``), or None."""
    for name in ("to", "dtype", "output_dtype", "output_datatype"):
        number = optional_int(node, name)
        if number is not None:
            return element_type(number)
    for name, kind in (("value_int", "INT64"), ("value_ints", "INT64"), ("value_float", "FLOAT"),
                       ("value_floats", "FLOAT"), ("value_string", "STRING"), ("value_strings", "STRING")):  # fmt: skip
        if name in node.attributes:
            return ir.DataType[kind]
    value = tensor_of(node, "value")
    return value.dtype if value is not None else None


def bits(dtype: _Type) -> float | None:
    """Return the bits per stored element; None for strings and unknown types."""
    if dtype is None or dtype in (ir.DataType.UNDEFINED, ir.DataType.STRING):
        return None
    return dtype.bitwidth


def n_bytes(dtype: _Type, dims: Iterable[int]) -> int | None:
    """Return the bytes of a stored tensor with packed sub-byte elements; None for strings and unknown types."""
    width = bits(dtype)
    return None if width is None else math.ceil(math.prod(dims) * width / 8)
