"""Reverts groups of layers in a quantized model to float by restoring their original nodes.

ONNX Runtime's quantizers fold activations into ranges, rename outputs and write other operators, but keep the names of
values. These names identify the float nodes to restore.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.model.graphs import subgraphs
from ortune.graph.nodes import is_op
from ortune.rewrites.dead_nodes import remove


def keep_float(
    quantized: ir.Model, floats: ir.Model, values: Collection[str], others: Collection[str]
) -> int:
    """Change a quantized model to compute the values named in `values` in float.

    Args:
        quantized: The quantized model, changed in place.
        floats: The float model that the quantizer read.
        values: Names of the values to compute in float.
        others: Names of the values that stay quantized. A value in neither set was created by the quantizer's
            preparation and is treated like its inputs.

    Returns:
        The number of nodes restored to float.
    """
    kept = _nodes_to_restore(quantized, floats, frozenset(values), frozenset(others))
    line = _Line(quantized)
    for node in kept:
        line.put(node)
    quantized.graph.sort()
    remove(quantized)
    return len(kept)


def _nodes_to_restore(
    quantized: ir.Model, floats: ir.Model, values: frozenset[str], others: frozenset[str]
) -> list[ir.Node]:
    """Return the float nodes to restore, in order, including nodes that the quantizer fused with restored nodes."""
    nodes = [n for n in floats.graph if not is_op(n, "Constant") and not any(True for _ in subgraphs(n))]
    kept: set[ir.Node] = set()
    for node in nodes:
        names = {value.name for value in node.outputs}
        computed = [value.producer() for value in node.inputs if value is not None and stored(value) is None]
        new = computed and not names & others and all(producer in kept for producer in computed)
        if names & values or new:
            kept.add(node)
    there = {value.name for node in quantized.graph for value in node.outputs}
    # A folded node has no value in the quantized model to replace, so it is restored with its neighbours.
    folded = [node for node in nodes if not any(value.name in there for value in node.outputs)]
    before = -1
    while before != len(kept):
        before = len(kept)
        for node in folded:
            together = {node, *(use.node for value in node.outputs for use in value.uses())}
            if kept & together:
                kept.update(neighbour for neighbour in together if neighbour in nodes)
    return [node for node in nodes if node in kept]


class _Line:
    """A quantized graph into which float nodes are inserted again."""

    def __init__(self, quantized: ir.Model) -> None:
        self._graph = quantized.graph
        self._values: dict[str, ir.Value] = {}
        for value in (*quantized.graph.inputs, *quantized.graph.initializers.values()):
            self._values[value.name or ""] = value
        for node in quantized.graph:
            self._values.update((value.name or "", value) for value in node.outputs)
        self._new: dict[str, ir.Value] = {}

    def put(self, node: ir.Node) -> None:
        """Insert one float node again; the float nodes that it reads must have been inserted before."""
        inputs = [self._input(value) for value in node.inputs]
        attributes = list(node.attributes.values())
        copy = ir.Node(
            node.domain, node.op_type, inputs, attributes, num_outputs=len(node.outputs), name=node.name,
            overload=node.overload,
        )  # fmt: skip
        self._graph.append(copy)
        for value, new in zip(node.outputs, copy.outputs, strict=True):
            new.type, new.shape = value.type, value.shape
            name = value.name or ""
            self._new[name] = new
            old = self._values.get(name)
            if old is None:
                new.name = name
                continue
            # Readers of the quantized value, and the model's outputs, use the new value instead.
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            old.name = f"{name}_quantized_before"
            new.name = name
            self._values[name] = new

    def _input(self, value: ir.Value | None) -> ir.Value | None:
        if value is None:
            return None
        name = value.name or ""
        if name in self._new:
            return self._new[name]
        tensor = stored(value)
        if tensor is not None:
            return self._constant(name, tensor)
        there = self._values[name]
        producer = there.producer()
        if producer is None or is_op(producer, "DequantizeLinear") or not _dequantized(producer):
            return there
        # A quantized operator is fused only if its single reader is a QuantizeLinear, so read the value after
        # that pair.
        return next(_behind(there), there)

    def _constant(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Return a float weight: the quantized model's if it still has the weight in float, or a new initializer."""
        there = self._values.get(name)
        constant = stored(there)
        if there is not None and constant is not None and constant.dtype == tensor.dtype:
            return there
        own = name if there is None else f"{name}_float"
        if own in self._graph.initializers:
            return self._graph.initializers[own]
        value = ir.Value(
            name=own,
            type=ir.TensorType(tensor.dtype),
            shape=ir.Shape(tensor.shape.numpy()),
            const_value=tensor,
        )
        self._graph.initializers[own] = value
        return value


def _dequantized(node: ir.Node) -> bool:
    """Return whether a node reads the output of a DequantizeLinear and so may become an integer kernel."""
    producers = (value.producer() for value in node.inputs if value is not None)
    return any(is_op(producer, "DequantizeLinear") for producer in producers)


def _behind(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the dequantized copies of a value: outputs of QuantizeLinear and DequantizeLinear pairs that read it."""
    for use in value.uses():
        if is_op(use.node, "QuantizeLinear") and use.idx == 0:
            yield from (
                reader.node.outputs[0]
                for reader in use.node.outputs[0].uses()
                if is_op(reader.node, "DequantizeLinear")
            )
