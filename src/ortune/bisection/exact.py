"""The outputs of a small model in double precision, by ONNX's own reference: which of two answers is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx import TensorProto, numpy_helper

from ortune.analysis import cost
from ortune.graph.randomness import random_ops
from ortune.inputs import feed_files
from ortune.model.operators import STANDARD
from ortune.records import FeedRef
from ortune.trials.output_files import Array

MOST_S = 5.0
FLOPS_PER_S = 1e8
"""Of the reference, which is written to be read; measured on convolutions."""
NODES_PER_S = 2e3
_NARROW = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NameError, RuntimeError, TypeError,
    ValueError, onnx.defs.SchemaError,
)  # fmt: skip
"""The reference fails in as many ways as there are operators that it does not know in double precision."""


def exact_outputs(model: ir.Model, feed: FeedRef) -> dict[str, Array] | None:
    """Evaluates a model in double precision and returns its outputs by name.

    Args:
        model: As it is in its file.
        feed: Its inputs.

    Returns:
        Those that are tensors; None where that takes longer than some seconds, and where the reference does not know
        the model.
    """
    feeds = {
        name: value
        for name, value in feed_files.read_feeds(Path(feed.path)).items()
        if isinstance(value, np.ndarray)
    }
    # Random nodes and own operators have no one answer, and the reference is slow: only small, plain models.
    standard = all(node.domain in STANDARD for node in model.graph)
    if not standard or model.functions or random_ops(model) or _seconds(model, feeds) > MOST_S:
        return None
    # Imported late: they bring every operator there is.
    from onnx.reference import ReferenceEvaluator

    from ortune.bisection.exact_operators import DequantizeLinear, QuantizeLinear

    try:
        proto = ir.to_proto(ir.external_data.load_to_model(model.clone()))
        _widen(proto.graph)
        with np.errstate(all="ignore"):
            evaluator = ReferenceEvaluator(proto, new_ops=[QuantizeLinear, DequantizeLinear])
            results = evaluator.run(None, {name: _wide(value) for name, value in feeds.items()})
    except _FAILURES:
        return None
    names = [str(value.name) for value in model.graph.outputs]
    return {name: value for name, value in zip(names, results, strict=True) if isinstance(value, np.ndarray)}


def _seconds(model: ir.Model, feeds: dict[str, Array]) -> float:
    shapes = {name: value.shape for name, value in feeds.items()}
    whole = {name: value for name, value in feeds.items() if value.dtype.kind in "iub"}
    counted = cost.costs(model, shapes, whole)
    if not all(node.known for node in counted.nodes):
        return np.inf
    return counted.flops / FLOPS_PER_S + sum(node.times for node in counted.nodes) / NODES_PER_S


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _widen(graph: onnx.GraphProto) -> None:
    """Every floating-point number of a graph, and of the graphs within, becomes a double."""
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in _NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen(attribute.g)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i in _NARROW:
                attribute.i = TensorProto.DOUBLE


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _NARROW:
        wide = numpy_helper.to_array(tensor).astype(np.float64)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
