"""Values are cast to a smaller type and straight back.

What it is: a Cast to float16 or bfloat16 whose only reader is a Cast back to float32.
Why it costs: two passes over the tensor that only round it; what stands on either side is not fused.
Evidence: Casts that follow each other, by name. ONNX Runtime takes out those that lose nothing by itself.
Fix and its safety: numerics: the setting cast_chain_elimination; outputs move by what the rounding took away.
Example: ``--set cast_chain_elimination=1``
References: microsoft/onnxruntime#25824, #12880.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.constants import is_constant
from ortune.graph.nodes import only_user
from ortune.knobs.cpu.cast_chain_elimination import KNOB
from ortune.model.graphs import nodes
from ortune.records import Finding, Plan
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "PRC004"

_SMALL = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
there_and_back (float[8,96] x, float[96,96] w) => (float[8,96] y)
{
    p = MatMul (x, w)
    [bad_half] h = Cast <to = 10> (p)
    [bad_back] f = Cast <to = 1> (h)
    y = Relu (f)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
there (float[8,96] x, float[96,96] w) => (float16[8,96] y)
{
    p = MatMul (x, w)
    h = Cast <to = 10> (p)
    y = Identity (h)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    if facts.model is None or facts.provider.in_page or facts.plan.settings.get(KNOB.name):
        return
    found: list[ir.Node] = []
    for node in nodes(facts.model.ir):
        given = node.inputs[0] if cast_to(node) in _SMALL else None
        if given is not None and not is_constant(given):
            back = only_user(node.outputs[0])
            if back is not None and cast_to(back) == ir.DataType.FLOAT and not _is_small(given):
                found += [node, back]
    if found:
        yield Finding(
            code=CODE,
            what=f"cast down and straight back: {counted(found)}",
            where=tuple(map(name_of, found)),
            plan=Plan(settings={KNOB.name: True}),
            safety="numerics",
        )


def _is_small(value: ir.Value) -> bool:
    return value.dtype in _SMALL
