"""Writes HardSigmoid and HardSwish as the arithmetic around a Clip from 0 to 6.

What it is: ``HardSigmoid(x)`` becomes ``clip(6 * alpha * x + 6 * beta, 0, 6) / 6``, and ``HardSwish(x)`` becomes ``x *
    clip(x + 3, 0, 6) / 6``: Mul, Add, Clip.
Why it costs: NNAPI and CoreML's NeuralNetwork have neither operator, so each node splits the model into one more
    region, with copies before and after it. Both have a Clip from 0 to 6.
Evidence: HardSigmoid or HardSwish among the nodes that ``ortune partition`` leaves on the CPU.
Fix and its safety: exact: the same function; only rounding differs. On the CPU, HardSigmoid and HardSwish are faster;
    use this rewrite for phones only.
Example: ``--rewrite activations-as-clip``
References: ONNX operators, "HardSigmoid" and "HardSwish"; NNAPI, "ANEURALNETWORKS_RELU6".
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortune.catalogue.providers import COREML, NNAPI
from ortune.graph.attributes import float_of, is_parameter
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 11  # first opset in which the limits of Clip are inputs


def _match(node: ir.Node, look: PatternFacts) -> ir.Node | str:
    if look.inferred(node.inputs[0]).dtype != ir.DataType.FLOAT:
        return f"{node.op_type} {node.name!r} is not known to be float32"
    if is_parameter(node, "alpha") or is_parameter(node, "beta"):
        return f"{node.op_type} {node.name!r} gets its attributes from a function call"
    return node


def _replace(editor: Editor, node: ir.Node, look: PatternFacts) -> None:
    x, swish = node.inputs[0], node.op_type == "HardSwish"
    assert x is not None
    alpha = 1 / 6 if swish else float_of(node, "alpha", 0.2)
    beta = 0.5 if swish else float_of(node, "beta", 0.5)

    def step(operator: str, left: ir.Value, number: float) -> ir.Value:
        constant = editor.constant(node, f"{node.name or 'clip'}_number", np.asarray(number, np.float32))
        return editor.node(node, operator, [left, constant], name=f"{node.name or 'clip'}_{operator.lower()}")

    # The slope of HardSwish, and of HardSigmoid in PyTorch, is 1/6, so 6 * alpha is 1.
    inner = x if np.float32(6 * alpha) == 1 else step("Mul", x, 6 * alpha)
    shifted = step("Add", inner, 6 * beta)
    limits = [
        editor.constant(node, f"{node.name or 'clip'}_limit", np.asarray(n, np.float32)) for n in (0, 6)
    ]
    clipped = editor.node(node, "Clip", [shifted, *limits], name=f"{node.name or 'clip'}_clip")
    if swish:
        clipped = editor.node(node, "Mul", [x, clipped], name=f"{node.name or 'clip'}_gate")
    result = step("Mul", clipped, 1 / 6)
    look.values[result] = look.inferred(node.outputs[0])
    editor.replace(node.outputs[0], result)


PATTERN = Pattern(
    anchors=("HardSigmoid", "HardSwish"),
    match=_match,
    replace=_replace,
    made="Replaced {n} {activation|activations} with Clip arithmetic.",
    proposed="{n} HardSigmoid or HardSwish {node|nodes} can be replaced with a Clip from 0 to 6",
    none="the model has no HardSigmoid or HardSwish",
    least_opset=_LEAST_OPSET,
)
REWRITE = PATTERN.rewrite(
    name="activations-as-clip",
    summary="HardSigmoid and HardSwish become a Clip from 0 to 6 with Mul and Add, for NNAPI and CoreML",
    stage=7,
    targets=(NNAPI.target, COREML.target),
)
