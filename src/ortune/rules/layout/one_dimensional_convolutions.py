"""One-dimensional convolutions do not use the blocked layout.

What it is: two or more Conv nodes on three-dimensional float32 tensors (N, C, L) on a CPU. Each has 16 or more output
    channels, and a number of input channels that is a multiple of 4 or below 16.
Why it costs: the blocked layout of ONNX Runtime's fast convolutions (NCHWc) exists only for two dimensions.
Evidence: the nodes, and their share of the run. The optimised graph of ONNX Runtime 1.32 has no ReorderInput before
    them, but has one if the same convolutions are written for four-dimensional tensors.
Fix and its safety: advice: insert Unsqueeze before the first and Squeeze after the last, and use Conv with a height of
    one. Measure the result, because it is not always faster.
Example: the convolutions over time in a speech encoder
References: microsoft/onnxruntime#20218.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import CPU
from ortune.graph.attributes import int_of
from ortune.graph.constants import constant_tensor
from ortune.graph.nodes import source_of, with_operator
from ortune.records import Finding
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "LAY006"

_AXES, _BLOCK = 3, 16
_IN_ONE_STEP = 4  # number of input channels that a kernel of the layout processes together
_ROW = 2  # minimum number of convolutions

_ONES = ",".join(["1"] * 16 * 16)
_TEXT = f"""
<ir_version: 8, opset_import: ["" : 17]>
row (float[1,16,8AXIS] x) => (float[1,16,8AXIS] y)
<float[16,16,1AXIS] w = {{{_ONES}}}>
{{
    [bad_first] h = Conv (x, w)
    [bad_second] y = Conv (h, w)
}}
"""
BAD = _TEXT.replace("AXIS", "")
GOOD = _TEXT.replace("AXIS", ",1")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on one-dimensional convolutions that would use the blocked layout on the CPU if they were 2D."""
    if facts.model is None or facts.target != CPU.target:
        return
    convolutions = [node for node in with_operator(facts.model.ir, "Conv") if _of_one(node)]
    if len(convolutions) >= _ROW:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"one-dimensional convolutions do not use the blocked layout (NCHWc): {counted(convolutions)}",
            where=tuple(map(name_of, convolutions)),
            fix="write them as two-dimensional Conv with a height of one, and compare both models",
        )


def _of_one(node: ir.Node) -> bool:
    """Return whether a convolution would use the blocked layout if it had a second dimension."""
    value = node.inputs[1]
    weight = constant_tensor(source_of(value)) if value is not None else None
    if weight is None or weight.dtype != ir.DataType.FLOAT:
        return False
    shape = tuple(weight.shape.numpy())
    if len(shape) != _AXES or shape[0] < _BLOCK or shape[1] == 1:
        return False
    groups = int_of(node, "group", 1)
    if groups > 1:
        return shape[1] % _BLOCK == 0 and shape[0] // groups % _BLOCK == 0
    return shape[1] < _BLOCK or shape[1] % _IN_ONE_STEP == 0
