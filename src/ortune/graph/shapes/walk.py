"""Constraints of a graph on its input sizes: equal dimensions, index ranges, and impossible sizes.

A walk in topological order keeps each value's shape as linear expressions over the inputs' symbols, and the contents
of small integer tensors (shape arithmetic). If an operator requires two dimensions to be equal (MatMul, Gemm, Conv
channels, Concat ...), the equation is solved, or recorded as a clash if it cannot hold. With every symbol known, the
same walk checks a choice of sizes without running the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.graph.constants import SMALL, constant, constant_tensor, stored
from ortune.graph.shapes.symbols import Dim, Size, size_of, within

Shape = tuple[Dim, ...]

_MAX_CONTENT = 64
"""Maximum number of elements of an integer tensor whose contents are tracked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFacts:
    """The result of a walk: solved symbols, limits, and a clash if there is one.

    Attributes:
        solution: Symbols that follow from other symbols, each with its expression.
        rows: For each input with indices, by name, the number of rows that its values select from (exclusive bound).
        limits: (size, rows) pairs: the size must not exceed the number of rows (of a position table).
        held: Symbols with only one accepted size, each with the node that requires it.
        clash: The first constraint that cannot hold; "" if there is none.
    """

    solution: Mapping[str, Size]
    rows: Mapping[str, int]
    limits: tuple[tuple[Size, int], ...]
    held: Mapping[str, ir.Node]
    clash: str


