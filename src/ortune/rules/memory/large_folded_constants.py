"""Constant folding creates large tensors.

What it is: ConstantOfShape, Expand, Tile and Range of constants with results of 16 MiB or more.
Why it costs: ONNX Runtime folds them at session creation and keeps the result. That costs time and memory that the
    file size does not show.
Evidence: the sizes of the results.
Fix and its safety: exact: the setting constant_folding_max_bytes, which computes them in each run instead; runs then
    take longer.
Example: ``--set constant_folding_max_bytes=1048576``
References: microsoft/onnxruntime#19902, #13240.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import onnx_ir as ir

from ortune.catalogue.named import CONSTANT_FOLDING_MAX_BYTES
from ortune.graph.constants import SMALL, constant
from ortune.graph.model.graphs import nodes, op_set
from ortune.graph.nodes import source_of
from ortune.records import Finding, Plan
from ortune.rules._words import counted, name_of
from ortune.rules.facts import Facts

CODE = "MEM002"

_MAKERS = op_set("ConstantOfShape Expand Tile Range")
_LEAST_BYTES = 16 << 20
_LIMIT_BYTES = 1 << 20
_MOST_BYTES = 1 << 30  # maximum that ONNX Runtime folds

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
grows (float[1] x) => (float[256,256,128] y)
{
    s = Constant <value = int64[3] {256, 256, 128}> ()
    [bad_zeros] z = ConstantOfShape (s)
    y = Add (x, z)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[1] x) => (float[256,256] y)
{
    s = Constant <value = int64[2] {256, 256}> ()
    z = ConstantOfShape (s)
    y = Add (x, z)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on nodes that constant folding turns into large tensors."""
    if facts.model is None or CONSTANT_FOLDING_MAX_BYTES.name in facts.plan.settings:
        return
    sizes = {
        node: size
        for node in nodes(facts.model.ir, functions=False)
        if (size := _bytes(node)) >= _LEAST_BYTES
    }
    growing = [node for node, size in sizes.items() if size <= _MOST_BYTES]
    if growing:
        total = sum(sizes[node] for node in growing)
        in_a_page = facts.provider.in_page  # a page does not have this setting
        yield Finding(
            code=CODE,
            severity="note",
            what=f"constant folding creates {total >> 20} MiB at session creation: {counted(growing)}",
            where=tuple(map(name_of, growing)),
            plan=None if in_a_page else Plan(settings={CONSTANT_FOLDING_MAX_BYTES.name: _LIMIT_BYTES}),
            safety="advice" if in_a_page else "exact",
        )


def _bytes(node: ir.Node) -> int:
    """Return the bytes that a node computes from constants, at four bytes per element; 0 if unknown."""
    if node.op_type not in _MAKERS:
        return 0
    operands = [constant(source_of(value), most=SMALL) for value in node.inputs]
    elements = 0.0
    match node.op_type, operands:
        case "ConstantOfShape", [shape] if shape is not None:
            elements = math.prod(int(n) for n in shape.ravel())
        case "Expand", [data, shape] if data is not None and shape is not None:
            elements = max(data.size, math.prod(int(n) for n in shape.ravel()))
        case "Tile", [data, repeats] if data is not None and repeats is not None:
            elements = data.size * math.prod(int(n) for n in repeats.ravel())
        case "Range", [start, limit, delta] if (
            start is not None
            and limit is not None
            and delta is not None
            and start.size == limit.size == delta.size == 1
        ):
            step = float(delta.item())
            elements = (float(limit.item()) - float(start.item())) / step if step else 0.0
    return int(elements) * 4 if math.isfinite(elements) and elements > 0 else 0
