"""Weights are stored in a small type and only cast to float32.

What it is: weights of 16 bits or fewer that only a Cast to float32 reads.
Why it costs: no cost per run, because the Cast is folded. However, only the file is smaller: memory use and bytes read
    per run are those of float32.
Evidence: the types of weights, and the nodes that read them.
Fix and its safety: advice: use a model that computes in the small type, if that is faster on this machine.
Example: a float16 export whose weights all pass through Cast
References: ONNX Runtime documentation, "Float16 and mixed precision models".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.constants import constant_tensor
from ortune.graph.model.graphs import graphs, type_name
from ortune.graph.nodes import is_op
from ortune.printable import amount
from ortune.records import Finding
from ortune.rules._words import are
from ortune.rules.facts import Facts

CODE = "PRC001"

_LEAST = 1024


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding for each type of weights that are cast to float32."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for graph in graphs(facts.model.ir, functions=False) if facts.model else ():
        for value in graph.initializers.values() if isinstance(graph, ir.Graph) else ():
            tensor = constant_tensor(value)
            # Strings have no bit width.
            if tensor is None or tensor.dtype == ir.DataType.STRING or tensor.dtype.bitwidth >= 32:
                continue
            users = [*_readers(value)] if tensor.size >= _LEAST else []
            if users and all(cast_to(node) == ir.DataType.FLOAT for node in users):
                names[type_name(tensor.dtype)].append(value.name or "")
    for dtype, weights in names.items():
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{amount(len(weights), 'weight')} {are(len(weights))} stored in {dtype} and cast to "
            "float32 before use, which saves disk space but no memory",
            where=tuple(weights),
            fix="use weights that stay quantized, as ortune quantize writes them, to save memory too",
        )


def _readers(value: ir.Value) -> Iterator[ir.Node]:
    """Yield the nodes that read a value or a copy of it."""
    for node, _ in value.uses():
        if is_op(node, "Identity"):
            yield from _readers(node.outputs[0])
        else:
            yield node
