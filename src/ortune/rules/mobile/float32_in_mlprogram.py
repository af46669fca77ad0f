"""A float32 model is used with CoreML's MLProgram format.

What it is: float32 nodes that CoreML runs in MLProgram format.
Why it costs: an MLProgram computes in the types of the model, and the Neural Engine runs only float16. A float32
    model runs on GPU and CPU. The NeuralNetwork format has no types, so CoreML itself chooses float16 there.
Evidence: element types in the file, before any optimisation, and the option ModelFormat.
Fix and its safety: advice: convert the model to float16 with the rewrite ``float32-to-float16``, which changes outputs
    slightly; or keep NeuralNetwork if it supports all operators of the model.
Example: ``ortune rewrite model.onnx float32-to-float16``
References: Core ML Tools, "Typed Execution"; ONNX Runtime documentation, "CoreML Execution Provider".
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import COREML
from ortune.records import Finding
from ortune.rewrites.float32_to_float16 import REWRITE as TO_HALF
from ortune.rules._mobile import in_program, partition_of
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MOB009"
TIER = "preview"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on float32 nodes that CoreML takes into an MLProgram."""
    if facts.target != COREML.target or not in_program(facts):
        return
    if facts.rewritten_by(TO_HALF.name):
        return
    partition = partition_of(facts)
    if partition is None:
        return
    nodes = [
        node
        for region in partition.regions
        for node in region.nodes
        if node.inputs and partition.values.inferred(node.inputs[0]).dtype == ir.DataType.FLOAT
    ]
    if nodes:
        yield Finding(
            code=CODE,
            severity="note",
            what=f"the Neural Engine runs an MLProgram in float16 only; these nodes are float32: {counted(nodes)}",
            where=tuple(map(name_of, nodes)),
            fix=f"convert to float16 with the rewrite {TO_HALF.name}",
        )
