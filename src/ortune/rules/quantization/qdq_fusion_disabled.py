"""A setting disables the quantized operators.

What it is: disable_quant_qdq, with a model that has quantize-dequantize pairs.
Why it costs: the pairs stay in the graph and everything between them runs in float32, which is more work than the
    float model.
Evidence: the setting, and the pairs in the model.
Fix and its safety: numerics: remove the setting; outputs then come from 8-bit kernels.
Example: ``--set disable_quant_qdq=0``
References: ONNX Runtime documentation, "Quantize ONNX models".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import DISABLE_QUANT_QDQ
from ortune.graph.model.graphs import nodes
from ortune.records import Finding, Plan
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT007"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if a setting disables the fusion of the model's QDQ pairs."""
    if facts.model is None or not facts.plan.settings.get(DISABLE_QUANT_QDQ.name):
        return
    pairs = [node for node in nodes(facts.model.ir) if node.op_type == "DequantizeLinear"]
    if pairs:
        yield Finding(
            code=CODE,
            what=f"{DISABLE_QUANT_QDQ.name} runs the quantized part in float32: {counted(pairs)}",
            where=tuple(map(name_of, pairs)),
            plan=Plan(settings={DISABLE_QUANT_QDQ.name: False}),
            safety="numerics",
        )
