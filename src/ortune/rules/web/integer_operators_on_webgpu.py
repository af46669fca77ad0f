"""Operators compute with 64-bit or 8-bit integers on WebGPU.

What it is: arithmetic, comparisons and sums of int64, uint8 or int8 on WebGPU. Shape computations are excluded,
    because ONNX Runtime runs them on the CPU in any case.
Why it costs: shaders support neither type. These nodes run on the CPU, and each copy from the GPU waits for all work
    queued there.
Evidence: the operators and the declared types.
Fix and its safety: exact: the rewrite int64-to-int32, where the values provably fit. Otherwise advice: export with
    int32 or float32.
Example: ``--rewrite int64-to-int32``
References: microsoft/onnxruntime#29756, #25236, #27291, #29273.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.providers import WEB_WEBGPU
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.nodes import source_of
from ortune.records import Finding
from ortune.rewrites.int64_to_int32 import REWRITE
from ortune.rules._browsers import GPU
from ortune.rules._fixes import fixed_by
from ortune.rules._words import name_of, subject
from ortune.rules.facts import Facts

CODE = "WEB006"
TARGET = WEB_WEBGPU.target

_COMPUTING = op_set(
    "Add Sub Mul Div Mod Pow Min Max Clip Abs Neg Sign Equal Less LessOrEqual Greater GreaterOrEqual CumSum "
    "ReduceSum ReduceMax ReduceMin ReduceProd"
)
_LACKING = (ir.DataType.INT64, ir.DataType.UINT8, ir.DataType.INT8)
_WAY = 16  # maximum producers to search for a Shape

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
tokens (int64[2,4] ids, float[96,8] table) => (float[2,4,8] y, float[2,4] z)
<int64[1] one = {1}>
{
    y = Gather (table, ids)
    [bad_sum] next = Add (ids, one)
    z = Cast <to = 1> (next)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
tokens (int32[2,4] ids, float[96,8] table) => (float[2,4,8] y, float[2,4] z)
<int32[1] one = {1}>
{
    y = Gather (table, ids)
    next = Add (ids, one)
    z = Cast <to = 1> (next)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes with integer types that WebGPU lacks, if WebGPU runs the model."""
    if facts.model is None or facts.target not in GPU:
        return
    computing = [node for node in nodes(facts.model.ir) if _is_meant(node)]
    if computing:
        finding = Finding(
            code=CODE,
            what=f"{subject(computing, 'runs', 'run')} on the CPU because WebGPU lacks this integer type",
            where=tuple(map(name_of, computing)),
            fix="export with int32 or float32",
        )
        yield fixed_by(REWRITE, finding, facts)


def _is_meant(node: ir.Node) -> bool:
    if node.domain or node.op_type not in _COMPUTING:
        return False
    operands = [source_of(value) for value in node.inputs if value is not None]
    fed = [value for value in operands if not value.is_initializer()]
    return any(value.dtype in _LACKING for value in fed) and not any(map(_of_a_shape, fed))


def _of_a_shape(value: ir.Value) -> bool:
    """Return whether a value is computed from the shape of another value."""
    waiting, visited = [value], set[ir.Node]()
    while waiting and len(visited) < _WAY:
        node = waiting.pop().producer()
        if node is None or node in visited:
            continue
        if node.op_type in ("Shape", "Size"):
            return True
        visited.add(node)
        waiting += [v for v in node.inputs if v is not None]
    return False
