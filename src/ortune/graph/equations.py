"""The indices of an Einsum equation, by axis of its operands and of its result."""

from __future__ import annotations

from collections.abc import Sequence

ANY = "..."
"""The part of a term for all axes without a letter."""


def operands(equation: str, ranks: Sequence[int]) -> list[list[str]] | None:
    """Return the index of each axis of each operand; None if the equation does not fit operands of these ranks.

    Axes without a letter are numbered from the last, as in broadcasting: "...2", "...1".
    """
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    if len(terms) != len(ranks):
        return None
    found = []
    for term, rank in zip(terms, ranks, strict=True):
        left, dots, right = term.partition(ANY)
        free = rank - len(left) - len(right)
        if free < 0 or (free > 0 and not dots):
            return None
        found.append([*left, *(f"{ANY}{axis}" for axis in range(free, 0, -1)), *right])
    return found


def result(equation: str, indices: Sequence[Sequence[str]]) -> list[str]:
    """Return the index of each axis of the result; without an arrow, the letters that occur once, in their order.

    Args:
        equation: The equation.
        indices: The indices of the operands, from ``operands``.
    """
    free = max(sum(index.startswith(ANY) for index in each) for each in indices)
    anys = [f"{ANY}{axis}" for axis in range(free, 0, -1)]
    left, arrow, kept = equation.replace(" ", "").partition("->")
    if not arrow:
        letters = sorted({letter for letter in left if letter.isalpha()})
        return anys + [letter for letter in letters if left.count(letter) == 1]
    before, dots, after = kept.partition(ANY)
    return [*before, *(anys if dots else ()), *after]
