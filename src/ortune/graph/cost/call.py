"""Input and output types of cost formulas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.attributes import float_of, int_of, ints_of, text_of
from ortune.graph.shapes.single_nodes import Dims

MOST_WORK = 1 << 60
"""Maximum plausible number of operations or bytes of one node per run; larger numbers mean corrupt sizes."""

_Int = int
_Float = float


class Uncounted(Exception):
    """A node that cannot be counted; the message is the reason and becomes the record's note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The work of one execution of a node.

    Attributes:
        flops: Floating-point (or integer) operations; a multiply-add is two.
        macs: Number of multiply-adds included in ``flops``; None for operators that do not consist of multiply-adds.
        read, written: Bytes read and written; None if each input is read once and each output is written once.
        note: Remark for users about the count.
    """

    flops: int = 0
    macs: int | None = None
    read: int | None = None
    written: int | None = None
    note: str = ""


Formula = Callable[["Call"], Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class Executions:
    """Executions of a node with one set of shapes, from a profile; omitted inputs and outputs are not listed."""

    inputs: tuple[Dims, ...]
    outputs: tuple[Dims, ...]
    times: int = 1


def no_work(call: Call) -> Count:
    """Return the count of an operator that only reads each input once and writes each output once."""
    return Count()


def work(operations: Callable[[Call], int]) -> Formula:
    """Return a formula that counts ``operations``, none of which are multiply-adds."""
    return lambda call: Count(flops=operations(call))


def products(inner: Callable[[Call], int], extra: Callable[[Call], int] = lambda call: 0) -> Formula:
    """Return a formula with ``inner`` multiply-adds and ``extra`` other operations per output element."""

    def formula(call: Call) -> Count:
        outputs = call.n_out()
        macs = outputs * inner(call)
        return Count(flops=2 * macs + extra(call) * outputs, macs=macs)

    return formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One execution of a node, with the known shapes, types and contents of its operands.

    Attributes:
        node: The node.
        inputs, outputs: Shapes; None if unknown or omitted.
        input_bits, output_bits: Bits per stored element; None if the type is unknown or has no fixed size.
        values: Contents of small, known inputs, by position.
        reasons, out_reasons: Reasons for unknown input shapes, and for unknown output shapes, by position.
        opset: Opset version of the node's domain.
    """

    node: ir.Node
    inputs: Sequence[Dims | None]
    outputs: Sequence[Dims | None]
    input_bits: Sequence[float | None]
    output_bits: Sequence[float | None]
    values: Mapping[int, NDArray[np.generic]]
    reasons: Mapping[int, str]
    out_reasons: Mapping[int, str]
    opset: int = 1

    def has(self, position: int) -> bool:
        """Return whether an input is present."""
        return position < len(self.node.inputs) and self.node.inputs[position] is not None

    def shape(self, position: int) -> Dims:
        """Return the shape of an input.

        Raises:
            Uncounted: If the input is omitted or its shape is unknown.
        """
        if not self.has(position):
            raise Uncounted(f"input {position} is missing")
        shape = self.inputs[position]
        if shape is None:
            raise Uncounted(self.reasons.get(position) or f"the shape of input {position} is unknown")
        return shape

    def dim(self, position: int, axis: int) -> int:
        """Return one dimension of an input.

        Raises:
            Uncounted: If the shape is unknown or has no such axis.
        """
        shape = self.shape(position)
        if not -len(shape) <= axis < len(shape):
            raise Uncounted(f"input {position} has {len(shape)} dimensions, too few for {self.node.op_type}")
        return shape[axis]

    def out(self, position: int = 0) -> Dims:
        """Return the shape of an output.

        Raises:
            Uncounted: If the shape is unknown.
        """
        shape = self.outputs[position] if position < len(self.outputs) else None
        if shape is None:
            raise Uncounted(self.out_reasons.get(position) or f"the shape of output {position} is unknown")
        return shape

    def n_in(self, position: int = 0) -> int:
        """Count the elements of an input."""
        return math.prod(self.shape(position))

    def n_out(self, position: int = 0) -> int:
        """Count the elements of an output."""
        return math.prod(self.out(position))

    def int(self, name: str, default: _Int = 0) -> _Int:
        """Return an integer attribute, or the default."""
        self._require(name, ir.AttributeType.INT)
        return int_of(self.node, name, default)

    def ints(self, name: str) -> list[_Int] | None:
        """Return a list of integers from an attribute; None if it is missing."""
        self._require(name, ir.AttributeType.INTS)
        return ints_of(self.node, name)

    def text(self, name: str, default: str = "") -> str:
        """Return a string attribute, or the default."""
        self._require(name, ir.AttributeType.STRING)
        return text_of(self.node, name, default)

    def float(self, name: str, default: _Float) -> _Float:
        """Return a float attribute, or the default."""
        self._require(name, ir.AttributeType.FLOAT)
        return float_of(self.node, name, default)

    def _require(self, name: str, kind: ir.AttributeType) -> None:
        attribute = self.node.attributes.get(name)
        if attribute is not None and attribute.type != kind:
            raise Uncounted(f"the attribute {name} does not have the type that {self.node.op_type} requires")

    def bytes_in(self, position: _Int) -> _Int:
        """Return the stored bytes of an input; 0 if it is omitted or its elements have no fixed size."""
        if not self.has(position):
            return 0
        bits = self.input_bits[position]
        return 0 if bits is None else math.ceil(self.n_in(position) * bits / 8)

    def bytes_out(self, position: _Int = 0) -> _Int:
        """Return the bytes of an output; 0 if it is omitted or its elements have no fixed size."""
        if position >= len(self.node.outputs) or not self.node.outputs[position].name:
            return 0
        bits = self.output_bits[position]
        return 0 if bits is None else math.ceil(self.n_out(position) * bits / 8)
