"""Values are cast to a smaller type and back again.

What it is: a Cast to float16 or bfloat16 and a Cast back to float32, adjacent or with only data movement in between.
Why it costs: two passes over the tensor that only round it, and operators on either side are not fused.
Evidence: the Cast nodes, by name. ONNX Runtime itself removes those that lose nothing.
Fix and its safety: numerics: the rewrite ``cast-round-trips``; outputs change by the rounding that is removed.
Example: ``--rewrite cast-round-trips``
References: microsoft/onnxruntime#25824, #12880.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.named import CAST_CHAIN_ELIMINATION
from ortune.records import Finding
from ortune.rewrites.cast_round_trips import PATTERN, REWRITE
from ortune.rules._fixes import with_fix
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "PRC004"

_CASTS = 2

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
there_and_back (float[8,96] x, float[96,96] w) => (float[8,96] y)
{
    p = MatMul (x, w)
    [bad_half] h = Cast <to = 10> (p)
    [bad_back] f = Cast <to = 1> (h)
    y = Relu (f)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
there (float[8,96] x, float[96,96] w) => (float16[8,96] y)
{
    p = MatMul (x, w)
    h = Cast <to = 10> (p)
    y = Identity (h)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on casts to a smaller type and back."""
    if facts.model is None:
        return
    chains = facts.plan.settings.get(
        CAST_CHAIN_ELIMINATION.name
    )  # the setting removes casts with nothing in between
    ways = [way for way, _ in PATTERN.find(facts.model.ir)[0] if not chains or len(way) > _CASTS]
    casts = list(dict.fromkeys(cast for way in ways for cast in (way[0], way[-1])))
    if casts:
        finding = Finding(
            code=CODE,
            what=f"values are cast to a smaller type and back: {counted(casts)}",
            where=tuple(map(name_of, casts)),
        )
        yield with_fix(REWRITE, finding, facts)
