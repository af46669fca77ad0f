"""Probabilities are returned as a list of dictionaries.

What it is: an output made by ZipMap, which converters of scikit-learn models add by default: one dictionary per row,
    from class to probability.
Why it costs: every dictionary is created in ONNX Runtime and again as a Python object, outside the kernels. For many
    rows or classes this takes several times as long as the model.
Evidence: the node. A profile shows the conversion as time outside the run.
Fix and its safety: behaviour: return the tensor that ZipMap reads; programs then read columns instead of keys.
Example: ``--rewrite zipmap-to-tensor``, or ``options={"zipmap": False}`` for skl2onnx
References: sklearn-onnx documentation, "Choose appropriate output of a classifier" (option zipmap).
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import Finding
from ortune.rewrites.zipmap_to_tensor import REWRITE, zip_maps
from ortune.rules._fixes import with_fix
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "GRA030"

BAD = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
classified (float[n,3] x) => (seq(map(int64,float[])) y)
{
    p = Softmax (x)
    [bad_map] y = ai.onnx.ml.ZipMap <classlabels_int64s = [0,1,2]> (p)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
classified (float[n,3] x) => (float[n,3] y)
{
    y = Softmax (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on ZipMap nodes that make outputs."""
    nodes = zip_maps(facts.model.ir) if facts.model is not None else []
    if nodes:
        finding = Finding(
            code=CODE,
            what=f"{subject(nodes, 'returns', 'return')} a list of dictionaries, one per row, instead of a tensor",
            where=tuple(map(name_of, nodes)),
            fix="export the model without ZipMap",
        )
        yield with_fix(REWRITE, finding, facts)
