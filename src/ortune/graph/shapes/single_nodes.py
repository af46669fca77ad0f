"""Shapes that the walk does not cover: rules for contributed operators, ONNX's own inference for all others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import onnx
import onnx_ir as ir
from onnx import numpy_helper

from ortune.graph.attributes import int_of, ints_of, length_of, text_of
from ortune.graph.evaluation import Array

Dims = tuple[int, ...]

Known = Sequence[Dims | None]


def _reorder_input(node: ir.Node, x: Known) -> Known:
    # Channel blocks are rearranged; padding of the last block is not counted.
    shape = x[0]
    last = shape is not None and len(shape) == 4 and int_of(node, "channels_last", 0)
    return [(shape[0], shape[3], *shape[1:3]) if shape is not None and last else shape]


def _reorder_output(node: ir.Node, x: Known) -> Known:
    shape, channels = x[0], int_of(node, "channels", 0)
    if shape is None or len(shape) != 4:
        return [None]
    if int_of(node, "channels_last", 0):
        return [(shape[0], *shape[2:], channels)]
    return [(shape[0], channels, *shape[2:])]


def _blocked_upsample(node: ir.Node, x: Known) -> Known:
    shape, scales = x[0], ints_of(node, "scales")
    if shape is None or scales is None or len(scales) != len(shape):
        return [None]
    return [tuple(d * s for d, s in zip(shape, scales, strict=True))]


def _stft(node: ir.Node, x: Known, values: Mapping[int, Array]) -> Known:
    # ONNX's own inference ignores that half of the spectrum is the default.
    step, length_operand = values.get(1), values.get(3)
    window = x[2] if len(x) > 2 else None
    length = (
        int(length_operand.ravel()[0])
        if length_operand is not None and length_operand.size
        else (window[0] if window else 0)
    )
    signal = x[0]
    if signal is None or step is None or length < 1 or int(step.ravel()[0]) < 1:
        return [None]
    frames = (signal[1] - length) // int(step.ravel()[0]) + 1
    bins = length // 2 + 1 if int_of(node, "onesided", 1) else length
    return [(signal[0], frames, bins, 2)]


def _quantized_lstm(node: ir.Node, x: Known) -> Known:
    shape, hidden = x[0], int_of(node, "hidden_size", 0)
    if shape is None or len(shape) != 3 or hidden < 1:
        return [None]
    directions = 2 if text_of(node, "direction", "forward") == "bidirectional" else 1
    state = (directions, shape[1], hidden)
    return [(shape[0], *state), state, state]


def _halved(node: ir.Node, x: Known) -> Known:
    return [None if not x[0] else (*x[0][:-1], x[0][-1] // 2)]


def _gather_quantized(node: ir.Node, x: Known) -> Known:
    data, indices = x[0], x[1]
    axis = int_of(node, "gather_axis", 0)
    if data is None or indices is None or not -len(data) <= axis < len(data):
        return [None]
    axis %= len(data)
    out = [*data[:axis], *indices, *data[axis + 1 :]]
    # Packed bytes contain 8 / bits values along the last axis.
    packed = node.inputs[0] is not None and node.inputs[0].dtype == ir.DataType.UINT8
    if packed and axis != len(data) - 1:
        out[-1] *= 8 // max(1, min(8, int_of(node, "bits", 4)))
    return [tuple(out)]


def _tree(node: ir.Node, x: Known) -> Known:
    rows = x[0][0] if x[0] is not None and len(x[0]) > 1 else 1
    if node.op_type.endswith("Classifier"):
        names = ("classlabels_int64s", "classlabels_ints", "classlabels_strings")
        classes = max(length_of(node, name) for name in names)
        return [(rows,), (rows, max(1, classes))]
    return [(rows, max(1, int_of(node, "n_targets", int_of(node, "targets", 1))))]


Rule = Callable[[ir.Node, Known], "Known | None"]

_RULES: dict[tuple[str, str], Rule] = {
    **{
        ("ai.onnx.ml", name): _tree
        for name in ("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor", "TreeEnsemble",
                     "TreeEnsembleClassifier", "TreeEnsembleRegressor")
    },
    ("com.microsoft", "DynamicQuantizeLSTM"): _quantized_lstm,
    ("com.microsoft.nchwc", "ReorderInput"): _reorder_input,
    ("com.microsoft.nchwc", "ReorderOutput"): _reorder_output,
    ("com.microsoft.nchwc", "Upsample"): _blocked_upsample,
    ("com.microsoft", "GemmaRotaryEmbedding"): lambda node, x: [x[1], x[3]],
    ("com.microsoft", "BiasSplitGelu"): _halved,
    ("com.microsoft", "GatherBlockQuantized"): _gather_quantized,
}  # fmt: skip


_REFUSALS = (
    onnx.shape_inference.InferenceError, onnx.checker.ValidationError, onnx.defs.SchemaError,
    RuntimeError, ValueError, KeyError,
)  # fmt: skip
"""Exceptions that ONNX raises for a node that contradicts itself or its operands."""


def by_rule(node: ir.Node, inputs: Known, values: Mapping[int, Array]) -> Known | None:
    """Return output shapes from this module's rule for the operator; None if there is no rule or it does not apply."""
    rule = _RULES.get((node.domain, node.op_type))
    try:
        if node.op_type == "STFT" and not node.domain:
            return _stft(node, inputs, values)
        return rule(node, inputs) if rule is not None and inputs else None
    except (IndexError, ValueError, TypeError):
        return None  # inconsistent operands: nothing is known


def infer(
    node: ir.Node,
    inputs: Known,
    types: Sequence[ir.DataType | None],
    values: Mapping[int, Array],
    opsets: Mapping[str, int],
) -> list[Dims | None] | None:
    """Infer one node's output shapes with ONNX's own inference; return None if that is not possible.

    Args:
        node: A node without subgraphs.
        inputs: Shapes of its inputs.
        types: Element types of its inputs.
        values: Contents of small inputs, by position.
        opsets: Opset versions by domain.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = opsets.get(domain, opsets.get(node.domain, 0))
    if not 0 < version < 1 << 31 or not onnx.defs.has(node.op_type, version, domain):
        return None
    if node.version is not None:
        version = node.version
    kinds: dict[str, onnx.TypeProto] = {}
    contents: dict[str, onnx.TensorProto] = {}
    for position, value in enumerate(node.inputs):
        if value is None:
            continue
        shape, dtype = inputs[position], types[position]
        if shape is None or dtype is None or not value.name:
            return None
        kinds[value.name] = onnx.helper.make_tensor_type_proto(dtype.value, shape)
        if position in values and values[position].dtype.kind in "iufb":
            contents[value.name] = numpy_helper.from_array(values[position])
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
        inferred = onnx.shape_inference.infer_node_outputs(
            schema,
            ir.to_proto(node),
            kinds,
            contents,
            opset_imports=[onnx.helper.make_opsetid(d, v) for d, v in opsets.items()],
        )
    except _REFUSALS:
        return None  # the node contradicts its operands; the count reports the unknown shape
    return [_dims(inferred.get(value.name or "")) for value in node.outputs]


def _dims(kind: onnx.TypeProto | None) -> Dims | None:
    if kind is None or not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    dims = kind.tensor_type.shape.dim
    if not all(dim.HasField("dim_value") for dim in dims):
        return None
    return tuple(dim.dim_value for dim in dims)
