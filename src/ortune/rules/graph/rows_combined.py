"""Nodes combine the rows of a batch.

What it is: a node that normalises, sums, multiplies or pools along the axis of the batch, so an output row depends on
    the other rows. Often the cause is a Reshape that merges the batch with another axis, an axis counted from the wrong
    side, or a recurrent layer that takes the batch for time.
Why it costs: answers change with the batch size, so a batch, the usual way to more throughput, gives wrong results. At
    batch size 1, where exports are tested, nothing shows.
Evidence: the nodes, by following the dynamic batch dimension of the inputs through the graph. Without a named batch
    dimension, only images and token ids are followed.
Fix and its safety: advice: correct the axis or the Reshape and export again; until then, run one row at a time.
Example: Softmax with axis 0, or over all tokens after ``x.reshape(1, -1, d)``
References: ONNX operator documentation, "Softmax", "Reshape", "LSTM" (attribute layout).
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.rows import mixed_rows
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA029"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
scores (float[batch,16,8] x) => (float[batch,16,8] y)
{
    [bad_softmax] y = Softmax <axis = 0> (x)
}
"""
GOOD = BAD.replace("axis = 0", "axis = 1")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes that combine the rows of a batch."""
    if facts.model is None:
        return
    nodes = mixed_rows(facts.model.ir).over_batch
    if nodes:
        yield Finding(
            code=CODE,
            severity="warning",
            what=f"{subject(nodes, 'combines', 'combine')} the rows of a batch, so outputs depend on the batch size",
            where=tuple(map(name_of, nodes)),
            fix="correct the axis or the Reshape in the export; until then, run one row at a time",
        )
