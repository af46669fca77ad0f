"""Large tensors are computed in int64 where int32 would do.

What it is: arithmetic, comparisons and selections of int64 (token ids, positions, masks) whose values provably fit
    int32, on tensors of 65,536 elements or more, or that take 5 % or more of a profiled run. If nothing proves that the
    values fit, tensors of that size are a note.
Why it costs: twice the bytes are read and written, and a vector instruction computes half as many elements.
Evidence: the sizes, or the share of a profile. On one AVX2 core (CPU time), ONNX Runtime 1.32 computed Add, Mul, Less,
    Equal, Max and Div of 65,536 and 1,048,576 elements 1.6 to 2.5 times as fast in int32. The operator Where was 1.2 to
    1.5 times as fast. With 4,096 elements, the operators were 1.1 to 1.7 times as fast.
Fix and its safety: exact: the rewrite ``int64-to-int32``. Inputs and outputs keep their type. Without the proof,
    advice: use int32 inputs, or a Cast to int32, if the values fit.
Example: a causal mask computed from two Range nodes and a Less in every run
References: ONNX operators, "Less" and "Where", which take both types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import is_constant
from ortune.graph.shapes.known import Values, known_values
from ortune.records import Finding
from ortune.rewrites.int64_to_int32 import REWRITE, integer_computations, may_compute_wide, narrowable
from ortune.rules._concerned import share_of_run
from ortune.rules._fixes import with_fix
from ortune.rules._words import name_of, percent, subject
from ortune.rules.facts import Facts

CODE = "PRC007"

_LARGE = 1 << 16
_SHARE = 0.05

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
mask (bool[1,1,512] keep, float[4,512,512] scores) => (float[4,512,512] y)
<int64[1] one = {1}, int64 last = {2}, float low = {-10000}>
{
    counts = Cast <to = 7> (keep)
    places = CumSum (counts, last)
    columns = Transpose <perm = [0,2,1]> (places)
    [bad_less] later = Less (columns, places)
    y = Where (later, low, scores)
}
"""
GOOD = BAD.replace("512", "16")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes of the main graph that compute large or slow int64 tensors on a CPU."""
    if facts.model is None or not facts.provider.cpu_kernels:
        return
    model = facts.model.ir
    candidates = integer_computations(model)
    if not candidates or not may_compute_wide(model):
        return
    values, narrow = known_values(model), narrowable(model)
    large = [
        node for node in narrow if any(_is_large(value, values) for value in (*node.inputs, *node.outputs))
    ]
    shares = share_of_run(narrow, model, facts.profile) if facts.profile is not None and narrow else None
    hot = shares is not None and shares[0] >= _SHARE
    if large or hot:
        named = large or narrow
        finding = Finding(
            code=CODE,
            what=f"{subject(named, 'computes', 'compute')} in int64, although every value fits in int32",
            where=tuple(map(name_of, named)),
            evidence=f"{percent(shares[0])} of the run" if shares is not None and hot else "",
        )
        yield with_fix(REWRITE, finding, facts)
        return
    unproven = [node for node in candidates if _reads_large(node, values)]
    if unproven:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{subject(unproven, 'computes', 'compute')} {_LARGE:,} elements or more in int64",
            where=tuple(map(name_of, unproven)),
            fix="declare the inputs as int32, or insert a Cast to int32, if the values fit",
        )


def _reads_large(node: ir.Node, values: Values) -> bool:
    """Return whether a node reads a large non-constant int64 tensor."""
    return any(
        values.inferred(value).dtype == ir.DataType.INT64
        and _is_large(value, values)
        and not is_constant(value)
        for value in node.inputs
    )


def _is_large(value: ir.Value | None, values: Values) -> bool:
    dims = values.inferred(value).dims or ("",)
    sizes = [size for size in dims if isinstance(size, int)]
    return len(sizes) == len(dims) and math.prod(sizes) >= _LARGE
