"""Differences between two nodes: the operator, attributes, weights."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortune.engines.bisection.value_statistics import FARTHEST
from ortune.graph.attributes import texts
from ortune.graph.constants import stored
from ortune.graph.nodes import operator
from ortune.records import NodeChange

_LONGEST = 200  # of an attribute, as text


def node_changes(a: ir.Node, b: ir.Node) -> list[NodeChange]:
    """Return the differences between two nodes: the operator, attributes, weights."""
    changes = []
    if operator(a) != operator(b):
        changes.append(NodeChange(part="operator", was=operator(a), now=operator(b)))
    mine, theirs = (texts(node) for node in (a, b))
    for name in sorted(mine.keys() | theirs.keys()):
        was, now = mine.get(name, "")[:_LONGEST], theirs.get(name, "")[:_LONGEST]
        if was != now:
            changes.append(NodeChange(part="attribute", name=name, was=was, now=now))
    for old, new in zip(a.inputs, b.inputs, strict=False):
        was_w, now_w = _stored(old), _stored(new)
        if was_w is None or now_w is None:
            continue
        if was_w.shape != now_w.shape:
            changes.append(NodeChange(part="weight", name=str(old and old.name)))
        elif not np.array_equal(was_w, now_w, equal_nan=was_w.dtype.kind == "f"):
            norm = float(np.linalg.norm(was_w.astype(np.float64)))
            error = float(np.linalg.norm(now_w.astype(np.float64) - was_w.astype(np.float64)))
            far = error / norm if norm else FARTHEST
            changes.append(
                NodeChange(
                    part="weight",
                    name=str(old and old.name),
                    relative_l2=far if np.isfinite(far) else None,
                )
            )
    return changes


def _stored(value: ir.Value | None) -> np.ndarray | None:
    tensor = stored(value)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()
