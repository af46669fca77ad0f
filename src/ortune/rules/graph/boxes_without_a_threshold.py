"""Boxes are compared without a threshold for their scores.

What it is: NonMaxSuppression without ``score_threshold``.
Why it costs: every box of every class is sorted and compared with those that were kept, most of them with scores near
    zero. Its time depends on the values fed.
Evidence: the input that is missing.
Fix and its safety: advice: give it the score below which the program drops boxes anyway, as its fifth input.
Example: a detector exported with the threshold left to the program
References: ONNX operator documentation, "NonMaxSuppression".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.nodes import input_of, is_op
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import counted, name_of
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
    found = [n for n in walked if is_op(n, "NonMaxSuppression") and input_of(n, _THRESHOLD) is None]
    if found:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"no score_threshold, so every box is compared: {counted(found)}",
            where=tuple(map(name_of, found)),
            fix="give NonMaxSuppression the least score as its fifth input",
        )
