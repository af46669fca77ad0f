"""Facts about one node for the providers' checks: its version, and the shapes, types and constants of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import numpy as np
import onnx
import onnx_ir as ir

from ortune.engines.partitions.units import Unit
from ortune.graph.attributes import float_of, int_of, ints_of, text_of
from ortune.graph.constants import SMALL, constant, is_constant
from ortune.graph.model.graphs import type_name
from ortune.graph.model.operators import STANDARD
from ortune.graph.nodes import operator
from ortune.graph.shapes.known import Values
from ortune.records import NodeReason
from ortune.records.partition import ReasonCode

Check = Iterator[NodeReason | None]
"""Results of a check: None for each constraint that is met. The first reason ends the check, so that later constraints
may rely on earlier constraints."""


def reason(code: ReasonCode, detail: str = "") -> NodeReason:
    """Return a reason to leave a node on the CPU."""
    return NodeReason(code=code, detail=detail)


class NodeFacts:
    """Facts about one node. The inputs of a quantized node are those of its DequantizeLinear nodes.

    Methods named after a constraint return None if it is met, and otherwise the reason.
    """

    def __init__(self, unit: Unit, values: Values, opset: int) -> None:
        self.unit, self.node, self.values = unit, unit.target, values
        self._opset = opset

    def of_unit(self, unit: Unit) -> NodeFacts:
        """Return the facts about another unit of the same graph."""
        return NodeFacts(unit, self.values, self._opset)

    @property
    def operator(self) -> str:
        """The operator, with its domain unless that is ONNX's."""
        return operator(self.node)

    @property
    def quantized(self) -> bool:
        """Whether the node includes its QDQ nodes."""
        return bool(self.unit.quantizers)

    @cached_property
    def version(self) -> int:
        """The opset version in which the operator's used definition was introduced; 1 if unknown."""
        node, domain = self.node, "" if self.node.domain in STANDARD else self.node.domain
        opset = node.version or self._opset
        if not onnx.defs.has(node.op_type, opset, domain):
            return 1
        return int(onnx.defs.get_schema(node.op_type, opset, domain).since_version)

    # --- inputs ------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of inputs up to the last input that is present."""
        places = [i for i, value in enumerate(self.node.inputs) if value is not None]
        return places[-1] + 1 if places else 0

    def value(self, place: int) -> ir.Value | None:
        """Return the input at an index; None if it is omitted."""
        before = self.unit.dequantized.get(place)
        if before is not None:
            return before.inputs[0]
        return self.node.inputs[place] if place < len(self.node.inputs) else None

    def has(self, place: int) -> bool:
        """Return whether the input is present."""
        return self.value(place) is not None

    def shape(self, place: int) -> tuple[int | None, ...]:
        """Return the shape of an input, with None for each dynamic size; () if the rank is unknown."""
        return self.values.sizes(self.value(place)) or ()

    def output_shape(self) -> tuple[int | None, ...]:
        """Return the shape of the first output, with None for each dynamic size; () if the rank is unknown."""
        return self.values.sizes(self.node.outputs[0]) or ()

    def rank(self, place: int) -> int | None:
        """Return the number of dimensions of an input; None if unknown."""
        dims = self.values.dims(self.value(place))
        return None if dims is None else len(dims)

    def dtype(self, place: int) -> ir.DataType | None:
        """Return the element type of an input; None if unknown."""
        return self.values.inferred(self.value(place)).dtype

    def numbers(self, place: int) -> np.ndarray:
        """Return the elements of a constant input as stored; an empty array if it is omitted, large or not constant."""
        own = constant(self.value(place), most=SMALL)
        return own.reshape(-1) if own is not None else np.zeros(0)

    # --- attributes --------------------------------------------------------------------------------------

    def integer(self, name: str, default: int) -> int:
        """Return the value of an integer attribute; ``default`` if the node does not have it."""
        return int_of(self.node, name, default)

    def integers(self, name: str) -> list[int]:
        """Return an attribute that is a list of integers; [] if it is absent."""
        return ints_of(self.node, name) or []

    def real(self, name: str, default: float) -> float:
        """Return the value of a float attribute; ``default`` if the node does not have it."""
        return float_of(self.node, name, default)

    def text(self, name: str, default: str) -> str:
        """Return the value of a string attribute; ``default`` if the node does not have it."""
        return text_of(self.node, name, default)

    # --- constraints -----------------------------------------------------------------------------------------

    def least_opset(self, least: int) -> NodeReason | None:
        """Check that the operator's version is ``least`` or newer."""
        return reason("old-opset", f"{self.version} < {least}") if self.version < least else None

    def shapes_known(self, *, fixed: bool) -> Check:
        """Check that the rank of every input is known, and if ``fixed``, every size."""
        for place in range(self.count):
            if self.has(place):
                sizes = self.values.sizes(self.value(place))
                if sizes is None:
                    yield reason("unknown-shape", f"input {place}")
                elif fixed and None in sizes:
                    yield reason("dynamic-shape", f"input {place}")

    def ranked(self, place: int, *ranks: int) -> NodeReason | None:
        """Check that an input has one of these ranks."""
        rank = self.rank(place)
        return None if rank in ranks else reason("rank", f"input {place} has {rank}")

    def typed(self, place: int, types: Collection[ir.DataType]) -> NodeReason | None:
        """Check that an input has one of these element types."""
        dtype = self.dtype(place)
        if dtype in types:
            return None
        return reason(
            "element-type", f"input {place} is {type_name(dtype) if dtype is not None else 'unknown'}"
        )

    def fixed(self, *places: int) -> NodeReason | None:
        """Check that these inputs are constants, if present."""
        for place in places:
            if self.has(place) and not is_constant(self.value(place)):
                return reason("not-constant", f"input {place}")
        return None

    def one_of(self, name: str, default: str, *allowed: str) -> NodeReason | None:
        """Check that a text attribute has one of these values."""
        own = self.text(name, default)
        return None if own in allowed else reason("attribute", f"{name}={own}")

    def integer_is(self, name: str, wanted: int) -> NodeReason | None:
        """Check that an integer attribute, which is 0 by default, has the wanted value."""
        own = self.integer(name, 0)
        return None if own == wanted else reason("attribute", f"{name}={own}")

    def integers_are(self, name: str, wanted: int) -> NodeReason | None:
        """Check that all integers of an attribute are equal to ``wanted``."""
        own = self.integers(name)
        return None if all(n == wanted for n in own) else reason("attribute", f"{name}={own}")

    def without(self, name: str) -> NodeReason | None:
        """Check that the node lacks an attribute."""
        return reason("attribute", name) if name in self.node.attributes else None
