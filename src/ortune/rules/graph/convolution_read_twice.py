"""A convolution is not made one with what follows, since something else reads it too.

What it is: a convolution, a BatchNormalization or an activation behind it, and a second reader of what the convolution
    gives, or the caller who is given it.
Why it costs: the tensor is written and read once more; a normalisation that would go into the weights stays, and is
    computed as a convolution of its own.
Evidence: the nodes. ONNX Runtime 1.31 was seen to keep them apart.
Fix and its safety: advice: let the second reader read what follows, or leave out an output that nobody needs.
Example: a model exported with its inner features as outputs
References: ONNX Runtime documentation, "Graph optimizations" ("Conv Activation Fusion"); microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.nodes import is_op
from ortune.model.graphs import nodes
from ortune.records import Finding
from ortune.rules._words import counted, listed, name_of
from ortune.rules.facts import Facts

CODE = "GRA022"

_FUSED = ("BatchNormalization", "Relu", "LeakyRelu", "Clip", "Tanh")
_HEAD = """
<ir_version: 8, opset_import: ["" : 17]>
features (float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z)
<float[2,2,1,1] w = {1,2,3,4}>
{
    [bad_conv] c = Conv (x, w)
    y = Relu (c)"""

BAD = f"""{_HEAD}
    z = Neg (c)
}}
"""
GOOD = f"""{_HEAD}
    z = Neg (y)
}}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model."""
    walked = nodes(facts.model.ir) if facts.model else ()
    found = {node: apart for node in walked if is_op(node, "Conv") and (apart := _apart(node))}
    if found:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"read twice, and so not made one with what follows: {counted([*found])}",
            where=tuple(map(name_of, found)),
            evidence=f"what stays apart: {listed(f'{n} {op}' for op, n in Counter(found.values()).items())}",
            fix="let the second reader read what follows",
        )


def _apart(node: ir.Node) -> str:
    """The operator that would be one with a convolution, were that not read elsewhere too; "" where none is."""
    value = node.outputs[0]
    users = [use.node for use in value.uses()]
    follows = next((user.op_type for user in users if is_op(user, *_FUSED)), "")
    return follows if len(users) > 1 or value.is_graph_output() else ""
