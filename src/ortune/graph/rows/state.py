"""The rows of a batch in one value, and access to a node's inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import ints_of
from ortune.graph.constants import constant
from ortune.graph.nodes import input_of
from ortune.graph.shapes.known import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The position of the batch rows in a value.

    Attributes:
        axis: The row axis, on which rows are outermost; None if there are no rows, or the axis is unknown.
        spread: Whether rows are spread over ``axis`` and all axes before it, as after a Reshape that puts a different
            size first.
        lost: Whether the value depends on rows, but the axis is unknown.
        varies: Whether the value depends on fed inputs.
        mixed: Nodes through which the value depends on several rows at once.
    """

    axis: int | None = None
    spread: bool = False
    lost: bool = False
    varies: bool = False
    mixed: frozenset[ir.Node] = frozenset()

    @property
    def depends_on_rows(self) -> bool:
        """Whether the value depends on rows."""
        return self.axis is not None or self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStep:
    """A node with the row states of its inputs.

    Attributes:
        symbols: Names of the batch size in ``values``.
    """

    node: ir.Node
    inputs: list[Rows]
    values: Values
    symbols: frozenset[str]

    def rows(self, position: int = 0) -> Rows:
        """Return the row state of an input."""
        return self.inputs[position] if position < len(self.inputs) else Rows()

    def axis(self, position: int = 0) -> int | None:
        """Return the row axis of an input; None if it has no rows, or the axis is unknown."""
        return self.rows(position).axis

    def holds_rows_alone(self) -> bool:
        """Return whether the row axis of the first input has one position per row."""
        dims, axis = self.values.dims(input_of(self.node, 0)), self.axis()
        return dims is not None and axis is not None and dims[axis] in self.symbols

    def rank(self, position: int = 0) -> int | None:
        """Return the rank of an input; None if it is unknown."""
        dims = self.values.dims(input_of(self.node, position))
        return None if dims is None else len(dims)

    def rank_out(self) -> int | None:
        """Return the rank of the first output; None if it is unknown."""
        dims = self.values.dims(self.node.outputs[0])
        return None if dims is None else len(dims)

    def axes(self, position: int) -> list[int] | None:
        """Return axes from an attribute or an input; None if both are missing, [] if the input is not constant."""
        named = ints_of(self.node, "axes")
        if named is None and (given := input_of(self.node, position)) is not None:
            numbers = constant(given)
            named = [int(n) for n in numbers.reshape(-1)] if numbers is not None else []
        return named


Axis = int | None
LOST = -1
"""Value for rows on an unknown axis."""


@dataclass(frozen=True, slots=True)
class RowAxis:
    """The row axis of an output: an axis, ``LOST``, or None if there are no rows.

    Attributes:
        meets: Whether the node combines rows.
        spread: See ``Rows.spread``.
    """

    axis: Axis = None
    meets: bool = False
    spread: bool = False


GONE = RowAxis(LOST)
Handler = Callable[[RowStep], "RowAxis | list[RowAxis]"]
