"""Inputs have no elements in the first step.

What it is: a past or a list of memories to which each step appends, so it has length 0 in the first step, for CoreML.
Why it costs: CoreML has no tensors without elements. The first step fails, or all of its nodes run on the CPU.
Evidence: inputs that a Concat or an attention operator extends along a dynamic dimension.
Fix and its safety: advice: export the model with a static cache: buffers of the largest length, which are never empty,
    a position that each step writes to, and a mask for the rest.
Example: a cache of ``[1, heads, 1024, size]`` with a ``position`` input instead of ``[1, heads, past, size]``
References: Core ML Tools documentation, "Stateful models"; ONNX Runtime documentation, "CoreML Execution Provider".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.catalogue.providers import COREML
from ortune.graph.shapes.growing import growing_inputs
from ortune.records import Finding
from ortune.rules._providers import open_inputs
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "MOB010"
TARGET = COREML.target

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
appended (float[1,2,past,4] bad_past, float[1,2,1,4] k) => (float[1,2,all,4] present)
{
    present = Concat <axis = 2> (bad_past, k)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
written (float[1,2,16,4] cache, float[1,2,1,4] k, bool[1,1,16,1] here) => (float[1,2,16,4] new_cache)
{
    new_cache = Where (here, k, cache)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on inputs that are empty in the first step, if CoreML runs the model."""
    if facts.model is None or facts.target != COREML.target or not open_inputs(facts):
        return
    names = [item.name for item in growing_inputs(facts.model.ir)]
    if names:
        has = "has" if len(names) == 1 else "have"
        yield Finding(
            code=CODE,
            severity="warning",
            what=f"CoreML rejects tensors without elements, and {listed(names)} {has} length 0 in the first step",
            where=tuple(names),
            fix="export the model with a static cache: buffers of the largest length that each step writes into",
        )
