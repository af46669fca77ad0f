"""The model computes in float16, for which the CPU provider has few kernels.

What it is: float16 matrix multiplications, convolutions, recurrent layers and Attention, as in models exported for
    GPUs, on the CPU (native or WebAssembly). Or an island of float16 in a float32 model: nodes between a Cast to
    float16 and a Cast back.
Why it costs: on x86-64 ONNX Runtime computes most operators in float32 and inserts Casts around them. It removes many
    of these Casts when it loads the model. Each remaining one costs a pass and prevents fusions, and loading takes
    longer.
Evidence: the operators with float16 inputs, by name.
Fix and its safety: numerics: the rewrite ``float16-to-float32``. Where it does not apply, advice: run the original
    float32 model on the CPU, or quantize it. Keep the float16 file for GPUs.
Example: ``ortune compare model-fp32.onnx model-fp16.onnx``
References: microsoft/onnxruntime#16778, #25824, #11831, #9892.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.kinds import MOVES
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.shapes.known import Values, known_values
from ortune.records import Finding
from ortune.rewrites.float16_to_float32 import REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "PRC003"

_PRODUCTS = op_set("Conv ConvTranspose Gemm MatMul LSTM GRU RNN Attention")

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
halves (float16[8,96] x, float16[96,96] w) => (float16[8,96] y)
{
    [bad_product] p = MatMul (x, w)
    y = Relu (p)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
halves (float16[8,96] x, float[96,96] w) => (float[8,96] y)
{
    f = Cast <to = 1> (x)
    p = MatMul (f, w)
    y = Relu (p)
}
"""


_MOVES = MOVES | op_set("Cast Concat Expand Gather Pad Split Tile")
"""Operators that only move data and compute nothing, whatever the type."""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on float16 products on the CPU, or on nodes between casts to float16 and back."""
    if facts.model is None or not facts.provider.cpu_kernels:
        return
    model = facts.model.ir
    casts = any(cast_to(node) == ir.DataType.FLOAT16.value for node in nodes(model))
    values = known_values(model) if casts else Values()

    def is_half(value: ir.Value | None) -> bool:
        return value is not None and ir.DataType.FLOAT16 in (value.dtype, values.inferred(value).dtype)

    products = [node for node in nodes(model) if node.op_type in _PRODUCTS and any(map(is_half, node.inputs))]
    found = products or (_between_casts(model, values) if casts else [])
    if found:
        what = "the model computes in float16 on a CPU" if products else "float16 between casts on a CPU"
        finding = Finding(
            code=CODE,
            what=f"{what}: {counted(found)}",
            where=tuple(map(name_of, found)),
            fix="run the float32 model on the CPU" if products else "compute these nodes in float32",
        )
        yield fixed_by(REWRITE, finding, facts)


def _between_casts(model: ir.Model, values: Values) -> list[ir.Node]:
    """Return the nodes that compute in float16 after a Cast from float32, if the values are cast back."""
    halves: set[ir.Value] = set()
    computing, leaves = list[ir.Node](), False
    for node in nodes(model):
        of_half = any(value in halves for value in node.inputs)
        if node.op_type == "Cast":
            to = cast_to(node)
            if to == ir.DataType.FLOAT16.value and values.inferred(node.inputs[0]).dtype == ir.DataType.FLOAT:
                halves.update(node.outputs)
            leaves = leaves or (of_half and to == ir.DataType.FLOAT.value)
        elif of_half:
            halves.update(v for v in node.outputs if values.inferred(v).dtype == ir.DataType.FLOAT16)
            computing += [] if node.op_type in _MOVES else [node]
    return computing if leaves else []
