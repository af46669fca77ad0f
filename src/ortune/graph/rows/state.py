"""What is known of the rows of a batch in one value, and how a node sees it."""

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
    """What is known of the rows in a value.

    Attributes:
        axis: The axis that they are on, first in it if it holds more; None if there are none, or the axis is lost.
        spread: Whether a row is spread over that axis and all before it, as after a Reshape that puts another size
            first.
        lost: Whether the value depends on rows, on an axis that is not known.
        varies: Whether the value depends on what is fed.
        mixed: The nodes through which it depends on several rows at once.
    """

    axis: int | None = None
    spread: bool = False
    lost: bool = False
    varies: bool = False
    mixed: frozenset[ir.Node] = frozenset()

    @property
    def there(self) -> bool:
        """Whether the value depends on rows."""
        return self.axis is not None or self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One node with the rows of its inputs.

    Attributes:
        symbols: Names of the size of the batch among ``values``.
    """

    node: ir.Node
    inputs: list[Rows]
    values: Values
    symbols: frozenset[str]

    def rows(self, position: int = 0) -> Rows:
        """Return the rows of an input."""
        return self.inputs[position] if position < len(self.inputs) else Rows()

    def axis(self, position: int = 0) -> int | None:
        """Return the axis of the rows of an input."""
        return self.rows(position).axis

    def rank(self, position: int = 0) -> int | None:
        """Return the rank of an input; None if it is unknown."""
        dims = self.values.dims(input_of(self.node, position))
        return None if dims is None else len(dims)

    def rank_out(self) -> int | None:
        """Return the rank of the first output; None if it is unknown."""
        dims = self.values.dims(self.node.outputs[0])
        return None if dims is None else len(dims)

    def axes(self, position: int) -> list[int] | None:
        """Return the axes that an attribute or an input names: None for no such input, [] for an unknown one."""
        named = ints_of(self.node, "axes")
        if named is None and (given := input_of(self.node, position)) is not None:
            numbers = constant(given)
            named = [int(n) for n in numbers.reshape(-1)] if numbers is not None else []
        return named


Axis = int | None
LOST = -1
"""In place of an axis: there are rows, on an axis that is not known."""


@dataclass(frozen=True, slots=True)
class RowAxis:
    """The axis of the rows in an output, ``LOST``, or None for no rows.

    Attributes:
        meets: Whether the node mixes rows.
        spread: As that of ``Rows``.
    """

    axis: Axis = None
    meets: bool = False
    spread: bool = False


GONE = RowAxis(LOST)
Handler = Callable[[Step], "RowAxis | list[RowAxis]"]
