"""A weight holds NaN, or an infinity that a multiplication by zero turns into NaN.

What it is: an initializer with NaN that is used in arithmetic, or with an infinity that is multiplied; also one that
    becomes infinite in a Cast to float16.
Why it costs: NaN propagates through every operator to the outputs. An infinity in an additive mask is intended; in a
    multiplication it turns every zero into NaN.
Evidence: the number of such elements, and their type.
Fix and its safety: advice: store a finite value of the type, such as -1e4 for a float16 mask; a weight with NaN has to
    be trained or exported again.
Example: a mask of -1e9 that becomes -infinity when it is converted to float16
References: IEEE 754, section 7.2, "Invalid operation".
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.constants import constant_tensor
from ortune.graph.model.graphs import name_of, nodes, op_set
from ortune.graph.model.tensors import not_finite
from ortune.graph.nodes import FLOATS, is_op, source_of
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "PRC006"

_PRODUCTS = op_set("Conv ConvTranspose Einsum Gemm MatMul Mul")
_CHOICES_AND_COPIES = op_set(
    "Concat Equal Expand Gather Identity If IsNaN Loop Pad Reshape Scan ScatterElements ScatterND Tile Unsqueeze Where"
)
"""Operators whose inputs may use NaN to mark missing values."""
_BIAS, _BIASED = 2, op_set("Conv ConvTranspose Gemm")
"""Input position of an added bias, and the operators that have it."""
_SCALE, _SCALED = (
    1,
    op_set("BatchNormalization GroupNormalization InstanceNormalization LayerNormalization PRelu"),
)
"""Input position of a multiplied scale, and the operators that have it."""
_FINITE = "store a finite value, such as -1e4 for a float16 mask"
_MOST = 1 << 22
"""Maximum number of elements of a value to read; larger values are not checked, since a run shows their effect."""


def _model(operator: str) -> onnx.ModelProto:
    low = onnx.helper.make_tensor("bad_low", onnx.TensorProto.FLOAT, [], [float("-inf")])
    sides = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    node = onnx.helper.make_node(operator, ["x", "bad_low"], ["y"], name="masked")
    graph = onnx.helper.make_graph([node], "g", sides[:1], sides[1:], [low])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def bad() -> onnx.ModelProto:
    """Return a model that multiplies by minus infinity."""
    return _model("Mul")


def good() -> onnx.ModelProto:
    """Return a model that adds minus infinity."""
    return _model("Add")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each floating-point weight with NaN, or with infinities that are multiplied."""
    if facts.model is None:
        return
    functions = facts.model.ir.functions
    read: dict[ir.Value, list[tuple[ir.Node, int]]] = {}
    for node in nodes(facts.model.ir):
        for place, value in enumerate(() if is_op(node, "Identity") else node.inputs):
            source = source_of(value)
            maker = source.producer() if source is not None else None
            if source is not None and (maker is None or maker.op_type in ("Constant", "Cast")):
                read.setdefault(source, []).append((node, place))
    for value, readers in read.items():
        tensor, cast = _tensor(value)
        if tensor is None or tensor.size > _MOST:
            continue
        n_nan, n_inf = not_finite(tensor) if cast is None else (0, _overflows(tensor))
        if all(
            node.op_type in _CHOICES_AND_COPIES or node.op_identifier() in functions for node, _ in readers
        ):
            n_nan = 0
        product = next((node for node, place in readers if _multiplies(node, place)), None)
        if not n_nan and (not n_inf or product is None):
            continue
        weight = value if cast is None else source_of(cast.inputs[0])
        name = str(weight.name) if weight is not None else ""
        holds, n = ("NaN", n_nan) if n_nan else ("an infinity", n_inf)
        share = holds if tensor.size == 1 else f"{holds} in {n} of {tensor.size} elements"
        share += "" if cast is None else f" after the Cast to float16 ({name_of(cast)})"
        into = (
            f", and 0 times infinity is NaN in node {product.name or product.op_type!r} ({product.op_type})"
            if product is not None and not n_nan
            else ""
        )
        yield Finding(
            code=CODE,
            severity="error",
            what=f"weight {name!r} ({tensor.dtype.name.lower()}) holds {share}{into}",
            where=(name,),
            fix="train or export the weight again" if n_nan else _FINITE,
        )


def _multiplies(node: ir.Node, place: int) -> bool:
    """Return whether a node multiplies its input at a position, rather than adding it as a bias."""
    scales = place == _SCALE and node.op_type in _SCALED
    return scales or (node.op_type in _PRODUCTS and not (place == _BIAS and node.op_type in _BIASED))


def _tensor(value: ir.Value) -> tuple[ir.TensorProtocol | None, ir.Node | None]:
    """Return (stored tensor of a value, Cast to float16 that follows it or None)."""
    maker = value.producer()
    if maker is None or cast_to(maker) != ir.DataType.FLOAT16:
        return constant_tensor(value), None
    return constant_tensor(source_of(maker.inputs[0])), maker


def _overflows(tensor: ir.TensorProtocol) -> int:
    """Return the number of elements of a tensor that become infinite in float16."""
    if tensor.dtype not in FLOATS:
        return 0
    with np.errstate(over="ignore"):
        return int(np.isinf(tensor.numpy().astype(np.float16)).sum())
