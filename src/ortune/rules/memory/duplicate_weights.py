"""Weights repeat others.

What it is: initializers of equal type, shape and values under different names: weights that were shared before the
    export, and tables that are made once a layer.
Why it costs: file, load and memory are larger, and a run reads the bytes of each copy.
Evidence: digests of the values; only weights whose type, shape and first values agree are read in full.
Fix and its safety: advice: an export that keeps shared weights shared.
Example: the embedding of a language model, stored for its input and again for its output
References: ONNX IR specification, "Graphs", on initializers.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator

import onnx_ir as ir

from ortune.model.graphs import parameters, stored_bytes
from ortune.records import Finding
from ortune.rules._words import listed, percent, plural
from ortune.rules.facts import Facts

CODE = "MEM001"

_SHARE = 0.01
_LEAST_BYTES = 64 << 10
_MOST_READ_BYTES = 1 << 30
_LEAST_TENSOR_BYTES = 1024
_HEAD_ELEMENTS = 256


def find(facts: Facts) -> Iterator[Finding]:
    """Everywhere in the model, unless too much would have to be read."""
    if facts.model is None:
        return
    stored = list(parameters(facts.model.ir))
    total = sum(map(stored_bytes, stored))
    repeated, read = [], 0
    for group in _alike(stored):
        seen: set[bytes] = set()
        for tensor in group:
            read += stored_bytes(tensor)
            if read > _MOST_READ_BYTES:
                return
            digest = hashlib.sha256(tensor.numpy().tobytes()).digest()
            if digest in seen:
                repeated.append(tensor)
            seen.add(digest)
    wasted, names = sum(map(stored_bytes, repeated)), tuple(tensor.name or "" for tensor in repeated)
    if wasted >= max(_LEAST_BYTES, _SHARE * total):
        yield Finding(
            code=CODE,
            severity="note",
            what=f"{len(names)} {plural(len(names), 'weight')} ({percent(wasted / total)} of the bytes) repeat "
            f"others: {listed(names)}",
            where=names,
        )


def _alike(tensors: Iterable[ir.TensorProtocol]) -> Iterator[list[ir.TensorProtocol]]:
    """Groups of tensors that may be equal: of one type and shape, with the same first values."""
    found: defaultdict[tuple[object, ...], list[ir.TensorProtocol]] = defaultdict(list)
    for tensor in tensors:
        if stored_bytes(tensor) >= _LEAST_TENSOR_BYTES and tensor.dtype.bitwidth >= 8:
            found[tensor.dtype, tuple(tensor.shape.numpy())].append(tensor)
    for group in found.values():
        heads: defaultdict[bytes, list[ir.TensorProtocol]] = defaultdict(list)
        for tensor in group if len(group) > 1 else ():
            heads[tensor.numpy().ravel()[:_HEAD_ELEMENTS].tobytes()].append(tensor)
        yield from (alike for alike in heads.values() if len(alike) > 1)
