"""LayerNormalization is written out in a form that is not fused.

What it is: mean, difference, square, mean, square root and division, in a form that ONNX Runtime does not fuse into
    LayerNormalization. Before opset 17, ONNX Runtime also moves a preceding Transpose past these nodes, and the
    normalised axis is then no longer the last.
Why it costs: nine passes over the tensor instead of one.
Evidence: the nodes, and what prevents the fusion: the axis, the square, the root, the division, epsilon, scale and
    shift, a second reader, or a preceding Transpose. ONNX Runtime 1.31 keeps each form in its optimised graph.
Fix and its safety: exact: the rewrite ``layer-normalization``, where it matches the form. Otherwise advice: export with
    opset 17 or later, which has a LayerNormalization operator.
Example: ``torch.onnx.export(..., opset_version=17)``
References: ONNX operator documentation, "LayerNormalization"; microsoft/onnxruntime#12916, #21332.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.model.open import OpenModel
from ortune.graph.nodes import holds, with_operator
from ortune.graph.ort_fusions import layer_normalization_ending
from ortune.records import Finding
from ortune.rewrites import PatternFacts
from ortune.rewrites.layer_normalization import REWRITE, may_begin, unfused_operators
from ortune.rules._fixes import fixed_by
from ortune.rules._words import are, counted, name_of
from ortune.rules.facts import Facts

CODE = "GRA011"

_LOOKED_AT = 32  # maximum means to try; each takes up to a tenth of a second

BAD = """
<ir_version: 8, opset_import: ["" : 16]>
channels (float[2,8,16] x, float[8,1] s, float[8,1] b) => (float[2,8,16] y)
{
    m = ReduceMean <axes = [1]> (x)
    d = Sub (x, m)
    two = Constant <value = float {2.0}> ()
    q = Pow (d, two)
    v = ReduceMean <axes = [1]> (q)
    e = Constant <value = float {0.00001}> ()
    a = Add (v, e)
    r = Sqrt (a)
    [bad_quotient] n = Div (d, r)
    t = Mul (n, s)
    y = Add (t, b)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 16]>
features (float[2,8,16] x) => (float[2,8,16] y)
<float[16] s = {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}, float[16] b = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}>
{
    m = ReduceMean <axes = [-1]> (x)
    d = Sub (x, m)
    two = Constant <value = float {2.0}> ()
    q = Pow (d, two)
    v = ReduceMean <axes = [-1]> (q)
    e = Constant <value = float {0.00001}> ()
    a = Add (v, e)
    r = Sqrt (a)
    n = Div (d, r)
    t = Mul (n, s)
    y = Add (t, b)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on layer normalizations that are not fused."""
    why = _reasons(facts.model) if facts.model else {}
    if why:
        reasons = "; ".join(dict.fromkeys(why.values()))
        finding = Finding(
            code=CODE,
            what=f"{len(why)} LayerNormalization {are(len(why))} not fused: {counted([*why])}",
            where=tuple(map(name_of, why)),
            evidence=reasons,
            fix="export with opset 17 or later, where LayerNormalization is one operator",
        )
        yield fixed_by(REWRITE, finding, facts)


def _reasons(model: OpenModel) -> dict[ir.Node, str]:
    """Map the last node of each unfused layer normalization to the reason that it is not fused."""
    opset = model.facts.opsets.get("", 0)
    ends = with_operator(model.ir, "Div", "Mul") if holds(model.ir, "ReduceMean") else ()
    unfused = [normalization for end in ends if (normalization := layer_normalization_ending(end, opset))]
    why = {normalization.node: normalization.why for normalization in unfused if normalization.why}
    recognised = {node for normalization in unfused for node in normalization.nodes}
    look = PatternFacts(model.ir)
    means = (node for node in with_operator(model.ir, "ReduceMean", "ReduceSum") if node not in recognised)
    for mean in itertools.islice(filter(may_begin, means), _LOOKED_AT):
        otherwise = unfused_operators(mean, look)
        if otherwise is not None:
            end, missing = otherwise
            why[end] = f"the pattern lacks {', '.join(missing)}"
    return why
