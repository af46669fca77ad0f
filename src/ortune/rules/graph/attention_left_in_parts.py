"""Attention is spelled out in operators.

What it is: a product, Softmax and a second product, with scale and mask between, where one fused operator would do.
Why it costs: the table of scores, tokens by tokens for each head, is written and read several times.
Evidence: a Softmax between two products, what stands between them, and what keeps the rewrite from them. ONNX Runtime
    fuses few such forms when a session is made.
Fix and its safety: exact: the rewrite ``attention``, where heads are split off and joined as exporters write it; else
    advice: ONNX Runtime's offline optimiser for transformers, or an export with the operator Attention (opset 23).
Example: ``python -m onnxruntime.transformers.optimizer --input model.onnx --output fused.onnx --model_type bert``
References: microsoft/onnxruntime#21208, #15225, #10359, #10339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ortune.graph.attention import between_products
from ortune.graph.nodes import is_op
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rewrites.attention import PATTERN, REWRITE
from ortune.rules._fixes import mended_by
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
    """Everywhere in the model."""
    if facts.model is None:
        return
    softmaxes = [node for node in nodes(facts.model.ir) if is_op(node, "Softmax")]
    between = {node: ops for node in softmaxes if (ops := between_products(node)) is not None}
    if between:
        kinds = Counter(op for ops in between.values() for op in ops)
        seen = [f"between the products stand {listed(kinds)}"] if kinds else []
        finding = Finding(
            code=CODE,
            severity="note",
            what=f"attention in parts: {counted([*between])}",
            where=tuple(map(name_of, between)),
            evidence="; ".join([*seen, *PATTERN.find(facts.model.ir)[1][:NAMED]]),
            fix="fuse it with the optimiser for transformers",
        )
        yield mended_by(REWRITE, finding, facts)
