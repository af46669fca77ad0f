"""The model needs more memory than a phone allows one app.

What it is: weights and the tensors of the largest node together exceed 1.5 GiB, and the target is a provider for
    phones: NNAPI, CoreML, QNN or XNNPACK.
Why it costs: the system kills an app that uses more (jetsam, the low-memory killer), at the latest when the provider
    makes its own copy of the weights.
Evidence: sizes of the weights, and of inputs and outputs of each node where their shapes are known.
Fix and its safety: advice: smaller input shapes, 8-bit or 4-bit weights, or a smaller model.
Example: ``ortune compare model.onnx --b-rewrite weight-only-bits``
References: Apple, "Reducing your app's memory use"; Android, "Low memory killer daemon".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import onnx_ir as ir

from ortune.catalogue.providers import NNAPI
from ortune.graph.model.graphs import parameters, stored_bytes
from ortune.graph.shapes.types import n_bytes
from ortune.records import Finding
from ortune.rules._mobile import partition_of
from ortune.rules._words import name_of
from ortune.rules.facts import Facts

if TYPE_CHECKING:
    from ortune.engines.partitions.partition import Partition

CODE = "MOB008"
TIER = "preview"
TARGET = NNAPI.target

_MOST_BYTES = 3 << 29
_GIB = 1 << 30

BAD = """
<ir_version: 8, opset_import: ["" : 17]>
large (float[1,16,4096,4096] x) => (float[1,16,4096,4096] y)
{
    [bad_relu] y = Relu (x)
}
"""
GOOD = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[1,16,64,64] x) => (float[1,16,64,64] y)
{
    y = Relu (x)
}
"""


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the weights and the tensors of the largest node exceed an app's memory."""
    partition = partition_of(facts)
    if partition is None or facts.model is None:
        return
    weights = sum(map(stored_bytes, parameters(facts.model.ir)))
    sizes = {unit.target: _bytes(partition, unit.target) for unit in partition.wiring.units}
    largest = max(sizes, key=lambda node: sizes[node], default=None)
    total = weights + (sizes[largest] if largest is not None else 0)
    if total > _MOST_BYTES and largest is not None:
        yield Finding(
            code=CODE,
            what=f"weights and the largest node need {total / _GIB:.1f} GiB, more than a phone allows one app",
            where=(name_of(largest),),
            fix="use smaller input shapes, 8-bit weights or a smaller model",
        )


def _bytes(partition: Partition, node: ir.Node) -> int:
    total = 0
    for value in (*node.inputs, *node.outputs):
        sizes = partition.values.sizes(value)
        if value is not None and sizes is not None and None not in sizes and not value.is_initializer():
            total += n_bytes(partition.values.inferred(value).dtype, [n for n in sizes if n is not None]) or 0
    return total
