"""Agreement of detected boxes, by overlap and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ortune.outputs.files import Array
from ortune.outputs.metrics.metric import FEWEST, Metric, Side, TaskCase

MOST_BOXES = 300
"""Maximum number of boxes per input; boxes with the best scores are kept."""
LEAST_SCORE = 0.3
"""Minimum score of a box, and of a pixel that belongs to a region."""
LEAST_PIXELS = 9
"""Minimum number of pixels of a region; smaller regions are noise."""


def _box_names(case: TaskCase) -> list[str]:
    return [name for name in case.base if _boxes(case.base, name) is not None]


def _right_boxes(case: TaskCase, name: str) -> Array:
    return _found_boxes(case.base, name) if case.label is None else _labelled(case.label)


def _box_figures(
    cases: Sequence[TaskCase], right: Sequence[Array], side: Side, name: str
) -> dict[str, float]:
    pairs = []
    for case, wanted, outputs in zip(cases, right, side, strict=True):
        boxes = _found_boxes(outputs, name)
        # Labels have no score, so the scores of boxes do not count.
        pairs.append((wanted, boxes if case.label is None else _certain(boxes)))
    figures = {"": _mean_agreement(pairs)}
    for kind in sorted({int(k) for wanted in right for k in wanted[:, 5]}):
        of = [(a[a[:, 5] == kind], b[b[:, 5] == kind]) for a, b in pairs]
        if sum(len(wanted) for wanted, _ in of) >= FEWEST:
            figures[f"class {kind}"] = _mean_agreement(of)
    return figures


def _found_boxes(outputs: Mapping[str, Array], name: str) -> Array:
    """Return the boxes of an output; an empty array if the output does not contain boxes with scores from 0 to 1."""
    boxes = _boxes(outputs, name)
    return np.zeros((0, 6)) if boxes is None else boxes


def _mean_agreement(pairs: Sequence[tuple[Array, Array]]) -> float:
    """Return the mean agreement over inputs, weighted by the number of boxes; classes are matched separately."""
    weights = [len(a) + len(b) for a, b in pairs]
    if not sum(weights):
        return 1.0
    # Each class is shifted by four times the largest coordinate, so boxes of different classes never overlap and
    # one matching serves all classes.
    apart = 4.0 * max(
        [1.0, *(float(np.abs(boxes[:, :4]).max(initial=0.0)) for pair in pairs for boxes in pair)]
    )
    shifted = [
        [boxes + np.outer(boxes[:, 5] * apart, [1, 1, 1, 1, 0, 0]) for boxes in pair] for pair in pairs
    ]
    values = [box_agreement(a, b) for a, b in shifted]
    return float(np.average(values, weights=weights))


def _labelled(label: Array) -> Array:
    """Convert label rows (x0, y0, x1, y1 and optionally a class) to boxes with score 1."""
    rows = label.reshape(-1, label.shape[-1]).astype(np.float64)
    kinds = rows[:, 4:5] if rows.shape[1] > 4 else np.zeros((len(rows), 1))
    return np.concatenate([rows[:, :4], np.ones((len(rows), 1)), kinds], axis=1)


def _certain(boxes: Array) -> Array:
    certain = boxes.copy()
    certain[:, 4] = 1.0
    return certain


def _boxes(outputs: Mapping[str, Array], name: str) -> Array | None:
    """Return (x0, y0, x1, y1, score, class) rows of a score map, a table, or boxes with separate scores; else None."""
    array = outputs[name]
    if array.ndim == 4 and array.shape[:2] == (1, 1) and _is_share(array):
        boxes = regions(array[0, 0])
        return np.concatenate([boxes, np.zeros((len(boxes), 1))], axis=1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[0] != 1):
        return None
    rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
    if rows.shape[1] == 7:
        # Seven columns are image number, box, class and score; six have the score before the class.
        rows = rows[:, [1, 2, 3, 4, 6, 5]]
    if rows.shape[1] == 6 and _is_share(rows[:, 4]):
        return _best(rows)
    return (
        _beside_scores(rows, {k: v for k, v in outputs.items() if k != name}) if rows.shape[1] == 4 else None
    )


def _beside_scores(rows: Array, others: Mapping[str, Array]) -> Array | None:
    """Return boxes with their best scores from the first other output that has matching scores; None without one."""
    for scores in others.values():
        if scores.ndim > 3 or not len(rows) or scores.size % len(rows) or not _is_share(scores):
            continue
        # Some detectors return [1, classes, boxes].
        turned = scores.ndim == 3 and scores.shape[-1] == len(rows) != scores.shape[1]
        by_class = scores[0].T if turned else scores.reshape(len(rows), -1)
        best, kinds = by_class.max(axis=1), by_class.argmax(axis=1).astype(np.float64)
        return _best(np.concatenate([_corners(rows), best[:, None], kinds[:, None]], axis=1))
    return None


def _corners(rows: Array) -> Array:
    """Return boxes as (x0, y0, x1, y1), converted from centre and size if necessary."""
    # In centre and size form, some box has a size smaller than its distance from the origin.
    if (rows[:, 2:4] >= rows[:, :2]).all():
        return rows[:, :4]
    half = rows[:, 2:4] / 2.0
    return np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)


def _best(rows: Array) -> Array:
    rows = rows[rows[:, 4] >= LEAST_SCORE]
    return rows[np.argsort(-rows[:, 4], kind="stable")[:MOST_BOXES]]


def _is_share(values: Array) -> bool:
    """Return whether all values are between 0 and 1 within rounding."""
    if values.dtype.kind != "f" or not values.size:
        return False
    return float(values.min()) >= -1e-3 and float(values.max()) <= 1.001


def box_iou(boxes: Array, others: Array) -> Array:
    """Return the intersection over union of each box (x0, y0, x1, y1) with each box in ``others``."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:4], others[None, :, 2:4])
    shared = np.clip(high - low, 0.0, None).prod(axis=-1)
    areas = [np.clip(b[:, 2:4] - b[:, :2], 0.0, None).prod(axis=-1) for b in (boxes, others)]
    return np.asarray(shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-12))


