"""Nodes use integer types that the accelerator does not support.

What it is: nodes on int64 or int32 tensors (shape arithmetic, indices, masks) whose operators NNAPI, CoreML or QNN
    supports only for other types.
Why it costs: such a node stays on the CPU, and splits the model if it is between supported nodes.
Evidence: element types in the file, before any optimisation, and the provider's constraints on them.
Fix and its safety: advice: fix the input shapes, which folds shape arithmetic (``fixed-dimensions``), and cast what
    remains to float32 in the model's code.
Example: ``ortune rewrite model.onnx fixed-dimensions:batch=1 constant-folding``
References: microsoft/onnxruntime#12654; NNAPI execution provider, supported operators.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ortune.catalogue.providers import NNAPI
from ortune.records import Finding
from ortune.rules._fixes import fixable
from ortune.rules._mobile import ACCELERATORS, partition_of
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MOB004"
TIER = "preview"
TARGET = NNAPI.target

_INTEGERS = re.compile(r"\bint(32|64)\b")

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
numbers (int64[1,8] x) => (int64[1,8] y)
{
    [bad_sum] y = Add (x, x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
floats (float[1,8] x) => (float[1,8] y)
{
    y = Add (x, x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes that the provider rejects because of integer types."""
    partition = partition_of(facts) if facts.target in ACCELERATORS else None
    if partition is None:
        return
    nodes = [
        node
        for node, why in partition.left.items()
        if why.code in ("element-type", "refused") and _INTEGERS.search(why.detail)
    ]
    if nodes:
        finding = Finding(
            code=CODE,
            what=f"integer tensors keep nodes on the CPU: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix="fix the input shapes with the rewrite fixed-dimensions, and cast what remains to float32",
        )
        yield fixable(finding, facts)
