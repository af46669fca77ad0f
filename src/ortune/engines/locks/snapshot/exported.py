"""Snapshot of the exported model: interface, weights by type, and digests of their values."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator

import onnx_ir as ir

from ortune.graph.fingerprints import is_structure, model_fingerprint, tensor_digest
from ortune.graph.model.graphs import attribute_tensors, graphs, nodes, tensors, type_text
from ortune.graph.model.open import OpenModel
from ortune.graph.nodes import operator
from ortune.records import LockedModel


def locked_model(model: OpenModel) -> LockedModel:
    """Return the part of a snapshot that describes the exported model; this reads all weights once more."""
    # By identity, which is valid as long as the model exists, since names are not unique.
    digests = {id(t): tensor_digest(t) for t in tensors(model.ir)}
    weights = [t for t in tensors(model.ir) if not is_structure(t)]
    by_type: Counter[str] = Counter()
    for tensor in weights:
        if tensor.dtype != ir.DataType.STRING:
            by_type[tensor.dtype.name.lower()] += tensor.nbytes
    graph = model.ir.graph
    fed = [v for v in graph.inputs if v.name not in graph.initializers]
    info = model.info
    return LockedModel(
        sha256=info.sha256,
        file_bytes=info.size_bytes,
        external_bytes=info.external_bytes,
        producer=info.producer,
        opsets=dict(sorted(info.opsets.items())),
        parameters=sum(math.prod(t.shape.numpy()) for t in weights),
        weights=hashlib.sha256("".join(sorted(digests[id(t)] for t in weights)).encode()).hexdigest()[:16],
        contents=model_fingerprint(model.ir, lambda tensor: digests.get(id(tensor)) or tensor_digest(tensor)),
        weights_bytes=dict(sorted(by_type.items())),
        tensors={name: digests[id(t)][:12] for name, t in _named(model.ir)},
        inputs=tuple(interface(v) for v in fed),
        outputs=tuple(interface(v) for v in graph.outputs),
    )


def exported_operators(model: OpenModel) -> dict[str, int]:
    """Return the number of nodes of each exported operator, without constants, keyed as in ``structure.operators``."""
    counts = Counter(map(operator, nodes(model.ir)))
    counts.pop("Constant", None)
    return dict(counts)


def interface(value: ir.Value) -> str:
    """Return a text such as "x: float[batch,3,?]": "?" is an unnamed dimension, and "[...]" an unknown rank."""
    kind = type_text(value) or "?"
    if "(" in kind:
        return f"{value.name}: {kind}"
    if value.shape is None:
        return f"{value.name}: {kind}[...]"
    dims = (str(d) if isinstance(d, int) else str(d.value or "?") for d in value.shape)
    return f"{value.name}: {kind}[{','.join(dims)}]"


def _named(model: ir.Model) -> Iterator[tuple[str, ir.TensorProtocol]]:
    """Yield each weight with its name; a name that several graphs use is yielded for each of them."""
    for graph in graphs(model):
        if isinstance(graph, ir.Graph):
            values = [(v.name or "", v.const_value) for v in graph.initializers.values()]
            yield from ((name, t) for name, t in values if t is not None and not is_structure(t))
        for node in graph:
            if node.op_type == "Constant":
                stored = (t for a in node.attributes.values() for t in attribute_tensors(a))
                yield from ((node.outputs[0].name or "", t) for t in stored if not is_structure(t))
