"""BatchNormalization is in training mode.

What it is: BatchNormalization with training_mode=1, left by an export of a model that was not switched to inference.
Why it costs: mean and variance are computed from each batch, so nothing can be folded into the preceding convolution.
    Outputs depend on the other samples of the batch.
Evidence: the attribute.
Fix and its safety: advice: call ``model.eval()`` and export again. Outputs then use the training statistics.
Example: ``torch.onnx.export(model.eval(), ...)``
References: ONNX operator documentation, "BatchNormalization"; microsoft/onnxscript#1791.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.attributes import int_of
from ortune.graph.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA008"

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
learning (float[2,4,8,8] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[2,4,8,8] y)
{
    [bad_norm] y, mean, var = BatchNormalization <training_mode = 1> (x, s, b, m, v)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
learned (float[2,4,8,8] x, float[4] s, float[4] b, float[4] m, float[4] v) => (float[2,4,8,8] y)
{
    y = BatchNormalization (x, s, b, m, v)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on BatchNormalization nodes in training mode."""
    walked = nodes(facts.model.ir) if facts.model else ()
    matches = [n for n in walked if n.op_type == "BatchNormalization" and bool(int_of(n, "training_mode", 0))]
    if matches:
        yield Finding(
            code=CODE,
            what=f"{subject(matches, 'is', 'are')} in training mode",
            where=tuple(map(name_of, matches)),
            fix="call model.eval() before the export",
        )
