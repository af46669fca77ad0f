"""Formatting of names and numbers in the sentences of rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ortune.graph.model import graphs
from ortune.records import ProfiledNode, fused_with

KINDS = 3
NAMED = 3
_NAMES = 2
_NAME_LENGTH = 32
_LONGEST = 100
_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3))

UNWRITTEN = "use another release: outputs depend on what memory held before, so a kernel does not write them"

name_of = graphs.name_of


def percent(share: float) -> str:
    """Format a fraction in whole percent; a positive fraction below 1 % gives "under 1 %"."""
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def duration(nanoseconds: float) -> str:
    """Format a time with three significant digits and a suitable unit: "52.6 us", "1.2 ms", "3 s"."""
    unit, size = next(((u, n) for u, n in _UNITS if abs(nanoseconds) >= 0.9995 * n), _UNITS[-1])
    return f"{nanoseconds / size:.3g} {unit}"


def plural(count: int, word: str) -> str:
    """Return a word in the singular or plural for a count."""
    return word if count == 1 else f"{word}s"


def are(count: int) -> str:
    """Return "is" or "are" for a count."""
    return "is" if count == 1 else "are"


def short(name: str, length: int = _NAME_LENGTH) -> str:
    """Return a name, with its middle elided if it is longer than ``length``."""
    return name if len(name) <= length else f"{name[: length // 3]}...{name[-(length - length // 3 - 3) :]}"


def listed(names: Iterable[str], most: int = _NAMES) -> str:
    """Join the first ``most`` names, shortened, and the number of further names."""
    all_names = list(names)
    more = len(all_names) - most
    return ", ".join(_shorten_distinct(all_names[:most])) + (f", {more} more" if more > 0 else "")


def _shorten_distinct(names: Sequence[str]) -> list[str]:
    """Shorten names as far as they remain distinct."""
    different = len(set(names))
    # Names of equal layers differ in digits in the middle, which is the part that is elided.
    for length in range(_NAME_LENGTH, _LONGEST, 8):
        shortened = [short(name, length) for name in names]
        if len(set(shortened)) == different:
            return shortened
    return [short(name, _LONGEST) for name in names]


def counted(nodes: Sequence[ir.Node]) -> str:
    """Format counts of operators with the first names: "2 If, 1 Loop (/a, /b, 1 more)"."""
    return counted_names([(name_of(node), node.op_type) for node in nodes])


def subject(nodes: Sequence[ir.Node], one: str, several: str) -> str:
    """Format counted nodes with the verb of a sentence: "2 If (/a, /b) run"."""
    return f"{counted(nodes)} {one if len(nodes) == 1 else several}"


def counted_names(operators: Sequence[tuple[str, str]]) -> str:
    """Format counts of operators with the first names, from pairs of name and operator."""
    counts = Counter(op for _, op in operators)
    kinds = listed((f"{n} {op}" for op, n in counts.most_common()), KINDS)
    return f"{kinds} ({listed(name for name, _ in operators)})"


def called(node: ProfiledNode) -> str:
    """Return the user's name for a profiled node, with the nodes it is fused with."""
    name = node.originals[0] if node.originals else node.name
    return f"{short(name, _LONGEST)} {fused_with(node.originals)}".rstrip()


def place(nodes: Iterable[ProfiledNode]) -> tuple[str, ...]:
    """Return the user's names for profiled nodes, or the optimized graph's names if unknown."""
    return tuple(name for node in nodes for name in node.originals or (node.name,))
