"""Comparison of labels, one by one; a label may differ only if its two best scores tie within rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ortune.graph.labels import LabelSource, traced
from ortune.outputs.files import Array, decode, family, pieces
from ortune.outputs.findings import Findings

NEAR = 2.0
"""Factor on the limit of scores within which two scores tie, since each may be off by the limit."""
AT_ONCE = 1 << 16
"""Number of labels whose scores are examined at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """The scores that decided labels.

    Attributes:
        values: The reference's scores.
        moved: Change of each score if inputs and weights move by one rounding step; None if unknown.
    """

    values: Array
    moved: Array | None = None


def compare_labels(
    report: Findings,
    label: str,
    source: LabelSource | None,
    arrays: tuple[Array, Array],
    types: tuple[str, str],
    limits: tuple[float, float],
    scores: Callable[[], Scores | None],
) -> int:
    """Compare labels, or values looked up by label, element by element.

    Args:
        report: Receives the findings.
        label: Name of the output for messages.
        source: Source of the scores that decide the labels; None if unknown, so all labels must be equal.
        arrays: Reference and candidate, of the same shape.
        types: Their ONNX types.
        limits: Limit of a tie, as a fraction of the label's largest score, and limit of the difference between two
            elements with the same label.
        scores: Returns the scores or None; called only if labels differ.

    Returns:
        The number of elements with different labels, including accepted differences.
    """
    places, first, start = list[Array](), "", 0
    for old, new in pieces(*arrays):
        differ = np.flatnonzero(_differing(old, new, types, limits[1]))
        if differ.size and not first:
            at = int(differ[0])
            was, now = (f"{x!r}" if old.dtype.kind == "U" else f"{x}" for x in (str(old[at]), str(new[at])))
            first = f"{now} at element {start + at}, expected {was}"
        places.append(differ + start)
        start += old.size
    differing = np.concatenate(places) if places else np.array([], dtype=np.int64)
    if not differing.size:
        return 0
    seen = scores() if source is not None else None
    tied = 0
    if source is not None and seen is not None:
        tied = _tied(source, arrays, differing, seen, limits[0], exact=family(types[0]) != "float")
    # If every label differs, something else was computed.
    if tied == differing.size and (differing.size < start or start == 1):
        report.accept(label, "tie", int(differing.size), start, "labels")
    else:
        are = "differs" if differing.size == 1 else "differ"
        ties = f", {tied} of them within rounding of a tie" if tied else ""
        what = f"output {label!r}: {differing.size} of {start} labels {are}{ties} ({first})"
        report.differ(what, int(differing.size), start)
    return int(differing.size)


def _differing(old: Array, new: Array, types: tuple[str, str], room: float) -> Array:
    """Return elementwise whether two labels differ; floating-point labels differ if farther apart than ``room``."""
    if not room:
        return np.asarray(old != new)
    with np.errstate(invalid="ignore"):
        same = np.abs(decode(new, types[1]) - decode(old, types[0])) <= room
    return np.asarray(~same)


def _tied(
    source: LabelSource,
    arrays: tuple[Array, Array],
    differing: Array,
    scores: Scores,
    limit: float,
    *,
    exact: bool,
) -> int:
    """Return the number of differing elements for which the classes of both sides tie for the best score."""
    values = scores.values
    way = traced(source, values.shape, arrays[0].shape)
    if way is None:
        return 0
    rows = np.moveaxis(values, source.axis, -1).reshape(-1, values.shape[source.axis])
    moved = None if scores.moved is None else np.moveaxis(scores.moved, source.axis, -1).reshape(rows.shape)
    flat = [array.reshape(-1) for array in arrays]
    label, place = way.label.reshape(-1), way.place.reshape(-1)
    count = 0
    for start in range(0, differing.size, AT_ONCE):
        at = differing[start : start + AT_ONCE]
        best = -rows[label[at]] if source.smallest else rows[label[at]]
        room = limit * np.abs(best).max(axis=1)
        if moved is not None:
            room = np.maximum(room, moved[label[at]].max(axis=1))
        with np.errstate(invalid="ignore"):
            ties = best >= (best.max(axis=1) - NEAR * room)[:, None]
        given = way.values.T[place[at]]
        sides = [_equal(given, np.asarray(array[at])[:, None], exact=exact) & ties for array in flat]
        count += int((sides[0].any(axis=1) & sides[1].any(axis=1)).sum())
    return count


def _equal(given: Array, seen: Array, *, exact: bool) -> Array:
    """Return elementwise whether a class's value equals the observed value; floats may differ by 1 %.

    The tolerance allows for tables that are stored with fewer digits.
    """
    if exact or given.dtype.kind not in "iuf":
        return np.asarray(given == seen)
    return (
        np.isclose(given, seen, rtol=1e-2, atol=0.0) if given.dtype.kind == "f" else np.asarray(given == seen)
    )
