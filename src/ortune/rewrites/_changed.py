"""The nodes of a model that a rewrite would change or remove."""

from __future__ import annotations

import onnx_ir as ir

from ortune.errors import OrtuneError
from ortune.graph.model.graphs import nodes
from ortune.graph.written import node_signature
from ortune.records import RewriteSpec
from ortune.rewrites._registry import find


def changed_nodes(model: ir.Model, spec: RewriteSpec) -> list[ir.Node]:
    """Return the nodes that a rewrite would change or remove; empty if the rewrite fails or runs in the tool process.

    Args:
        model: The model, which is not changed.
        spec: The rewrite and its parameters.
    """
    rewrite = find(spec.name)
    if rewrite.change is None:
        return []
    copy = model.clone()
    try:
        rewrite.change(copy, rewrite.with_defaults(spec.params))
    except OrtuneError:
        return []
    tensors: list[object] = []
    after = {node_signature(node, tensors, by_identity=False) for node in nodes(copy)}
    return [node for node in nodes(model) if node_signature(node, tensors, by_identity=False) not in after]
