"""The purpose of a model's outputs, inferred from the graph and from output names, and a suitable metric for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.constants import stored
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import is_op

VOCABULARY = 1000
"""Minimum number of scores per row that counts as a vocabulary without an embedding table of the same size."""
_BOXES = ("bbox", "boxes", "box", "detection", "rois")
_VECTORS = ("embed", "sentence", "pooler", "pooled", "last_hidden_state", "feature", "vector")
_SCORES = ("logit", "prob", "score", "class", "label", "softmax")
_BEHIND = ("Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTask:
    """A built-in metric that is suitable for an output, with the evidence.

    Attributes:
        metric: Name of the metric.
        output: Name of the graph output.
        why: The evidence, as a clause that follows "because".
    """

    metric: str
    output: str
    why: str


def output_tasks(model: ir.Model) -> list[OutputTask]:
    """Return the metrics that are suitable for the outputs of a model, most certain first."""
    outputs = [value for value in model.graph.outputs if value.dtype in _FLOATS]
    tests = (_boxes, _tokens, _text, _embeddings, _classes)
    return [task for test in tests for value in outputs for task in test(model, value)]


def _boxes(model: ir.Model, value: ir.Value) -> Iterator[OutputTask]:
    name, last = value.name or "", _last(value)
    if last in (4, 6, 7) and any(word in name.lower() for word in _BOXES):
        yield OutputTask(
            metric="boxes",
            output=name,
            why=f"output {name!r} has rows of {last} values and is named like boxes",
        )
    elif last in (4, 6, 7) and any(is_op(node, "NonMaxSuppression") for node in nodes(model)):
        yield OutputTask(
            metric="boxes", output=name, why=f"output {name!r} has rows of {last} values after NMS"
        )
    elif _rank(value) == 4 and _size(value, 1) == 1 and is_op(_end(value), "Sigmoid"):
        yield OutputTask(metric="boxes", output=name, why=f"output {name!r} is a map of scores")


def _tokens(model: ir.Model, value: ir.Value) -> Iterator[OutputTask]:
    """Yield a perplexity task if an output has logits over the vocabulary of integer token inputs."""
    name, last = value.name or "", _last(value)
    integers = [v for v in _fed_inputs(model) if v.dtype in (ir.DataType.INT64, ir.DataType.INT32)]
    if _rank(value) != 3 or last is None or not any(_rank(v) == 2 for v in integers):
        return
    if last >= VOCABULARY or last in _tables(model):
        yield OutputTask(
            metric="perplexity",
            output=name,
            why=f"output {name!r} has scores of {last} tokens at each position",
        )


def _text(model: ir.Model, value: ir.Value) -> Iterator[OutputTask]:
    """Yield a CTC task if the only output has symbol scores per step and all inputs are floating-point."""
    name = value.name or ""
    floats = [v for v in _fed_inputs(model) if v.dtype in _FLOATS]
    if _rank(value) != 3 or len(floats) < len(list(_fed_inputs(model))) or len(model.graph.outputs) > 1:
        return
    if (_last(value) or 0) > 2 and is_op(_end(value), "Softmax", "LogSoftmax"):
        yield OutputTask(metric="ctc", output=name, why=f"output {name!r} has scores of symbols at each step")


def _embeddings(model: ir.Model, value: ir.Value) -> Iterator[OutputTask]:
    name, end = value.name or "", _end(value)
    if _rank(value) not in (2, 3) or (_last(value) or 3) <= 2:
        return
    if any(word in name.lower() for word in _VECTORS):
        yield OutputTask(metric="ranks", output=name, why=f"output {name!r} is named as an embedding")
    elif is_op(end, "LpNormalization") or (is_op(end, "Div") and _is_of_norm(end)):
        yield OutputTask(metric="ranks", output=name, why=f"output {name!r} has vectors of unit norm")


def _classes(model: ir.Model, value: ir.Value) -> Iterator[OutputTask]:
    name = value.name or ""
    if _rank(value) != 2 or _last(value) in (0, 1):
        return
    end = _end(value)
    if is_op(end, "Softmax", "LogSoftmax"):
        yield OutputTask(metric="accuracy", output=name, why=f"output {name!r} ends in {end.op_type}")
    elif any(word in name.lower() for word in _SCORES) and not is_op(end, "Sigmoid"):
        yield OutputTask(metric="accuracy", output=name, why=f"output {name!r} is named as scores of classes")


def _fed_inputs(model: ir.Model) -> Iterator[ir.Value]:
    weights = set(model.graph.initializers.values())
    return (value for value in model.graph.inputs if value not in weights)


def _tables(model: ir.Model) -> set[int]:
    """Return the row counts of the tables from which a Gather looks up rows."""
    tensors = [stored(node.inputs[0]) for node in model.graph if is_op(node, "Gather")]
    shapes = [tensor.shape.numpy() for tensor in tensors if tensor is not None]
    return {shape[0] for shape in shapes if len(shape) == 2 and shape[0] > 2}


def _end(value: ir.Value) -> ir.Node:
    """Return the node that computes an output, before nodes that only move values; an empty node without one."""
    node = value.producer()
    while node is not None and is_op(node, *_BEHIND) and node.inputs[0] is not None:
        source = node.inputs[0].producer()
        if source is None:
            break
        node = source
    return node if node is not None else ir.Node("", "", [])


def _is_of_norm(node: ir.Node) -> bool:
    """Return whether a Div node divides by a norm."""
    source = node.inputs[1].producer() if node.inputs[1] is not None else None
    while source is not None and is_op(source, "Clip", "Expand", "Max", "Sqrt"):
        source = source.inputs[0].producer() if source.inputs[0] is not None else None
    return is_op(source, "ReduceL2", "ReduceSumSquare", "ReduceSum")


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _size(value: ir.Value, axis: int) -> int | None:
    dim = None if value.shape is None or len(value.shape) <= axis else value.shape[axis]
    return dim if isinstance(dim, int) else None


def _last(value: ir.Value) -> int | None:
    rank = _rank(value)
    return _size(value, rank - 1) if rank else None
