"""NonMaxSuppression has no score threshold.

What it is: NonMaxSuppression without ``score_threshold``.
Why it costs: every box of every class is sorted and compared, most with scores near zero. The time depends on the
    input values.
Evidence: the missing input.
Fix and its safety: advice: pass the score below which the program drops boxes anyway as the fifth input.
Example: a detector exported without its score threshold
References: ONNX operator documentation, "NonMaxSuppression".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.nodes import input_of, is_op
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA026"

_THRESHOLD = 4  # the place of the input

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
detector (float[1,16,4] boxes, float[1,2,16] scores) => (int64[n,3] kept)
<int64[1] most = {16}, float[1] overlap = {0.5}, float[1] least = {0.3}>
{
    [bad_nms] kept = NonMaxSuppression (boxes, scores, most, overlapTHRESHOLD)
}
"""
BAD = _TEXT.replace("THRESHOLD", "")
GOOD = _TEXT.replace("THRESHOLD", ", least")


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    walked = nodes(facts.model.ir) if facts.model else ()
    matches = [n for n in walked if is_op(n, "NonMaxSuppression") and input_of(n, _THRESHOLD) is None]
    if matches:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{subject(matches, 'has', 'have')} no score_threshold and "
            f"{'compares' if len(matches) == 1 else 'compare'} every box",
            where=tuple(map(name_of, matches)),
            fix="pass a score threshold to NonMaxSuppression as its fifth input",
        )
