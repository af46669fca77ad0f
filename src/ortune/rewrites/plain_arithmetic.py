"""Writes Sum as Add, and Neg as Mul.

What it is: a Sum of several tensors becomes a chain of Add, and Neg a multiplication by -1.
Why it costs: NNAPI and CoreML have no Sum, and CoreML has no Neg. Each such node splits the model into one more
    region, with copies before and after it.
Evidence: Sum or Neg among the nodes that ``ortune partition`` leaves on the CPU.
Fix and its safety: exact: the same sums in the same order.
Example: ``--rewrite plain-arithmetic``
References: ONNX operators, "Sum" and "Neg".
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import COREML, NNAPI
from ortune.graph.nodes import is_op
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 8  # first opset in which Sum broadcasts
_MOST_INPUTS = 256
"""Maximum number of inputs of a Sum, which is replaced with a chain of about as many nodes."""


def _match(node: ir.Node, look: PatternFacts) -> ir.Node | str:
    if look.inferred(node.inputs[0]).dtype != ir.DataType.FLOAT:
        return f"{node.op_type} {node.name!r} is not known to be float32"
    if is_op(node, "Sum") and (len(node.inputs) < 2 or None in node.inputs):
        return f"Sum {node.name!r} has a single input"
    if len(node.inputs) > _MOST_INPUTS:
        return f"Sum {node.name!r} has {len(node.inputs)} inputs, more than {_MOST_INPUTS}"
    return node


def _replace(editor: Editor, node: ir.Node, look: PatternFacts) -> None:
    first, *others = node.inputs
    assert first is not None
    result, operator = first, "Add"
    if is_op(node, "Neg"):
        others, operator = (
            [editor.constant(node, f"{node.name or 'neg'}_number", np.asarray(-1, np.float32))],
            "Mul",
        )
    for value in others:
        result = editor.node(
            node, operator, [result, value], name=f"{node.name or node.op_type}_{operator.lower()}"
        )
    look.values[result] = look.inferred(node.outputs[0])
    editor.replace(node.outputs[0], result)


PATTERN = Pattern(
    anchors=("Sum", "Neg"),
    match=_match,
    replace=_replace,
    made="Replaced {n} Sum or Neg {node|nodes} with Add and Mul.",
    proposed="{n} Sum or Neg {node|nodes} can be replaced with Add and Mul",
    none="the model has no Sum or Neg",
    least_opset=_LEAST_OPSET,
)
REWRITE = PATTERN.rewrite(
    name="plain-arithmetic",
    summary="Sum becomes Add and Neg becomes Mul, for NNAPI and CoreML",
    stage=7,
    targets=(NNAPI.target, COREML.target),
)
