"""A convolution is not fused with the next operator because another node reads its output.

What it is: a Conv followed by BatchNormalization or an activation, where a second node or a graph output also reads
    the Conv.
Why it costs: the tensor is written and read once more. A BatchNormalization that could be folded into the weights runs
    as a separate node (in the blocked layout, as a depthwise convolution).
Evidence: the nodes. ONNX Runtime 1.31 does not fuse them.
Fix and its safety: advice: let the second reader use the fused output if the model allows it (outputs change), or
    remove graph outputs that nobody needs.
Example: a model exported with intermediate features as outputs
References: ONNX Runtime documentation, "Graph optimizations" ("Conv Activation Fusion"); microsoft/onnxruntime#12522.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.nodes import is_op, with_operator
from ortune.records import Finding
from ortune.rules._words import listed, name_of, subject
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
    """Yield a finding on convolutions that are not fused with the next operator."""
    convolutions = with_operator(facts.model.ir, "Conv") if facts.model else ()
    matches = {node: apart for node in convolutions if (apart := _unfused_operator(node))}
    if matches:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{subject([*matches], 'is', 'are')} not fused with the next operator because another node reads the "
            f"output",
            where=tuple(map(name_of, matches)),
            evidence=f"not fused: {listed(f'{n} {op}' for op, n in Counter(matches.values()).items())}",
            fix="let the second reader use the output of the next operator, if the model allows it (outputs change)",
        )


def _unfused_operator(node: ir.Node) -> str:
    """Return the operator not fused with a convolution whose output is also read elsewhere; "" if there is none."""
    value = node.outputs[0]
    users = [use.node for use in value.uses()]
    follows = next((user.op_type for user in users if is_op(user, *_FUSED)), "")
    return follows if len(users) > 1 or value.is_graph_output() else ""
