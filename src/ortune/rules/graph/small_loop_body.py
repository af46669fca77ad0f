"""A loop runs a few small nodes many times.

What it is: a Loop or Scan whose body has at most 16 nodes, none of them a matrix multiplication, a convolution, a
    recurrent layer or control flow.
Why it costs: each iteration starts the nodes of the body one by one. That costs several microseconds per iteration,
    whatever they compute.
Evidence: the nodes of the body.
Fix and its safety: advice: replace the loop with whole-tensor operators (CumSum, LSTM, GRU, one MatMul over the
    sequence), or process several steps per iteration.
Example: a recurrence over 16,000 samples with one element per iteration
References: microsoft/onnxruntime#27796, #5188.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.model.graphs import nested, nodes, op_set, subgraphs
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA009"

_FEW = 16
_LOOPS = op_set("Loop Scan")
_LARGE = op_set(
    "Conv ConvTranspose Gemm MatMul LSTM GRU RNN Einsum MatMulInteger QLinearMatMul MatMulNBits If Loop Scan"
)

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
sums (float[1,64] start, float[512,64] xs) => (float[1,64] z, float[512,1,64] a)
{
    [bad_scan] z, a = Scan <num_scan_inputs = 1, body = g (float[1,64] s, float[64] x) => (float[1,64] t, float[1,64] o)
    {
        t = Add (s, x)
        o = Identity (t)
    }> (start, xs)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
products (float[1,64] start, float[512,64,64] xs) => (float[1,64] z, float[512,1,64] a)
{
    z, a = Scan <num_scan_inputs = 1, body = g (float[1,64] s, float[64,64] x) => (float[1,64] t, float[1,64] o)
    {
        t = MatMul (s, x)
        o = Identity (t)
    }> (start, xs)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on loops with few and small nodes."""
    walked = nodes(facts.model.ir) if facts.model else ()
    loops = [node for node in walked if node.op_type in _LOOPS and _small(node)]
    if loops:
        yield Finding(
            code=CODE,
            what=f"each loop iteration runs only a few small nodes: {counted(loops)}",
            where=tuple(map(name_of, loops)),
            fix="replace the loop with whole-tensor operators, or process several steps per iteration",
        )


def _small(node: ir.Node) -> bool:
    inside = [
        n for body in subgraphs(node) for graph in nested(body) for n in graph if n.op_type != "Constant"
    ]
    return 0 < len(inside) <= _FEW and not any(n.op_type in _LARGE for n in inside)
