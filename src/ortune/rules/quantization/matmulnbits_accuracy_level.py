"""MatMulNBits with 4-bit weights computes in float32.

What it is: MatMulNBits without accuracy_level 4.
Why it costs: at level 4 the CPU quantizes the input to 8 bits and multiplies integers. At lower levels the CPU first
    dequantizes the weights to float32, which is several times slower for a single row.
Evidence: the attribute, where the target is the CPU.
Fix and its safety: advice: set accuracy_level to 4 in the model and compare the outputs, which change.
Example: ``--rewrite weight-only-bits:bits=4`` on the float32 model, which writes accuracy_level 4
References: onnxruntime/mobius#402; microsoft/onnxruntime#23004, #29849.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of
from ortune.graph.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "QNT005"

_WHOLE_NUMBERS = 4
_HEAD = """
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
four_bits (float[1,32] x, uint8[16,1,16] w, float[16] s) => (float[1,16] y)
{"""

BAD = f"""{_HEAD}
    [bad_product] y = com.microsoft.MatMulNBits <K = 32, N = 16, bits = 4, block_size = 32> (x, w, s)
}}
"""
GOOD = f"""{_HEAD}
    y = com.microsoft.MatMulNBits <K = 32, N = 16, bits = 4, block_size = 32, accuracy_level = 4> (x, w, s)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on 4-bit MatMulNBits nodes that compute in float32, if the target is the CPU."""
    if facts.model is None or facts.target != CPU.target:
        return
    products = [node for node in nodes(facts.model.ir) if node.op_type == "MatMulNBits" and _in_float(node)]
    if products:
        yield Finding(
            code=CODE,
            what=f"{subject(products, 'computes', 'compute')} in float32 with 4-bit weights",
            where=tuple(map(name_of, products)),
            fix="set the attribute accuracy_level to 4, then compare the outputs",
        )


def _in_float(node: ir.Node) -> bool:
    # Not all platforms have integer kernels for other widths.
    four_bits = int_of(node, "bits", 4) == 4
    x = next(iter(node.inputs), None)
    float32 = x is not None and x.dtype in (None, ir.DataType.FLOAT)
    return four_bits and float32 and int_of(node, "accuracy_level", 0) != _WHOLE_NUMBERS
