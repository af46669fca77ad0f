"""The model is quantized.

What it is: operators that quantize, or compute with 8-bit integers.
Why it costs: with an 8-bit dot product (VNNI, AMX, dotprod) such a model is often several times as fast as its float
    model. Without one it may be slower. Where only weights are stored in 8 bits, products are computed in float.
Evidence: the operators, and the instruction sets of the CPU.
Fix and its safety: advice: compare with the float model on a CPU without these instructions.
Example: ``ortune compare model.onnx model-int8.onnx``
References: ONNX Runtime documentation, "Quantize ONNX models".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ortune.graph.dot_products import lacks_it
from ortune.graph.model.graphs import nodes, op_set
from ortune.records import Finding
from ortune.rules._words import KINDS, name_of
from ortune.rules.facts import Facts

CODE = "QNT001"

_OPERATORS = op_set(
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear QLinearConv QLinearMatMul ConvInteger MatMulInteger "
    "QGemm QAttention QLinearAdd QLinearMul DynamicQuantizeMatMul MatMulIntegerToFloat DynamicQuantizeLSTM"
)


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on quantized operators, which is a warning if the CPU has no 8-bit dot product."""
    quantized = [n for n in nodes(facts.model.ir) if n.op_type in _OPERATORS] if facts.model else []
    if not quantized:
        return
    kinds = ", ".join(f"{n} {op}" for op, n in Counter(node.op_type for node in quantized).most_common(KINDS))
    # If only weights are stored in 8 bits, products compute in float on any CPU.
    in_integers = any(node.op_type != "DequantizeLinear" for node in quantized)
    slow = in_integers and lacks_it(facts.host)
    what = f"the model is quantized: {kinds}"
    if slow:
        what = f"the model is quantized, but this CPU has no 8-bit dot product such as VNNI or AMX: {kinds}"
    yield Finding(
        code=CODE,
        severity="warning" if slow else "note",
        what=what,
        where=tuple(name_of(node) for node in quantized),
        fix="compare with the float model: ortune compare model-float32.onnx model.onnx" if slow else "",
    )
