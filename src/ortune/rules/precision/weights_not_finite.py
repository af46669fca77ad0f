"""A weight holds NaN, or an infinity that a multiplication by zero turns into NaN.

What it is: an initializer with NaN that is used in arithmetic, or with an infinity that is multiplied.
Why it costs: NaN propagates through every operator to the outputs. An infinity in an additive mask is intended; in a
    multiplication it turns every zero into NaN.
Evidence: the number of such elements, and their type.
Fix and its safety: advice: store a finite value of the type, such as -1e4 for a float16 mask.
Example: a mask of -1e9 that becomes -infinity when it is converted to float16
References: IEEE 754, section 7.2, "Invalid operation".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.nodes import is_op, source_of
from ortune.model.graphs import nodes, op_set
from ortune.model.tensors import not_finite
from ortune.records import Finding
from ortune.rules.facts import Facts

CODE = "PRC006"

_PRODUCTS = op_set("Conv ConvTranspose Einsum Gemm MatMul Mul")
_CHOICES_AND_COPIES = op_set(
    "Concat Equal Expand Gather Identity If IsNaN Loop Pad Reshape Scan ScatterElements ScatterND Tile Unsqueeze Where"
)
"""Where NaN may mark what is missing."""
_MOST = 1 << 22
"""Elements of a value that is looked at; a run tells of a larger one."""


def _model(operator: str) -> onnx.ModelProto:
    low = onnx.helper.make_tensor("bad_low", onnx.TensorProto.FLOAT, [], [float("-inf")])
    sides = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, 8]) for name in ("x", "y")]
    node = onnx.helper.make_node(operator, ["x", "bad_low"], ["y"], name="masked")
    graph = onnx.helper.make_graph([node], "g", sides[:1], sides[1:], [low])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def bad() -> onnx.ModelProto:
    """A mask that is multiplied by minus infinity."""
    return _model("Mul")


def good() -> onnx.ModelProto:
    """One to which it is added."""
    return _model("Add")


def find(facts: Facts) -> Iterator[Finding]:
    """In initializers and constants of floating-point types."""
    if facts.model is None:
        return
    functions = facts.model.ir.functions
    read: dict[ir.Value, list[ir.Node]] = {}
    for node in nodes(facts.model.ir):
        for value in () if is_op(node, "Identity") else node.inputs:
            if value is not None:
                read.setdefault(source_of(value), []).append(node)
    for value, readers in read.items():
        tensor = constant_tensor(value)
        if tensor is None or tensor.size > _MOST:
            continue
        n_nan, n_inf = not_finite(tensor)
        if all(node.op_type in _CHOICES_AND_COPIES or node.op_identifier() in functions for node in readers):
            n_nan = 0
        product = next((node for node in readers if node.op_type in _PRODUCTS), None)
        if not n_nan and (not n_inf or product is None):
            continue
        name = str(value.name)
        holds, n = ("NaN", n_nan) if n_nan else ("an infinity", n_inf)
        share = holds if tensor.size == 1 else f"{holds} in {n} of {tensor.size} elements"
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
            fix="store a finite value, such as -1e4 for a float16 mask",
        )
