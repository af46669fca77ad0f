"""NonMaxSuppression has no score threshold.

What it is: NonMaxSuppression without ``score_threshold``, or with a threshold below all scores: minus infinity, or 0
    for the outputs of Sigmoid or Softmax.
Why it costs: every box of every class is sorted and compared, most with scores near zero. The time depends on the
    input values.
Evidence: the missing input, or its value.
Fix and its safety: advice: pass a score threshold as the fifth input, such as the one that the program applies to the
    boxes afterwards.
Example: a detector exported without its score threshold
References: ONNX operator documentation, "NonMaxSuppression".
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import scalar
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import input_of, is_op, maker_of, source_of, with_operator
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA026"

_SCORES, _THRESHOLD = 1, 4  # input positions
_POSITIVE = op_set("Sigmoid Softmax")
_MOVING = op_set("Cast Gather ReduceMax Reshape Slice Split Squeeze Transpose Unsqueeze")
_DEPTH = 16  # maximum nodes from the scores upstream to the operator that bounds them

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
    """Yield findings on NonMaxSuppression nodes without an effective score threshold."""
    filters = with_operator(facts.model.ir, "NonMaxSuppression") if facts.model else []
    without = [node for node in filters if input_of(node, _THRESHOLD) is None]
    idle = [node for node in filters if _keeps_all(node)]
    for matches, what in ((without, "no score_threshold"), (idle, "a score_threshold below all scores")):
        if matches:
            yield Finding(
                code=CODE,
                severity="note",
                what=f"{subject(matches, 'has', 'have')} {what} and "
                f"{'compares' if len(matches) == 1 else 'compare'} every box",
                where=tuple(map(name_of, matches)),
                fix="pass a score threshold to NonMaxSuppression as its fifth input",
            )


def _keeps_all(node: ir.Node) -> bool:
    """Return whether the threshold of a NonMaxSuppression is known to be below every score."""
    least = scalar(source_of(input_of(node, _THRESHOLD)))
    return least is not None and (least == -math.inf or (least <= 0 and _positive(input_of(node, _SCORES))))


def _positive(scores: ir.Value | None, depth: int = _DEPTH) -> bool:
    """Return whether all scores are certainly probabilities, or products of probabilities."""
    maker = maker_of(scores)
    if maker is None or not depth:
        return False
    if is_op(maker, "Mul", "Concat"):
        return all(_positive(value, depth - 1) for value in maker.inputs)
    return is_op(maker, *_POSITIVE) or (is_op(maker, *_MOVING) and _positive(maker.inputs[0], depth - 1))
