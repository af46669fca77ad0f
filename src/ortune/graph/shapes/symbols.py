"""Sizes of dynamic dimensions: linear expressions over symbols, and the meaning of dimension names."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir


@dataclass(frozen=True, slots=True)
class Size:
    """A dimension as a linear expression over symbols, e.g. ``past + 1``; a size without terms is a number.

    Attributes:
        terms: (symbol, factor) pairs, sorted by symbol; no factor is 0.
        add: The constant part.
    """

    terms: tuple[tuple[str, int], ...] = ()
    add: int = 0

    @classmethod
    def from_symbol(cls, symbol: str) -> Size:
        """Return the size that consists of one symbol."""
        return cls(((symbol, 1),), 0)

    @property
    def value(self) -> int | None:
        """The size as a number; None if it contains a symbol."""
        return None if self.terms else self.add

    def plus(self, other: Size, factor: int = 1) -> Size:
        """Return ``self + factor * other``."""
        factors = dict(self.terms)
        for symbol, times in other.terms:
            factors[symbol] = factors.get(symbol, 0) + factor * times
        return Size(tuple(sorted((s, f) for s, f in factors.items() if f)), self.add + factor * other.add)

    def shift(self, number: int) -> Size:
        """Return ``self + number``."""
        return Size(self.terms, self.add + number)

    def times(self, factor: int) -> Size:
        """Return ``factor * self``."""
        return Size().plus(self, factor)

    def over(self, divisor: int) -> Size | None:
        """Return ``self // divisor`` if it is a number or all factors are divisible; None otherwise."""
        if divisor == 0:
            return None
        if not self.terms:
            return Size((), self.add // divisor)
        if self.add % divisor or any(f % divisor for _, f in self.terms):
            return None
        return Size(tuple((s, f // divisor) for s, f in self.terms), self.add // divisor)

    def at(self, values: Mapping[str, int]) -> int:
        """Evaluate the size for given values of its symbols."""
        return self.add + sum(values[s] * f for s, f in self.terms)


Dim = Size | None
"""A dimension during a walk over the graph; None if the size is unknown."""

MOST_SIZE = 1 << 62
"""Maximum valid size; the limit also bounds the numbers in graphs that square a size repeatedly."""

LONGEST_NAME = 256
"""Maximum length of dimension names that are interpreted; longer names are opaque."""


def within(dim: Dim) -> Dim:
    """Return a dimension, or None if one of its numbers exceeds ``MOST_SIZE``."""
    if dim is None or abs(dim.add) > MOST_SIZE:
        return None
    return None if dim.terms and any(abs(factor) > MOST_SIZE for _, factor in dim.terms) else dim


_ANONYMOUS = re.compile(
    r"|\?|-?\d+|none|.*\[\d+\]|unk__\d+|(p2o\.)?dynamicdimension\.\d+|dyn(amic)?[_.]?\w*\d*|unknown\w*"
)
_NOT_SHARED = re.compile(r"|\?|-?\d+|none", re.IGNORECASE)

# The first match wins: "past_sequence_length" is past, "encoder_sequence_length" is encoder, "batch" precedes all.
_KINDS: tuple[tuple[str, str], ...] = (
    ("batch", r"^(n|b|bs|bsz|bsize)$|batch"),
    ("total", r"past.*\+|\+.*past|^total|_total|kv_(seq|len)|full_seq|mask.*len"),
    ("past", r"past|cache|history|prev"),
    ("encoder", r"encoder|^enc|^src|source"),
    ("height", r"^h$|^height|_height|height$|^rows$"),
    ("width", r"^w$|^width|_width|width$|^cols$"),
    ("channels", r"^c$|channel"),
    ("samples", r"^samples|audio|wave|num_samples|n_samples"),
    ("frames", r"frame|mel|spectro"),
    ("points", r"point|box|anchor|query|queries"),
    ("heads", r"heads?$"),
    ("seq", r"seq|token|len|text|time|^[tls]$|phoneme|word|step"),
)

DEFAULT_SIZES: dict[str, int] = {
    "batch": 1,
    "seq": 128,
    "past": 128,
    "encoder": 128,
    "height": 224,
    "width": 224,
    "channels": 3,
    "samples": 16000,
    "frames": 100,
    "points": 2,
    "heads": 1,
    "other": 64,
}
"""Default size for each kind of dimension. The kind "total" is the sum of "past" and "seq"."""


def is_anonymous(symbol: str) -> bool:
    """Return whether a dimension's name carries no meaning ("", "?", "unk__12", our own "x[2]")."""
    return len(symbol) <= LONGEST_NAME and _ANONYMOUS.fullmatch(symbol.lower()) is not None


def kind_of_name(symbol: str) -> str:
    """Classify a dimension's name ("batch", "seq", "past", ...); return "" for an unknown kind."""
    low = symbol.lower()
    if len(low) > LONGEST_NAME or is_anonymous(low):
        return ""
    return next((kind for kind, pattern in _KINDS if re.search(pattern, low)), "")


def has_chosen_name(symbol: str) -> bool:
    """Return whether a person chose a dimension's name: a known kind or a word ("num_edges", not "s0")."""
    word = re.fullmatch(r"[a-z][a-z_]+[a-z]", symbol.lower()[:LONGEST_NAME]) is not None
    return bool(kind_of_name(symbol)) or (word and not is_anonymous(symbol))


def parse_sum(text: str) -> Size | None:
    """Parse a dimension such as ``past_sequence_length + 1`` or ``2*batch`` as a linear expression.

    Returns:
        The expression; None if the text is a single name or number, or not a linear expression, such as a division.
    """
    if len(text) > LONGEST_NAME:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (
        SyntaxError,
        ValueError,
        MemoryError,
        RecursionError,
    ):  # also zero bytes, and brackets in brackets
        return None
    return _linear(tree) if isinstance(tree, ast.BinOp) else None


def _linear(tree: ast.expr) -> Size | None:
    match tree:
        case ast.Constant(value=int() as number):
            return Size((), number)
        case ast.Name(id=name):
            return Size.from_symbol(name)
        case ast.BinOp(left=left, op=operator, right=right):
            a, b = _linear(left), _linear(right)
            return None if a is None or b is None else within(_combined(operator, a, b))
    return None


def _combined(operator: ast.operator, a: Size, b: Size) -> Size | None:
    match operator:
        case ast.Add():
            return a.plus(b)
        case ast.Sub():
            return a.plus(b, -1)
        case ast.Mult() if a.value is not None:
            return b.times(a.value)
        case ast.Mult() if b.value is not None:
            return a.times(b.value)
    return None


def quotient(text: str) -> tuple[str, int] | None:
    """Split a dimension such as ``encoder_sequence_length / 2`` into (symbol, divisor); None for other dimensions."""
    if len(text) > LONGEST_NAME:
        return None
    match = re.fullmatch(r"\s*(?:floor\()?\s*([A-Za-z_]\w*)\s*//?\s*(\d+)\s*\)?\s*", text)
    return (match[1], int(match[2])) if match and int(match[2]) else None


def size_of(dim: int | ir.SymbolicDim, place: str) -> Size:
    """Convert a declared dimension to a Size.

    Args:
        dim: The dimension as in onnx_ir; negative numbers count as unknown.
        place: Unique symbol for an unnamed dimension, ``input[axis]``.
    """
    if isinstance(dim, int):
        return Size((), dim) if dim >= 0 else Size.from_symbol(place)
    name = str(dim.value or "")
    if _NOT_SHARED.fullmatch(name):
        return Size.from_symbol(place)
    return parse_sum(name) or Size.from_symbol(name)


def input_sizes(value: ir.Value) -> tuple[Size, ...] | None:
    """Return the declared shape of a graph input; None if it has none."""
    if value.shape is None:
        return None
    return tuple(size_of(dim, f"{value.name}[{axis}]") for axis, dim in enumerate(value.shape.dims))


def feedable(model: ir.Model) -> list[ir.Value]:
    """List the inputs that must be fed: graph inputs that are not initializers (IR version 3 lists both)."""
    return [v for v in model.graph.inputs if v.name not in model.graph.initializers]