@dataclass(slots=True)
class Walk:
    """The state of one walk, which operators read and extend; ``shapes`` contains given and computed shapes."""

    keep: Callable[[str], int]
    defaults: bool = True
    symbols: set[str] = field(default_factory=set)
    bound: dict[str, Size] = field(default_factory=dict)
    held: dict[str, ir.Node] = field(default_factory=dict)
    shapes: dict[ir.Value, Shape] = field(default_factory=dict)
    contents: dict[ir.Value, Shape] = field(default_factory=dict)
    uppers: dict[ir.Value, Size] = field(default_factory=dict)
    sources: dict[ir.Value, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    limits: list[tuple[Size, int]] = field(default_factory=list)
    clash: str = ""
    node: ir.Node | None = None
    soft: bool = False

    def substitute(self, size: Size) -> Size:
        """Return a size with every solved symbol replaced."""
        while size.terms and self.bound:
            solved = [(s, f) for s, f in size.terms if s in self.bound]
            if not solved:
                return size
            for symbol, factor in solved:
                size = size.plus(Size.from_symbol(symbol), -factor).plus(self.bound[symbol], factor)
        return size

    def equal(self, a: Dim, b: Dim) -> Dim:
        """Add the constraint that two dimensions are equal, and return the more specific of the two."""
        if a is None or b is None:
            return a if b is None else b
        a, b = self.substitute(a), self.substitute(b)
        difference = Size() if a == b else a.plus(b, -1)  # most are equal
        if not difference.terms and not difference.add:
            return a
        # A constraint inside a branch or a loop may never apply, so it is ignored.
        if self.soft:
            return a
        # Only a symbol with factor 1, or the only one, can be solved for without fractions.
        single = [(s, f) for s, f in difference.terms if abs(f) == 1 or len(difference.terms) == 1]
        if not single:
            if not difference.terms:
                self.fail(f"{a.value} is not {b.value}")
            return a
        # The symbol with the lowest priority is eliminated, so sizes that users can choose stay free.
        symbol, factor = min(single, key=lambda term: (self.keep(term[0]), term[0]))
        # factor x symbol + rest = 0
        rest = difference.plus(Size.from_symbol(symbol), -factor)
        value = rest.times(-1).over(factor) if factor > 0 else rest.over(-factor)
        exact = rest.value is None or rest.value % factor == 0
        if value is None or not exact or (value.value is not None and value.value < 1):
            self.fail(f"no size of {symbol} makes the dimensions equal")
            return a
        self.bound[symbol] = value
        if value.value is not None and self.node is not None:
            self.held[symbol] = self.node
        return self.substitute(a)

    def fail(self, what: str) -> None:
        """Record a constraint that cannot hold; only the first is kept, and none from branches and loops."""
        if self.clash or self.soft:
            return
        self.clash = f"{self.node.op_type} {self.node.name or ''}: {what}" if self.node else what

    def shape(self, value: ir.Value | None) -> Shape | None:
        """Return a value's shape with solved symbols replaced; None if its rank is unknown.

        Computed sizes take precedence over declared numbers.
        """
        if value is None:
            return None
        shape = self.shapes.get(value)
        if shape is None:
            shape = self.declared(value)
        elif None in shape and (declared := self.declared(value)) is not None and len(declared) == len(shape):
            shape = tuple(
                d if own is None and d is not None and d.value is not None else own
                for own, d in zip(shape, declared, strict=True)
            )
        return None if shape is None else tuple(None if d is None else self.substitute(d) for d in shape)

    def declared(self, value: ir.Value) -> Shape | None:
        """Return the declared shape of a value; a symbol counts only if an input declares the same symbol."""
        if value.const_value is not None:
            return tuple(Size((), int(d)) for d in value.const_value.shape.numpy())
        if value.shape is None:
            return None
        sizes = (size_of(d, "") for d in value.shape.dims)
        return tuple(s if all(t in self.symbols for t, _ in s.terms) else None for s in sizes)

    def content(self, value: ir.Value | None) -> Shape | None:
        """Return the elements of a small integer tensor, flat; None if unknown."""
        if value is None:
            return None
        if value in self.contents:
            return tuple(None if d is None else self.substitute(d) for d in self.contents[value])
        tensor = stored(value) if self.defaults else constant_tensor(value)
        if tensor is None or tensor.dtype.numpy().kind not in "iub" or tensor.size > _MAX_CONTENT:
            return None
        array = np.asarray(tensor.numpy())
        return tuple(Size((), int(x)) for x in array.ravel())

    def constant(self, value: ir.Value | None) -> NDArray[np.generic] | None:
        """Return the array of a small constant, else None; defaults of inputs count unless the walk excludes them."""
        return constant(value, most=SMALL, defaults=self.defaults)

    def numbers(self, value: ir.Value | None) -> list[int] | None:
        """Return the elements of a small integer tensor; None unless all elements are known numbers."""
        content = self.content(value)
        if content is None or any(d is None or d.value is None for d in content):
            return None
        return [d.add for d in content if d is not None]

    def set_content(self, value: ir.Value, content: Shape | None) -> None:
        """Store a value's contents if they are known and small enough."""
        if content is not None and len(content) <= _MAX_CONTENT:
            self.contents[value] = tuple(map(within, content))

    def index(self, table: ir.Value | None, axis: int, indices: ir.Value | None) -> None:
        """Record that the values of ``indices`` select along ``axis`` of ``table``."""
        shape = self.shape(table)
        if shape is None or indices is None or not -len(shape) <= axis < len(shape):
            return
        rows = shape[axis]
        if rows is None or rows.value is None or rows.value < 1:
            return
        self.index_rows(rows.value, indices)

    def index_rows(self, rows: int, indices: ir.Value) -> None:
        """Record that the values of ``indices`` must be below ``rows``."""
        if indices in self.sources:
            name = self.sources[indices]
            self.rows[name] = min(rows, self.rows.get(name, rows))
        elif indices in self.uppers and not self.soft:
            self.limits.append((self.substitute(self.uppers[indices]), rows))


def product(shape: Shape) -> tuple[int, tuple[str, ...]] | None:
    """Return a shape's element count as (factor, repeated symbols); None if a dimension is not a monomial."""
    factor, symbols = 1, []
    for dim in shape:
        if dim is None:
            return None
        if dim.terms:
            if len(dim.terms) > 1 or dim.add:
                return None
            symbols.append(dim.terms[0][0])
            factor *= dim.terms[0][1]
        else:
            factor *= dim.add
    return factor, tuple(sorted(symbols))


def ceil_div(a: int, b: int) -> int:
    """Return ``a / b`` rounded up, in floating point."""
    return math.ceil(a / b)
