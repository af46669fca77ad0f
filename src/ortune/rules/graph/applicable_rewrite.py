"""A rewrite applies to this model, and no other rule covers it.

What it is: a pattern that one of ortune's exact rewrites matches: an Einsum that is a matrix multiplication, a Softmax
    over an inner axis, and others.
Why it costs: see the section of the rewrite in ``docs/rewrites.md``.
Evidence: the number of matches.
Fix and its safety: exact: the rewrite.
Example: ``--rewrite einsum-to-matmul``
References: ``docs/rewrites.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune import rewrites
from ortune.graph.model.graphs import name_of
from ortune.records import Finding
from ortune.rules._fixes import with_fix
from ortune.rules.facts import Facts

CODE = "GRA027"
TIER = "if-measured"
LAST = True

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
product (float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y)
{
    [bad_einsum] y = Einsum <equation = "bij,bjk->bik"> (x, w)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
product (float[2,3,4] x, float[2,4,5] w) => (float[2,3,5] y)
{
    y = MatMul (x, w)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each pattern rewrite that applies to the model, except clean-up, which seldom helps alone."""
    if facts.model is None:
        return
    model = facts.model.ir
    for spec, reason in rewrites.proposals(
        model, workload=facts.work, objective="latency", target=facts.target, begins=facts.begins
    ):
        rewrite = rewrites.find(spec.name)
        useful = rewrite.stage > rewrites.CLEAN_UP and rewrite.change is not None
        if useful and facts.begins(rewrite.name):
            changed = rewrites.changed_nodes(model, spec)
            finding = Finding(
                code=CODE, severity="note", what=reason, where=tuple(dict.fromkeys(map(name_of, changed)))
            )
            yield with_fix(rewrite, finding, facts, spec.params)
