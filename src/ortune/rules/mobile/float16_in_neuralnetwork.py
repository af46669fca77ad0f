"""A float16 model is used with CoreML's NeuralNetwork format.

What it is: nodes on float16 tensors, where CoreML is used in its default format, NeuralNetwork.
Why it costs: NeuralNetwork supports only float32, so every such node stays on the CPU. MLProgram supports float16, in
    which the Neural Engine computes.
Evidence: element types in the file, before any optimisation, and the option ModelFormat.
Fix and its safety: advice: set the provider option ``ModelFormat`` to ``MLProgram``.
Example: ``ortune partition model.onnx --for coreml,coreml-neuralnetwork``
References: ONNX Runtime documentation, "CoreML Execution Provider".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import onnx_ir as ir

from ortune.catalogue.providers import COREML
from ortune.records import Finding
from ortune.rules._mobile import in_program, partition_of
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

if TYPE_CHECKING:
    from ortune.engines.partitions.partition import Partition

CODE = "MOB005"
TIER = "preview"
TARGET = COREML.target

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
halves (float16[1,8] x) => (float16[1,8] y)
{
    [bad_relu] y = Relu (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
floats (float[1,8] x) => (float[1,8] y)
{
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on float16 nodes that CoreML's NeuralNetwork format does not support."""
    if facts.target != COREML.target or in_program(facts):
        return
    partition = partition_of(facts)
    if partition is None:
        return
    halves = [unit.target for unit in partition.wiring.units if _is_half(partition, unit.target)]
    nodes = [
        node for node in halves if node in partition.left and partition.left[node].code == "element-type"
    ]
    if nodes:
        yield Finding(
            code=CODE,
            what=f"CoreML's default format NeuralNetwork does not support float16: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix="set the provider option ModelFormat=MLProgram",
        )


def _is_half(partition: Partition, node: ir.Node) -> bool:
    return bool(node.inputs) and partition.values.inferred(node.inputs[0]).dtype == ir.DataType.FLOAT16
