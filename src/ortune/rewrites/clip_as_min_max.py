"""Writes a Clip as Max and Min.

What it is: ``Clip(x, low, high)`` becomes ``Min(Max(x, low), high)``. A Clip from 0 to 6 or from -1 to 1 stays.
Why it costs: NNAPI supports Clip only from 0 to 6 and from -1 to 1. Any other Clip splits the model into one more
    region.
Evidence: Clip among the nodes that ``ortune partition --for nnapi`` leaves on the CPU.
Fix and its safety: exact: the same comparisons.
Example: ``--rewrite clip-as-min-max``
References: ONNX operators, "Clip"; NNAPI, "ANEURALNETWORKS_RELU6" and "ANEURALNETWORKS_MAXIMUM".
"""

from __future__ import annotations

import onnx_ir as ir

from ortune.catalogue.providers import NNAPI
from ortune.graph.constants import scalar
from ortune.graph.nodes import input_of
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 11  # first opset in which the limits of Clip are inputs
_KEPT = ((0.0, 6.0), (-1.0, 1.0))


def _match(node: ir.Node, look: PatternFacts) -> ir.Node | str:
    if look.inferred(node.inputs[0]).dtype != ir.DataType.FLOAT:
        return f"Clip {node.name!r} is not known to be float32"
    limits = [input_of(node, place) for place in (1, 2)]
    numbers = [scalar(limit) for limit in limits]
    if any(limit is not None and number is None for limit, number in zip(limits, numbers, strict=True)):
        return f"a limit of Clip {node.name!r} is not constant"
    if limits == [None, None] or tuple(numbers) in _KEPT:
        return ""
    low, high = numbers
    if low is not None and high is not None and low > high:
        return f"the limits of Clip {node.name!r} are in the wrong order"
    return node


def _replace(editor: Editor, node: ir.Node, look: PatternFacts) -> None:
    value = node.inputs[0]
    for place, operator in ((1, "Max"), (2, "Min")):
        limit = input_of(node, place)
        if limit is not None:
            value = editor.node(
                node, operator, [value, limit], name=f"{node.name or 'clip'}_{operator.lower()}"
            )
    assert value is not None
    look.values[value] = look.inferred(node.outputs[0])
    editor.replace(node.outputs[0], value)


PATTERN = Pattern(
    anchors=("Clip",),
    match=_match,
    replace=_replace,
    made="Replaced {n} Clip {node|nodes} with Max and Min.",
    proposed="{n} Clip {node has|nodes have} limits that NNAPI does not support",
    none="every Clip has the limits 0 and 6, or -1 and 1",
    least_opset=_LEAST_OPSET,
)
REWRITE = PATTERN.rewrite(
    name="clip-as-min-max",
    summary="Clip becomes Max and Min, for NNAPI",
    stage=7,
    targets=(NNAPI.target,),
)
