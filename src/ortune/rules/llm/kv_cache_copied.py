"""A decoder copies its KV cache at every step.

What it is: outputs that are an input with new values appended by Concat: keys and values of all earlier tokens.
Why it costs: each step writes the whole cache again and returns it to the caller, so the time per token grows with the
    length of the text.
Evidence: Concat nodes from an input of the model to an output.
Fix and its safety: advice: export with GroupQueryAttention, whose past and present can share one buffer, or with a
    cache of fixed size that is updated in place.
Example: past_key_values and present of a decoder
References: onnxruntime/mobius#369; huggingface/optimum#326; ROCm/hip-ep#753.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import int_of
from ortune.graph.nodes import is_op, source_of
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "LLM001"
TIER = "preview"

_AXES = 4  # rank of a cache: batch, heads, tokens, head size

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
step (float[1,2,1,8] key, float[1,2,past,8] past_key) => (float[1,2,total,8] present_key)
{
    [bad_concat] present_key = Concat <axis = 2> (past_key, key)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
frames (float[1,2,1,8] key, float[1,2,past,8] other) => (float[1,2,total,8] y)
{
    c = Concat <axis = 2> (other, key)
    y = Relu (c)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on Concat nodes of the main graph that append to a KV cache."""
    graph = facts.model.ir.graph if facts.model else ()
    appends = [
        node for node in graph if is_op(node, "Concat") and _is_output(node.outputs[0]) and _appends(node)
    ]
    if appends:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"the KV cache is copied at every step: {counted(appends)}",
            where=tuple(map(name_of, appends)),
            fix="export with GroupQueryAttention, which shares one buffer between past and present",
        )


def _is_output(value: ir.Value) -> bool:
    """Return whether a value, or a copy of it, is a graph output."""
    copies = [use.node.outputs[0] for use in value.uses() if is_op(use.node, "Identity")]
    return value.is_graph_output() or any(map(_is_output, copies))


def _appends(node: ir.Node) -> bool:
    """Return whether a Concat appends to an input with the rank of a cache along a dynamic axis."""
    past = source_of(node.inputs[0])
    if past is None or not past.is_graph_input() or past.is_initializer() or past.shape is None:
        return False
    axis = int_of(node, "axis", 0)
    rank = len(past.shape)
    return rank == _AXES and -rank <= axis < rank and not isinstance(past.shape[axis], int)