def box_agreement(boxes: Array, others: Array) -> float:
    """Return the agreement of two sets of boxes: 1 for equal boxes and scores, 0 without overlap.

    Boxes are matched one to one, largest overlap first. A match counts as its overlap times the ratio of the smaller
    to the larger score; an unmatched box counts as 0.

    Args:
        boxes: Rows of x0, y0, x1, y1, score.
        others: Rows in the same form.
    """
    if not len(boxes) or not len(others):
        return float(len(boxes) == len(others))
    overlaps, total = box_iou(boxes, others), 0.0
    for _ in range(min(overlaps.shape)):
        row, column = np.unravel_index(int(overlaps.argmax()), overlaps.shape)
        if overlaps[row, column] <= 0.0:
            break
        low, high = sorted((float(boxes[row, 4]), float(others[column, 4])))
        total += float(overlaps[row, column]) * max(low, 0.0) / max(high, 1e-12)
        overlaps[row, :], overlaps[:, column] = -1.0, -1.0
    # Over both sets, so a missing box costs as much as an additional one.
    return 2.0 * total / (len(boxes) + len(others))


def regions(scores: Array) -> Array:
    """Return the boxes of connected regions of pixels with at least ``LEAST_SCORE``, each with its mean score."""
    mask = scores >= LEAST_SCORE
    rows: list[tuple[float, ...]] = []
    for start in zip(*map(np.ndarray.tolist, np.nonzero(mask)), strict=True):
        if not mask[start]:
            continue
        pixels, waiting = [], [start]
        mask[start] = False
        while waiting:
            y, x = waiting.pop()
            pixels.append((y, x))
            for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
                if 0 <= near[0] < mask.shape[0] and 0 <= near[1] < mask.shape[1] and mask[near]:
                    # Unmarked when found, since it would otherwise be added up to four times.
                    mask[near] = False
                    waiting.append(near)
        if len(pixels) >= LEAST_PIXELS:
            at = np.asarray(pixels)
            (y0, x0), (y1, x1) = at.min(axis=0), at.max(axis=0) + 1
            rows.append((x0, y0, x1, y1, float(scores[at[:, 0], at[:, 1]].mean())))
    return np.asarray(rows, dtype=np.float64).reshape(-1, 5)


METRIC = Metric(
    names=_box_names,
    takes="a map of scores, rows of 6 (box, score, class) or 7, or rows of 4 with separate scores",
    right=_right_boxes,
    of=_box_figures,
)
