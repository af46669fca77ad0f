"""Constants: the tensors stored in a file, and which of them callers cannot override.

An initializer that is also a graph input is a default value: each call may feed a different tensor, so ONNX Runtime
does not fold or fuse nodes that depend on it. Below IR version 4, every initializer must be a graph input, but none
can be fed.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.attributes import tensor_of
from ortune.graph.evaluation import evaluate
from ortune.graph.model.graphs import NEVER_FED, op_set
from ortune.graph.nodes import is_op

Array = NDArray[np.float64]

SMALL = 4096
"""Maximum number of elements of a constant that is read as a shape, an axis or a scale; larger ones are weights."""

_DEPTH = 4
"""Maximum number of arithmetic nodes between a computed number and its stored operands."""

_ARITHMETIC = op_set("Sqrt Reciprocal Neg Identity Add Sub Mul Div Pow")
_ARITHMETIC_OPSET = 13  # these operators compute the same in every version that broadcasts

_NUMBERS = {
    "value_float": np.float32,
    "value_floats": np.float32,
    "value_int": np.int64,
    "value_ints": np.int64,
}


def is_overridable(value: ir.Value) -> bool:
    """Return whether a value is an initializer that callers can override, because it is also a graph input."""
    return value.is_initializer() and value.is_graph_input() and NEVER_FED not in value.meta


def stored(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor stored for a value: an initializer, even if it can be overridden, or a Constant's value."""
    if value is None:
        return None
    node = value.producer()
    if node is None:
        return value.const_value if value.is_initializer() else None
    if not is_op(node, "Constant"):
        return None
    for name, dtype in _NUMBERS.items():
        attribute = node.attributes.data.get(name)
        if attribute is not None and not attribute.is_ref():
            return ir.tensor(np.asarray(attribute.value, dtype))
    return tensor_of(node, "value")


def constant_tensor(value: ir.Value | None) -> ir.TensorProtocol | None:
    """Return the tensor of a true constant; None for overridable initializers and computed values."""
    return None if value is None or is_overridable(value) else stored(value)


def is_constant(value: ir.Value | None) -> bool:
    """Return whether a value is stored in the file and cannot be overridden by a caller."""
    if value is None or is_overridable(value):
        return False
    node = value.producer()
    if node is None:
        return value.is_initializer() and value.const_value is not None
    return is_op(node, "Constant")


def constant(value: ir.Value | None, *, most: int | None = None, defaults: bool = False) -> np.ndarray | None:
    """Return the array of a true constant; None for any other value.

    Args:
        value: Any value.
        most: Maximum number of elements; None is returned for larger tensors.
        defaults: Whether overridable initializers count too, for callers that never feed them.
    """
    tensor = stored(value) if defaults else constant_tensor(value)
    if tensor is None or (most is not None and (tensor.size > most or tensor.dtype == ir.DataType.STRING)):
        return None
    return np.asarray(tensor.numpy())


def one_number(value: ir.Value | None, depth: int = _DEPTH) -> np.ndarray | None:
    """Return a one-element constant, stored or computed from one-element constants; None for any other value."""
    own = constant(value, most=1)
    if own is not None or value is None or not depth:
        return own if own is not None and own.size == 1 and own.dtype.kind in "fiu" else None
    node = value.producer()
    if node is None or not is_op(node, *_ARITHMETIC):
        return None
    numbers = [one_number(source, depth - 1) for source in node.inputs]
    if any(number is None for number in numbers):
        return None
    computed = evaluate(node, _ARITHMETIC_OPSET, numbers)
    return None if computed is None else computed[0]


def scalar(value: ir.Value | None) -> float | None:
    """Return the number of a one-element constant of any rank; None for any other value."""
    own = one_number(value)
    return None if own is None else float(own.reshape(()))
