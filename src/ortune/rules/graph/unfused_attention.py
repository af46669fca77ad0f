"""Attention is written out as separate operators.

What it is: a MatMul, Softmax and a second MatMul, with scale and mask in between, instead of one fused operator.
Why it costs: the attention scores (tokens by tokens per head) are written to memory and read back several times.
Evidence: a Softmax between two MatMul nodes, the operators between them, and what keeps the rewrite from applying. ONNX
    Runtime itself fuses few of these forms at session creation.
Fix and its safety: exact: the rewrite ``attention``, where heads are split and merged as exporters do it.
    Otherwise advice: ONNX Runtime's offline transformer optimiser, or an export with the Attention operator (opset 23).
Example: ``python -m onnxruntime.transformers.optimizer --input model.onnx --output fused.onnx --model_type bert``
References: microsoft/onnxruntime#21208, #15225, #10359, #10339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ortune.graph.attention import between_products
from ortune.graph.nodes import with_operator
from ortune.records import Finding
from ortune.rewrites.attention import PATTERN, REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._words import NAMED, counted, listed, name_of
from ortune.rules.facts import Facts

CODE = "GRA013"
TIER = "if-measured"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
attention (float[2,8,16] q, float[2,16,8] k, float[2,8,16] v) => (float[2,8,16] y)
{
    s = MatMul (q, k)
    [bad_softmax] p = Softmax <axis = -1> (s)
    y = MatMul (p, v)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
classes (float[2,8,16] x, float[2,16,8] w) => (float[2,8,8] y)
{
    s = MatMul (x, w)
    y = Softmax <axis = -1> (s)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on Softmax nodes of attention that is not fused."""
    if facts.model is None:
        return
    softmaxes = with_operator(facts.model.ir, "Softmax")
    between = {node: ops for node in softmaxes if (ops := between_products(node)) is not None}
    if between:
        kinds = Counter(op for ops in between.values() for op in ops)
        parts = [f"operators between the two MatMul nodes: {listed(kinds)}"] if kinds else []
        finding = Finding(
            code=CODE,
            severity="note",
            what=f"attention is not fused: {counted([*between])}",
            where=tuple(map(name_of, between)),
            evidence="; ".join([*parts, *PATTERN.find(facts.model.ir)[1][:NAMED]]),
            fix="run python -m onnxruntime.transformers.optimizer --input model.onnx --output fused.onnx",
        )
        yield fixed_by(REWRITE, finding, facts)
