"""Cost of Einsum, counted as one loop over all of its indices."""

from __future__ import annotations

import math

from ortune.graph.cost.call import Call, Count, Formula, Uncounted


def einsum(call: Call) -> Count:
    """Count an Einsum: operands are multiplied for every index combination, and added if an index is summed over."""
    equation = call.text("equation").replace(" ", "")
    terms = equation.split("->")[0].split(",")
    if not equation or len(terms) != len(call.node.inputs):
        raise Uncounted(f"the equation {equation!r} does not fit {len(call.node.inputs)} operands")
    sizes: dict[str, int] = {}
    for position, term in enumerate(terms):
        for letter, size in zip(_letters(term, call.shape(position)), call.shape(position), strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    result = set(_result(equation, sizes))
    loop = math.prod(sizes.values())
    summed = bool(set(sizes) - result)
    # One product per additional operand, and one addition if an index is summed over.
    per_step = len(terms) - 1 + summed
    macs = loop if len(terms) == 2 and summed else None
    note = (
        "its work is counted as one loop over all indices; pairwise products may take fewer"
        if len(terms) > 2
        else ""
    )
    return Count(flops=per_step * loop, macs=macs, note=note)


def _letters(term: str, shape: tuple[int, ...]) -> list[str]:
    """Return the index of each axis of an operand; ellipsis axes are numbered from the last, as in broadcasting."""
    free = len(shape) - len(term.replace("...", ""))
    if free < 0 or (free > 0 and "..." not in term):
        raise Uncounted(f"the term {term!r} does not fit an operand of {len(shape)} dimensions")
    left, _, right = term.partition("...")
    return [*left, *(f"...{axis}" for axis in range(free, 0, -1)), *right]


def _result(equation: str, sizes: dict[str, int]) -> list[str]:
    """Return the indices of the output, which an equation without "->" defines implicitly."""
    axes = [letter for letter in sizes if letter.startswith("...")]
    if "->" not in equation:
        # Without an arrow, the output has every index that occurs once.
        return axes + [letter for letter in sizes if equation.count(letter) == 1]
    kept = equation.split("->")[1]
    return [*kept.replace("...", ""), *(axes if "..." in kept else ())]


FORMULAS: dict[str, dict[str, Formula]] = {"": {"Einsum": einsum}}
