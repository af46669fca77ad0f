"""Gelu is written out in a form that is not fused.

What it is: Erf with an addition and multiplications, in an order or with constants that ONNX Runtime does not fuse into
    Gelu; or the Tanh approximation, which the CPU provider fuses in one order only.
Why it costs: five passes over the tensor instead of one.
Evidence: the nodes, and what prevents the fusion: the scale of the argument, the order of multiplications, a division
    by two, or a second reader. ONNX Runtime 1.31 keeps each form in its optimised graph.
Fix and its safety: exact: the rewrite ``gelu``, where no other node reads the intermediate values. Otherwise advice:
    export with opset 20 or later, which has a Gelu operator.
Example: ``torch.onnx.export(..., opset_version=20)``
References: ONNX operator documentation, "Gelu"; microsoft/onnxruntime#21332.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.nodes import holds, with_operator
from ortune.graph.ort_fusions import gelu_ending
from ortune.records import Finding
from ortune.rewrites.gelu import PATTERN, REWRITE
from ortune.rules._fixes import fixed_by
from ortune.rules._words import are, counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA012"

BAD = """
<ir_version: 8, opset_import: ["" : 16]>
half_first (float[2,8] x) => (float[2,8] y)
{
    c = Constant <value = float {1.41421356}> ()
    d = Div (x, c)
    [bad_erf] f = Erf (d)
    one = Constant <value = float {1.0}> ()
    a = Add (f, one)
    h = Constant <value = float {0.5}> ()
    m = Mul (a, h)
    y = Mul (x, m)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 16]>
half_last (float[2,8] x) => (float[2,8] y)
{
    c = Constant <value = float {1.41421356}> ()
    d = Div (x, c)
    f = Erf (d)
    one = Constant <value = float {1.0}> ()
    a = Add (f, one)
    m = Mul (x, a)
    h = Constant <value = float {0.5}> ()
    y = Mul (m, h)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on Gelu patterns that are not fused."""
    if facts.model is None:
        return
    ends = with_operator(facts.model.ir, "Mul", "Div") if holds(facts.model.ir, "Erf") else ()
    unfused = [gelu for end in ends if (gelu := gelu_ending(end))]
    why = {gelu.node: gelu.why for gelu in unfused if gelu.why}
    for match in PATTERN.find(facts.model.ir)[0]:
        if not match.by_tanh or facts.provider.cpu_kernels:
            why.setdefault(match.anchor, "ONNX Runtime does not match this order of operations")
    if why:
        finding = Finding(
            code=CODE,
            what=f"{len(why)} Gelu {are(len(why))} not fused: {counted([*why])}",
            where=tuple(map(name_of, why)),
            evidence="; ".join(dict.fromkeys(why.values())),
            fix="export with opset 20 or later, where Gelu is one operator",
        )
        yield fixed_by(REWRITE, finding, facts)
