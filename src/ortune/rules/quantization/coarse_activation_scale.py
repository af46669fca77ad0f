"""Values of a small range are quantized in large steps.

What it is: the output of Sigmoid, Softmax, Tanh or a similar operator, quantized with a scale that gives it fewer than
    four steps. This happens if scores are concatenated with coordinates and share their scale.
Why it costs: the scores of a detector become 0 or 1, or all 0, while an error over the whole tensor looks small.
Evidence: the scale of QuantizeLinear, and the possible range of the preceding operator.
Fix and its safety: advice: quantize again with a scale for each of the tensors that are joined, or leave the Concat
    and what follows it in float (``nodes_to_exclude``).
Example: a detector whose output has boxes in pixels and scores in one tensor
References: ONNX operators, "QuantizeLinear"; ONNX Runtime documentation, "Quantize ONNX models".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.constants import one_number
from ortune.graph.nodes import input_of, is_op, with_operator
from ortune.records import Finding
from ortune.rules._pairs import PASSED
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "QNT015"

_LEAST_STEPS = 4
_WIDTH = {"Sigmoid": 1.0, "HardSigmoid": 1.0, "Softmax": 1.0, "Tanh": 2.0, "Softsign": 2.0, "Erf": 2.0}
"""Width of the output range of each operator."""
_ON_THE_WAY = PASSED | {"Concat", "QuantizeLinear", "DequantizeLinear"}
_MOST_NODES = 64

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
detector (float[1,4,400] pixels, float[1,8,400] x) => (float[1,12,400] y)
<float s = {SCALE}, uint8 z = {0}>
{
    [bad_scores] scores = Sigmoid (x)
    all = Concat <axis = 1> (pixels, scores)
    q = QuantizeLinear (all, s, z)
    y = DequantizeLinear (q, s, z)
}
"""
BAD = _TEXT.replace("SCALE", "2.5")
GOOD = _TEXT.replace("SCALE", "0.00392")


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on operators with a small output range whose outputs are quantized in large steps."""
    scales: dict[ir.Node, float] = {}
    for node in with_operator(facts.model.ir, "QuantizeLinear") if facts.model else ():
        scale = one_number(input_of(node, 1))
        if scale is None:
            continue
        step = float(scale.reshape(()))
        for source in _sources(node):
            # Scores from 0 to 1 with a scale of 2.5, which pixels up to 640 need, are all rounded to 0.
            if _WIDTH[source.op_type] < _LEAST_STEPS * step:
                scales[source] = max(step, scales.get(source, 0.0))
    if not scales:
        return
    source, step = max(scales.items(), key=lambda pair: pair[1] / _WIDTH[pair[0].op_type])
    yield Finding(
        code=CODE,
        severity="error",
        what=f"outputs with a small range are quantized in large steps: {counted([*scales])}",
        where=tuple(map(name_of, scales)),
        evidence=f"{source.op_type} spans {_WIDTH[source.op_type]:g}, and one step is {step:.3g}",
        fix="quantize again with a scale for each tensor, or leave these nodes in float",
    )


def _sources(node: ir.Node) -> Iterator[ir.Node]:
    """Yield the operators with a known output range upstream of a node, through nodes that only move or join values."""
    waiting, visited = [node], {node}
    while waiting and len(visited) <= _MOST_NODES:
        at = waiting.pop()
        for value in at.inputs if is_op(at, "Concat") else at.inputs[:1]:
            maker = value.producer() if value is not None else None
            if maker is None or maker in visited:
                continue
            visited.add(maker)
            if is_op(maker, *_WIDTH):
                yield maker
            elif is_op(maker, *_ON_THE_WAY):
                waiting.append(maker)
