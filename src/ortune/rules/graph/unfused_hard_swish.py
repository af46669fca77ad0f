"""HardSwish or HardSigmoid is written out with Add, Clip and Mul.

What it is: ``x * clip(x + 3, 0, 6) / 6``, or the same without the multiplication by ``x``, as Paddle and older
    exporters write it.
Why it costs: four passes over the tensor instead of two. Add and Clip with constants have no kernel in the blocked
    layout (NCHWc) of convolutions, so the tensor is converted out of that layout before them, and back afterwards.
Evidence: the nodes. ONNX Runtime 1.31 keeps them in its optimised graph.
Fix and its safety: exact: the rewrite ``hard-swish``.
Example: ``--rewrite hard-swish``
References: ONNX operator documentation, "HardSwish" and "HardSigmoid"; Howard et al., "Searching for MobileNetV3",
    2019.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rewrites.hard_swish import PATTERN, REWRITE
from ortune.rules._fixes import with_fix
from ortune.rules._words import are, counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA017"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
written_out (float[2,8] x) => (float[2,8] y)
<float three = {3.0}, float zero = {0.0}, float six = {6.0}>
{
    a = Add (x, three)
    c = Clip (a, zero, six)
    m = Mul (x, c)
    [bad_quotient] y = Div (m, six)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
whole (float[2,8] x) => (float[2,8] y)
{
    y = HardSwish (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on HardSwish and HardSigmoid patterns that are not fused."""
    ends = PATTERN.ends(facts.model.ir) if facts.model else []
    if ends:
        finding = Finding(
            code=CODE,
            what=f"{len(ends)} HardSwish or HardSigmoid {are(len(ends))} not fused: {counted(ends)}",
            where=tuple(map(name_of, ends)),
        )
        yield with_fix(REWRITE, finding, facts)
