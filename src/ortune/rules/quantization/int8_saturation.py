"""8-bit multiplications may saturate on this CPU.

What it is: int8 weights that use more than seven bits, with uint8 activations, on an x86 CPU without VNNI or AMX. This
    includes the weights of a dynamically quantized LSTM.
Why it costs: such a CPU adds pairs of 8-bit products in 16 bits, which can saturate. Outputs are then silently wrong,
    by more than quantization explains. Int8 activations avoid this, but need an extra pass.
Evidence: the weights, and the CPU's instruction sets.
Fix and its safety: advice: quantize again with 7-bit weights (``reduce_range``), or set x64_quant_precision, which is
    slower but does not saturate.
Example: ``quantize_static(..., reduce_range=True)``
References: ONNX Runtime documentation, "Quantize ONNX models" (when to use reduce-range); microsoft/onnxruntime#6732,
    #17389.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.catalogue.named import X64_QUANT_PRECISION
from ortune.catalogue.providers import CPU
from ortune.graph.constants import stored
from ortune.graph.dot_products import saturates
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import operator
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts
from ortune.rules.quantization.uint8_weights import quantized_weights

CODE = "QNT009"
TIER = "preview"

_SEVEN_BITS = 64
_LOOKED_AT = 1 << 16  # maximum elements of a weight to read, since one beyond seven bits is enough


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on 8-bit weights that may saturate, if the CPU saturates and no setting prevents it."""
    if facts.model is None or facts.target != CPU.target or not saturates(facts.host):
        return
    if facts.plan.settings.get(X64_QUANT_PRECISION.name):
        return
    products = [node for node in nodes(facts.model.ir) if any(map(_wide, _weights(node)))]
    if products:
        yield Finding(
            code=CODE,
            what=f"int8 weights use all eight bits and may saturate on a CPU without VNNI: {counted(products)}",
            where=tuple(map(name_of, products)),
            fix="quantize again with reduce_range=True",
        )


def _weights(node: ir.Node) -> list[ir.TensorProtocol | None]:
    if operator(node) == "com.microsoft:DynamicQuantizeLSTM":
        return [stored(value) for value in node.inputs[1:3]]
    return [quantized_weights(node)]


def _wide(weights: ir.TensorProtocol | None) -> bool:
    if weights is None or weights.dtype != ir.DataType.INT8:
        return False
    sample = weights.numpy().reshape(-1)[:_LOOKED_AT].astype(np.int16)
    return bool((np.abs(sample) > _SEVEN_BITS).any())
