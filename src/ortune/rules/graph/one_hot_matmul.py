"""A one-hot encoding is multiplied by a matrix instead of looking up rows.

What it is: ``MatMul`` of ``Cast(Equal(x, [0, 1, ..., n - 1]))``, or of OneHot, with constant weights, as JAX and
    tf2onnx write an embedding.
Why it costs: the encoding has a column for every row of the matrix and is written and read several times. Nearly all
    multiplications in the MatMul are by zero.
Evidence: the nodes. ONNX Runtime 1.31 keeps them in its optimised graph.
Fix and its safety: exact: the rewrite ``one-hot-to-gather``.
Example: ``--rewrite one-hot-to-gather``
References: ONNX operator documentation, "Gather" and "OneHot".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rewrites.one_hot_to_gather import PATTERN, REWRITE
from ortune.rules._fixes import with_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA018"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
codes (int32[2,4,1] x) => (float[2,4,2] y)
<int32[3] rows = {0,1,2}, float[3,2] w = {1,2,3,4,5,6}>
{
    e = Equal (x, rows)
    c = Cast <to = 1> (e)
    [bad_product] y = MatMul (c, w)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
rows (int32[2,4] x) => (float[2,4,2] y)
<float[3,2] w = {1,2,3,4,5,6}>
{
    y = Gather (w, x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on one-hot encodings that are multiplied by a matrix."""
    ends = PATTERN.ends(facts.model.ir) if facts.model else []
    if ends:
        finding = Finding(
            code=CODE,
            what=f"a one-hot encoding is multiplied by a matrix, where a row lookup is enough: {counted(ends)}",
            where=tuple(map(name_of, ends)),
        )
        yield with_fix(REWRITE, finding, facts)
