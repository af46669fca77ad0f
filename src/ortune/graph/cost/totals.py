"""Cost of a whole model: the sum over all nodes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from ortune.errors import InputError
from ortune.graph.cost.call import Executions
from ortune.graph.cost.control import CONTROL_FLOW
from ortune.graph.cost.graph import GraphCounter
from ortune.graph.cost.recurrent import RECURRENT
from ortune.graph.evaluation import Array
from ortune.graph.model.extent import copies
from ortune.graph.model.garbage import without_collection
from ortune.graph.model.graphs import parameters
from ortune.graph.model.operators import STANDARD
from ortune.graph.shapes.single_nodes import Dims
from ortune.graph.shapes.types import n_bytes
from ortune.records import ModelCost, NodeCost

_MOST = (1 << 63) - 1
_MOST_NAMINGS = 500_000
"""Maximum estimated cost of inlining the functions of a model, which takes about four seconds."""


@without_collection()
def costs(
    ir_model: ir.Model,
    shapes: Mapping[str, Dims],
    values: Mapping[str, Array] | None = None,
    *,
    ran: Mapping[ir.Node, Sequence[Executions]] | None = None,
    sizes: Mapping[str, Dims] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ModelCost:
    """Count the operations and bytes of one run of a model.

    Args:
        ir_model: The model, from ``open_model``; it is not modified, and its large weights are not read.
        shapes: Shapes of inputs by name, as in a workload's ``Case``. An input that is not listed has the
            shape that the model declares.
        values: Known contents of inputs: lengths, counts and flags can determine the amount of work.
        ran: Executions of each node with each set of shapes, from a profile; they take precedence over the graph.
            A node's work is then that of its mean execution.
        sizes: Shapes of values of the main graph by name, for weights that are stored with padding and values of
            otherwise unknown shape.
        stop: Called at each node; counting ends if it returns true.

    Raises:
        CountingStopped: If ``stop`` returned true.
        InputError: If a name is not an input, or a shape's rank differs from the declared one.
    """
    _check(ir_model, shapes)
    counted = ir_model
    if ir_model.functions and _writable(ir_model):
        # The copy shares its tensors with the original.
        try:
            counted = ir_model.clone()
            InlinePass()(counted)
        except (ir.passes.PassError, RuntimeError):
            # A function of another opset, or an inconsistent graph: calls then count as operators without a
            # formula.
            counted = ir_model
    counter = GraphCounter(counted, shapes, values, ran, sizes)
    counter.stop = stop
    records = tuple(counter.graph(counted.graph, ""))
    sizes_of = [(tensor.dtype, tensor.shape.numpy()) for tensor in parameters(ir_model)]
    executed = [n for n in records if n.times]
    return ModelCost(
        flops=_sum(n.flops * n.times for n in executed),
        macs=_sum((n.macs or 0) * n.times for n in executed),
        bytes_read=_sum(n.bytes_read * n.times for n in executed),
        bytes_written=_sum(n.bytes_written * n.times for n in executed),
        parameters=_sum(math.prod(dims) for _, dims in sizes_of),
        # String tensors have no fixed size and take part in no arithmetic.
        parameter_bytes=_sum(n_bytes(dtype, dims) or 0 for dtype, dims in sizes_of),
        nodes=records,
        unknown=dict(Counter(n.note for n in executed if not n.known).most_common()),
        notes=tuple(_notes(executed)),
    )


def _writable(model: ir.Model) -> bool:
    """Return whether all functions can be inlined within seconds; the time grows with the square of the copies."""
    n = copies(model)
    return sum(n[name] ** 2 * len(function) for name, function in model.functions.items()) < _MOST_NAMINGS


def _sum(numbers: Iterable[int]) -> int:
    """Return the sum, limited to the largest integer in documents, which only implausible files exceed."""
    return min(sum(numbers), _MOST)


def _check(model: ir.Model, shapes: Mapping[str, tuple[int, ...]]) -> None:
    inputs = {value.name or "": value for value in model.graph.inputs}
    for name, shape in shapes.items():
        if name not in inputs:
            names = ", ".join(repr(n) for n in list(inputs)[:10]) or "none"
            raise InputError(f"The model has no input {name!r}.", where=name, do=f"Its inputs are: {names}.")
        declared = inputs[name].shape
        tensor = isinstance(inputs[name].type, ir.TensorType)
        if tensor and declared is not None and len(declared.dims) != len(shape):
            raise InputError(
                f"The shape {list(shape)} has {len(shape)} dimensions, but the input has {len(declared.dims)}.",
                where=name,
                do="Pass one size for each dimension.",
            )


def _notes(executed: list[NodeCost]) -> Iterator[str]:
    """Yield the assumptions about branches, loops and sequences of unknown length, for executed nodes."""
    for node in executed:
        if node.note and node.domain in STANDARD and node.op_type in CONTROL_FLOW | RECURRENT:
            yield (
                f"{node.op_type} {node.name!r}: {node.note}" if node.name else f"{node.op_type}: {node.note}"
            )
