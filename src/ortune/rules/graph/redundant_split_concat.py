"""Tensors are split and joined again, or joined in several steps.

What it is: a Concat of all outputs of a Split, or of slices that together cover a whole tensor; a Split of a Concat
    into the same pieces; or a Concat of another Concat's output along the same axis.
Why it costs: each copies its whole tensor. ONNX Runtime keeps such pairs.
Evidence: the nodes that would be merged or removed.
Fix and its safety: exact: the rewrite ``cascaded-nodes``.
Example: ``--rewrite cascaded-nodes``
References: ONNX operator documentation, "Split", "Slice" and "Concat".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rewrites.cascaded_nodes import REWRITE, joined_and_split
from ortune.rules._fixes import with_fix
from ortune.rules._words import counted_names
from ortune.rules.facts import Facts

CODE = "GRA028"
TIER = "if-measured"

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
joined (float[2,3] x, float[2,3] y, float[2,3] z) => (float[2,9] all)
{
    xy = Concat <axis = 1> (x, y)
    STEP
    [JOIN] all = Concat <axis = 1> (HALF, z)
}
"""
BAD = _TEXT.replace("JOIN", "bad_join").replace("HALF", "xy").replace("    STEP\n", "")
GOOD = _TEXT.replace("JOIN", "join").replace("HALF", "positive").replace("STEP", "positive = Relu (xy)")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on Concat and Split nodes that another Concat or Split could absorb."""
    merged = joined_and_split(facts.model.ir) if facts.model else []
    if merged:
        verb = "copies" if len(merged) == 1 else "copy"
        what = f"{counted_names(merged)} {verb} pieces that another node just copied"
        finding = Finding(code=CODE, severity="note", what=what, where=tuple(name for name, _ in merged))
        yield with_fix(REWRITE, finding, facts)
