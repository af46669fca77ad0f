"""Provenance: the rewrites that made a model and its nodes, and the repair of metadata that tools drop."""

from __future__ import annotations

import onnx_ir as ir

from ortune.graph.model.graphs import FREE_INITIALIZERS_IR, NEVER_FED, nodes
from ortune.graph.written import Fingerprint, Signature, node_signature

NODE_KEY = "ortune.rewrite"
"""Metadata key of nodes that rewrites created or changed; the value has the rewrites' names, separated by commas."""

MODEL_KEY = "ortune.rewrites"
"""Metadata key of rewritten models; the value has the rewrites' names in order, separated by commas."""


def stamp(model: ir.Model, before: Fingerprint, name: str, *, by_identity: bool = True) -> None:
    """Write a rewrite's name into the metadata of a model and of every node that the fingerprint `before` lacks."""
    stamp_model(model, name)
    for node in before.new_nodes(model, by_identity=by_identity):
        _add(node.metadata_props, NODE_KEY, name)


def stamp_model(model: ir.Model, name: str) -> None:
    """Write a rewrite's name into the metadata of a model, but not of its nodes."""
    _add(model.metadata_props, MODEL_KEY, name)


def restore_metadata(original: ir.Model, output: ir.Model) -> None:
    """Restore the metadata of nodes that a tool left unchanged, since ONNX Runtime drops it."""
    tensors = list[object]()

    def signature(node: ir.Node) -> Signature:
        return node_signature(node, tensors, by_identity=False)

    metadata = {signature(node): node.metadata_props for node in nodes(original) if node.metadata_props}
    for node in nodes(output) if metadata else ():
        for key, text in metadata.get(signature(node), {}).items():
            node.metadata_props.setdefault(key, text)


def repair_saved(original: ir.Model, output: ir.Model) -> None:
    """Repair a model that a tool saved, if initializers were graph inputs: make it valid with the original inputs."""
    # Folded initializers remain as graph inputs and would have to be fed.
    for value in list(output.graph.inputs):
        had_default = value.name in original.graph.initializers
        if (
            had_default
            and value.name not in output.graph.initializers
            and not (value.uses() or value.is_graph_output())
        ):
            output.graph.inputs.remove(value)
    # New initializers are not graph inputs, but the IR version stays that of the original, which may not
    # allow that.
    if output.ir_version < FREE_INITIALIZERS_IR and any(
        not value.is_graph_input() for value in output.graph.initializers.values()
    ):
        output.ir_version = FREE_INITIALIZERS_IR
        # An initializer that callers could not feed stays a constant; as an input of this version it would be
        # a default.
        for value in output.graph.initializers.values():
            value.meta.pop(NEVER_FED, None)
            if value.is_graph_input():
                output.graph.inputs.remove(value)


def made_by(model: ir.Model) -> tuple[str, ...]:
    """Return the names of the rewrites that were applied to a model, in order."""
    return tuple(filter(None, model.metadata_props.get(MODEL_KEY, "").split(",")))


def _add(properties: dict[str, str], key: str, name: str) -> None:
    names = list(filter(None, properties.get(key, "").split(",")))
    if name not in names:
        properties[key] = ",".join([*names, name])
