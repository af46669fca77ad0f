"""Repairs to a statically quantized model: removes conversions that gain nothing and restores lost outputs.

Three things are repaired. A pair of QuantizeLinear and DequantizeLinear around an operator that has no integer kernel,
or that lacks a pair on one side, rounds and converts for nothing. A weight after DequantizeLinear that no integer
kernel reads is dequantized in every run. An output in 8 bits has one scale: if boxes and scores share a tensor, every
score is less than one step and becomes 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.kinds import MOVES
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import is_op
from ortune.printable import amount
from ortune.rewrites._kept_float import keep_float
from ortune.rewrites.dead_nodes import remove

_MOVES = MOVES | op_set("Concat Gather Split")
"""Operators that only move values, so that the quantization scale stays the same."""
_TO_SCORES = op_set("Exp LogSoftmax Sigmoid Softmax Tanh")
"""Operators that often end a model and whose results differ by orders of magnitude."""
_ONE_INPUT = op_set(
    "AveragePool DepthToSpace Expand Flatten Gather GatherElements GlobalAveragePool LeakyRelu MaxPool Reshape Resize "
    "Sigmoid Slice Softmax Split Squeeze Tile Transpose Unsqueeze"
)
"""Operators that ONNX Runtime's CPU provider computes on integers if their first input is quantized; their other inputs
are sizes and indices."""
_ALL_INPUTS = op_set("Add Concat Conv Gemm MatMul Mul Where")
_GIVES_FLOAT = op_set("Gemm MatMul")
"""Operators that also have a kernel from integers to float, so that their result need not be quantized."""


def mend_pairs(quantized: ir.Model, floats: ir.Model) -> tuple[str, ...]:
    """Repair a statically quantized model and return one sentence for each kind of repair.

    Args:
        quantized: The quantized model, changed in place.
        floats: The float model that the quantizer read.
    """
    outputs, pairs, weights = _float_outputs(quantized, floats), 0, 0
    graph, before = quantized.graph, -1
    # Removing one pair can leave another without an integer kernel.
    while before != pairs + weights:
        before = pairs + weights
        for node in list(graph):
            if is_op(node, "QuantizeLinear") and node.graph is graph:
                pairs += _without_pair(node)
            elif is_op(node, "DequantizeLinear") and node.graph is graph:
                weights += _without_weight(graph, node)
        remove(quantized)
    said = []
    if outputs:
        names = ", ".join(repr(name) for name in outputs)
        stay, all_values = (
            ("stays", "all of its values") if len(outputs) == 1 else ("stay", "all values of each")
        )
        said.append(f"{names} {stay} in float, because in 8 bits {all_values} would share one scale")
    if pairs:
        said.append(
            f"{amount(pairs, 'pair')} of QuantizeLinear and DequantizeLinear without an integer kernel removed"
        )
    if weights:
        were, are = ("was", "is") if weights == 1 else ("were", "are")
        said.append(
            f"{amount(weights, 'weight')} that {were} dequantized in every run {are} stored in float again"
        )
    return tuple(said)


def _float_outputs(quantized_model: ir.Model, floats: ir.Model) -> list[str]:
    """Revert to float the graph outputs whose values need more than one scale, and return the outputs' names."""
    names, values = [], set[str]()
    quantized = {v.name for v in quantized_model.graph.outputs if is_op(v.producer(), "DequantizeLinear")}
    for output in floats.graph.outputs:
        if output.name not in quantized:
            continue
        mine = set(_names_upstream(output))
        if mine:
            names.append(output.name or "")
            values |= mine
    if values:
        others = {v.name or "" for node in floats.graph for v in node.outputs} - values
        keep_float(quantized_model, floats, values, others)
    return names


def _names_upstream(value: ir.Value) -> Iterator[str]:
    """Yield the names of values upstream of an output, through nodes that only move values, up to scores."""
    node = value.producer()
    if not (is_op(node, *_MOVES) or is_op(node, *_TO_SCORES)):
        return
    assert node is not None
    yield from (v.name or "" for v in node.outputs)
    for source in node.inputs:
        if source is not None and is_op(node, *_MOVES):
            yield from _names_upstream(source)


def is_integer_kernel(node: ir.Node) -> bool:
    """Return whether ONNX Runtime's CPU provider fuses a node and its surrounding pairs into one integer kernel."""
    if is_op(node, *_ONE_INPUT):
        inputs = list(node.inputs[:1])
    elif is_op(node, *_ALL_INPUTS):
        inputs = [v for v in node.inputs if v is not None and v.name]
        inputs = inputs[1:] if is_op(node, "Where") else inputs
    else:
        return False
    if not all(v is not None and is_op(v.producer(), "DequantizeLinear") for v in inputs):
        return False
    if is_op(node, *_GIVES_FLOAT):
        return True
    uses = [use.node for value in node.outputs for use in value.uses()]
    return bool(uses) and all(is_op(user, "QuantizeLinear") for user in uses) and not _is_given(node)


def _is_given(node: ir.Node) -> bool:
    return any(value.is_graph_output() for value in node.outputs)


def _without_pair(node: ir.Node) -> int:
    """Bypass a QuantizeLinear/DequantizeLinear pair that no integer kernel uses; return 1 if bypassed, else 0."""
    value = node.inputs[0]
    if value is None or stored(value) is not None:
        return 0
    producer = value.producer()
    readers = [use.node for use in node.outputs[0].uses()]
    if (
        not readers
        or node.outputs[0].is_graph_output()
        or not all(is_op(r, "DequantizeLinear") for r in readers)
    ):
        return 0
    served = [use.node for reader in readers for use in reader.outputs[0].uses()]
    if any(reader.outputs[0].is_graph_output() for reader in readers):
        return 0
    if (producer is not None and is_integer_kernel(producer)) or any(map(is_integer_kernel, served)):
        return 0
    for reader in readers:
        reader.outputs[0].replace_all_uses_with(value)
    return 1


def _without_weight(graph: ir.Graph, node: ir.Node) -> int:
    """Store a weight as float if no integer kernel reads it; return 1 if stored, else 0."""
    tensors = [stored(value) for value in node.inputs]
    output = node.outputs[0]
    if any(tensor is None for tensor in tensors) or output.is_graph_output() or not output.uses():
        return 0
    if any(is_integer_kernel(use.node) for use in output.uses()):
        return 0
    weight, scale, *zero = [tensor.numpy() for tensor in tensors if tensor is not None]
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    # Scales per channel are reshaped to the axis; a single scale broadcasts.
    along = [-1 if place == axis % max(1, weight.ndim) else 1 for place in range(weight.ndim)]
    shape = along if scale.size > 1 else []
    # (q - zero point) * scale.
    shifted = weight.astype(np.float32)
    if zero:
        shifted -= zero[0].reshape(shape).astype(np.float32)
    array = np.ascontiguousarray(shifted * scale.reshape(shape), dtype=np.float32)
    name = f"{output.name}_float"
    tensor = ir.tensor(array, name=name)
    value = ir.Value(
        name=name, type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(array.shape), const_value=tensor
    )
    graph.initializers[name] = value
    output.replace_all_uses_with(value)
    return 1
