"""A quantized bias is clipped to the int32 range.

What it is: int32 biases that contain the minimum or maximum of the type.
Why it costs: input scale times weight scale was so small that the bias did not fit. The rest of its value is lost, and
    the outputs of those channels are wrong.
Evidence: the number of elements at either limit.
Fix and its safety: advice: quantize again with a larger minimum scale for the weights, or leave the node in float32.
Example: a channel with weights near zero and a bias of one
References: ONNX Runtime documentation, "Quantize ONNX models"; microsoft/onnxruntime#6430.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import constant_tensor
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import input_of, source_of
from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._words import are, listed
from ortune.rules.facts import Facts

CODE = "QNT012"

_MOST = 1 << 20  # maximum elements of a bias to read
_BIAS = {"QLinearConv": 8, "QGemm": 6, "DequantizeLinear": 0}
"""Maps operators to the input position of the int32 bias."""

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
cut_off (float[2,2] x) => (float[2,2] y)
<int32[2] bad_bias = {NUMBERS}, float s = {0.00000001}>
{
    b = DequantizeLinear (bad_bias, s)
    y = Add (x, b)
}
"""
BAD = _TEXT.replace("NUMBERS", "7, 2147483647")
GOOD = _TEXT.replace("NUMBERS", "7, 2147480000")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on int32 biases with clipped elements."""
    cut: dict[str, tuple[int, int]] = {}
    for node in nodes(facts.model.ir) if facts.model else ():
        place = _BIAS.get(node.op_type)
        value = source_of(input_of(node, place)) if place is not None else None
        tensor = constant_tensor(value)
        if value is None or tensor is None or tensor.dtype != ir.DataType.INT32 or tensor.size > _MOST:
            continue
        numbers = tensor.numpy()
        ends = np.iinfo(np.int32)
        # A tool that clips symmetrically stops at -2147483647, one above the minimum.
        n_cut = int(((numbers <= ends.min + 1) | (numbers == ends.max)).sum())
        if n_cut:
            cut[value.name or ""] = n_cut, numbers.size
    if cut:
        n_cut, size = next(iter(cut.values()))
        n_biases = amount(len(cut), "bias is", "biases are")
        yield Finding(
            code=CODE,
            severity="error",
            what=f"{n_biases} clipped to the int32 range: {listed(cut)}",
            where=tuple(cut),
            evidence=f"{n_cut} of {size} elements {are(n_cut)} the minimum or maximum of int32",
            fix="quantize again with a larger minimum scale for the weights, or leave these nodes in float32",
        )
