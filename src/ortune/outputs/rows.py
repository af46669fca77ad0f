"""Outputs with reorderable rows: positions from TopK, boxes from NonMaxSuppression, and the values that they select."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ortune.graph.output_order import Roles
from ortune.outputs.figures import partners, units_of
from ortune.outputs.files import Array, decode, family
from ortune.outputs.findings import Findings
from ortune.outputs.slices import dead_columns, in_words

DIFFERING_SHARE = 0.01
"""Fraction of the rows that may remain unmatched, since a box may be added or dropped at a threshold."""
ENOUGH_ROWS = 4
"""Minimum number of rows of which one may remain unmatched; if the scores agree, two rows suffice."""


@dataclass(slots=True, kw_only=True)
class _Matched:
    """Result of matching the rows of two outputs.

    Attributes:
        unmatched: Number of rows without a counterpart.
        moved: Number of rows with a counterpart at a different position.
        error2, norm2: Squared norm of the differences of matched rows, and that of the reference rows.
        worst, largest: Largest difference of matched elements, and largest element of the reference.
    """

    unmatched: int = 0
    moved: int = 0
    error2: float = 0.0
    norm2: float = 0.0
    worst: float = 0.0
    largest: float = 0.0


def compare_rows(
    report: Findings,
    label: str,
    roles: Roles,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    limit: float,
) -> None:
    """Compare each row with its counterpart, which may be at a different position along the free axis.

    Up to 1 % of the rows may be unmatched. With four or more rows (two or more if all floating-point outputs agree),
    one unmatched row is always allowed, because a detection near the score threshold may appear or disappear. The
    number of rows may therefore differ too.

    Args:
        report: Receives the findings.
        label: Name of the output for messages.
        roles: Role of each axis.
        arrays: Reference and candidate.
        types: Their ONNX types.
        limit: Largest allowed difference of matching floating-point elements, as a fraction of their column's largest
            element.
    """
    scores_agree = report.floats > 0 and not report.what
    is_float = family(types[0]) == "float"
    report.floats += is_float
    old, new = (decode(np.asarray(a), t) for a, t in zip(arrays, types, strict=True))
    if not _same_sizes(old.shape, new.shape, roles):
        report.fail(f"output {label!r} has shape {list(new.shape)}, not {list(old.shape)}")
        return
    if is_float and np.isnan(new).any() and not np.isnan(old).any():
        report.fail(f"output {label!r} has NaN values and the reference has none")
        return
    tables = tuple(row_table(array, roles) for array in (old, new))
    flat = [table.reshape(table.shape[0] * table.shape[1], table.shape[2]) for table in tables]
    width, rows = flat[0].shape[-1], max(len(table) for table in flat)
    if is_float and width and (dead := dead_columns(flat[0], flat[1], axis=len(roles) - 1)):
        report.fail(f"output {label!r}: {in_words(dead)}, where the reference varies")
        return
    matched = _matched(tables[0], tables[1], units_of(flat[0], limit) if is_float else None)
    allowed = allowed_rows(rows, scores_agree=scores_agree)
    noun = "rows" if width > 1 else "values" if is_float else "indices"
    if matched.unmatched > allowed:
        have = "has" if matched.unmatched == 1 else "have"
        sizes = "" if old.shape == new.shape else f" ({len(flat[1])} {noun}, {len(flat[0])} in the reference)"
        report.differ(
            f"output {label!r}: {matched.unmatched} of {rows} {noun} {have} no counterpart, limit {allowed}{sizes}",
            matched.unmatched,
            rows,
        )
        return
    if matched.moved:
        report.ways.add("sets")
    if matched.unmatched:
        report.accept(label, "threshold", matched.unmatched, rows, noun)
    if is_float and matched.norm2 > 0.0:
        report.relative_l2 = max(report.relative_l2, math.sqrt(matched.error2 / matched.norm2))
        report.max_error = max(report.max_error, matched.worst / matched.largest)


def allowed_rows(rows: int, *, scores_agree: bool) -> int:
    """Return how many of a number of rows may be unmatched.

    Args:
        rows: The number of rows.
        scores_agree: Whether the model has floating-point outputs, and all of them agree.
    """
    allowed = int(DIFFERING_SHARE * rows)
    return max(allowed, 1) if rows >= ENOUGH_ROWS or (scores_agree and rows > 1) else allowed


def _same_sizes(old: tuple[int, ...], new: tuple[int, ...], roles: Roles) -> bool:
    """Return whether two shapes differ at most along the free axis."""
    return len(old) == len(new) == len(roles) and all(
        a == b or role == "free" for a, b, role in zip(old, new, roles, strict=True)
    )


def row_table(array: Array, roles: Roles) -> Array:
    """Reshape an array to three axes: (fixed indices, rows, elements per row)."""
    order = [[i for i, role in enumerate(roles) if role == wanted] for wanted in ("fixed", "free", "joint")]
    moved = np.transpose(array, [axis for axes in order for axis in axes])
    fixed, free = len(order[0]), roles.index("free")
    return moved.reshape(
        math.prod(moved.shape[:fixed]), array.shape[free], math.prod(moved.shape[fixed + 1 :])
    )


def _matched(old: Array, new: Array, unit: Array | None) -> _Matched:
    found = _Matched()
    for mine, theirs in zip(old, new, strict=True):
        for at, to in row_pairs(mine, theirs, unit):
            found.moved += sum(i != j for i, j in zip(at, to, strict=True))
            found.unmatched -= len(at)
            if unit is not None:
                _add(found, mine[at], theirs[to])
        found.unmatched += max(len(mine), len(theirs))
    return found


def row_pairs(old: Array, new: Array, unit: Array | None) -> Iterator[tuple[list[int], list[int]]]:
    """Yield (old, new) index lists of matching rows: first rows at the same position, then all others."""
    rest = np.ones(min(len(old), len(new)), dtype=bool)
    if len(old) == len(new):
        with np.errstate(invalid="ignore"):
            same = (old == new) if unit is None else (old == new) | (np.abs(new - old) <= unit)
        rest = ~same.all(axis=1)
        in_place = np.flatnonzero(~rest).tolist()
        yield in_place, in_place
        if not rest.any():
            return
        left = np.flatnonzero(rest)
        at, to = partners(old[left], new[left], unit)
        yield left[at].tolist(), left[to].tolist()
        return
    yield partners(old, new, unit)


def _add(found: _Matched, old: Array, new: Array) -> None:
    finite = np.isfinite(old) & np.isfinite(new)
    a, difference = old[finite], new[finite] - old[finite]
    if a.size:
        with np.errstate(over="ignore"):
            found.error2 += float(difference @ difference)
            found.norm2 += float(a @ a)
        found.worst = max(found.worst, float(np.abs(difference).max()))
        found.largest = max(found.largest, float(np.abs(a).max()))
