"""Weights are stored more than once.

What it is: initializers with equal type, shape and values under different names, such as weights that were shared
    before the export, and tables repeated in every layer.
Why it costs: file size, load time and memory grow, and a run reads each copy.
Evidence: hashes of the values. Only weights with equal type, shape and first values are read in full.
Fix and its safety: exact: the rewrite ``duplicate-nodes`` keeps one copy, which all nodes then read. Advice: use an
    export that keeps shared weights shared.
Example: the token embedding of a language model, stored once for the input and once for the output
References: ONNX IR specification, "Graphs", on initializers.
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.graph.fingerprints import equal_tensors
from ortune.graph.model.graphs import parameters, stored_bytes
from ortune.records import Finding
from ortune.rewrites.duplicate_nodes import REWRITE
from ortune.rules._fixes import with_fix
from ortune.rules._words import listed, percent, plural
from ortune.rules.facts import Facts

CODE = "MEM001"

_SHARE = 0.01
_LEAST_BYTES = 64 << 10
_MOST_READ_BYTES = 1 << 30
_LEAST_TENSOR_BYTES = 1024


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on equal initializers, among the initializers that are read within a limit."""
    if facts.model is None or facts.rewritten_by(REWRITE.name):
        return
    stored = list(parameters(facts.model.ir))
    total = sum(map(stored_bytes, stored))
    large = ((tensor, tensor) for tensor in stored if stored_bytes(tensor) >= _LEAST_TENSOR_BYTES)
    repeated = [tensor for group in equal_tensors(large, most_bytes=_MOST_READ_BYTES) for tensor in group[1:]]
    wasted, names = sum(map(stored_bytes, repeated)), tuple(tensor.name or "" for tensor in repeated)
    if wasted >= max(_LEAST_BYTES, _SHARE * total):
        finding = Finding(
            code=CODE,
            severity="note",
            what=f"{len(names)} duplicate {plural(len(names), 'initializer')} ({percent(wasted / total)} of the "
            f"bytes): {listed(names)}",
            where=names,
            fix="export with shared weights kept shared",
        )
        yield with_fix(REWRITE, finding, facts)
