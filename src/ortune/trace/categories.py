"""Which of the closed set of categories a node's self time belongs to."""

from __future__ import annotations

from ortune.catalogue.providers import profiled
from ortune.records import CategoryName
from ortune.trace.table import CONTROL_FLOW, Nodes
from ortune.trace.tensors import elements, tensors

LAYOUT = frozenset(
    (
        "Cast", "CastLike", "BitCast", "Transpose", "ReorderInput", "ReorderOutput", "QuantizeLinear",
        "DequantizeLinear", "DynamicQuantizeLinear",
    )
)  # fmt: skip
"""Operators that change how values are stored, and nothing else."""

DEVICES = profiled(lambda p: p.queues)
"""Execution providers that hand work to a device and go on: the run waits for it at its end, outside of all nodes."""

SMALL = 64
"""Elements: up to so many integers are a shape or an index, not data."""
_WHOLE = frozenset(("int64", "int32", "bool", "uint64", "uint32"))


SIZES = ("Shape", "Size")
"""Operators from which all arithmetic on shapes begins."""


def category(op_type: str, inputs: str, outputs: str, *, sized: bool = True) -> CategoryName:
    """Return the category of a node.

    Args:
        op_type: Its operator.
        inputs: The tensors it reads, as the profile writes them.
        outputs: Those it writes.
        sized: Whether some node of the run has a size; otherwise casts of a few integers cannot be recognised.
    """
    if op_type.startswith("Memcpy"):
        return "device-copies"
    if op_type in CONTROL_FLOW:
        return "control-flow"
    if op_type in SIZES:
        return "shape-arithmetic"
    n_written = _whole_elements(outputs) if sized or op_type not in LAYOUT else None
    if n_written is not None and n_written <= SMALL:
        # Arithmetic on shapes has two operands, each of SMALL elements at most.
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
    """Return elements of all these tensors; None if one holds no integers, or nothing is known."""
    described = tensors(text)
    if not described or any(dtype not in _WHOLE for dtype, _ in described):
        return None
    return sum(elements(shape) or 0 for _, shape in described)
