"""Classification of a node's self time into a closed set of categories."""

from __future__ import annotations

from ortune.catalogue.providers import profile_names
from ortune.records import CategoryName
from ortune.trace.table import CONTROL_FLOW, Nodes
from ortune.trace.tensors import elements, tensors

LAYOUT = frozenset(
    (
        "Cast", "CastLike", "BitCast", "Transpose", "ReorderInput", "ReorderOutput", "QuantizeLinear",
        "DequantizeLinear", "DynamicQuantizeLinear",
    )
)  # fmt: skip
"""Operators that only change the type or layout in which values are stored."""

DEVICES = profile_names(lambda p: p.queues)
"""Execution providers that queue work on a device; a run waits for that work at its end, outside all nodes."""

SMALL = 64
"""Maximum number of elements of an integer tensor that counts as a shape or index instead of data."""
_WHOLE = frozenset(("int64", "int32", "bool", "uint64", "uint32"))


SIZES = ("Shape", "Size")
"""Operators with which shape arithmetic begins."""


def category(op_type: str, inputs: str, outputs: str, *, sized: bool = True) -> CategoryName:
    """Return the category of a node.

    Args:
        op_type: The operator.
        inputs: The input tensors, as in the profile.
        outputs: The output tensors, as in the profile.
        sized: Whether the model has a Shape or Size node; otherwise casts of a few integers are not shape arithmetic.
    """
    if op_type.startswith("Memcpy"):
        return "device-copies"
    if op_type in CONTROL_FLOW:
        return "control-flow"
    if op_type in SIZES:
        return "shape-arithmetic"
    n_written = _whole_elements(outputs) if sized or op_type not in LAYOUT else None
    if n_written is not None and n_written <= SMALL:
        # Shape arithmetic has at most two operands of SMALL elements each.
        read = _whole_elements(inputs)
        if op_type == "ConstantOfShape" or (read is not None and read <= 2 * SMALL):
            return "shape-arithmetic"
    return "casts-and-layout" if op_type in LAYOUT else "kernels"


def categories(nodes: Nodes) -> list[CategoryName]:
    """Return the category of each node, in the order of ``Trace.name.texts``."""
    sized = any(op_type in SIZES for op_type in nodes.op_type)
    return [
        category(*node, sized=sized) for node in zip(nodes.op_type, nodes.inputs, nodes.outputs, strict=True)
    ]


def _whole_elements(text: str) -> int | None:
    """Return the total elements of the tensors in a text; None unless the text is valid and all are integer tensors."""
    described = tensors(text)
    if not described or any(dtype not in _WHOLE for dtype, _ in described):
        return None
    return sum(elements(shape) or 0 for _, shape in described)
