"""Task quality of outputs: functions on arrays, from 0 (nothing correct) to 1 unless stated otherwise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.outputs.files import Array

LEAST_SCORE = 0.3
"""Minimum score of a box, and of a pixel in a region."""
LEAST_PIXELS = 9
"""Minimum pixels of a region; smaller ones are noise."""


def top1_accuracy(scores: Array, labels: Array) -> float:
    """Return the share of rows with the largest score at the label's index; 1.0 without rows.

    Args:
        scores: Rows of scores.
        labels: Correct index of each row.
    """
    return float((scores.argmax(axis=-1).reshape(-1) == labels.reshape(-1)).mean()) if labels.size else 1.0


def by_label(scores: Array, labels: Array, least: int = 1) -> dict[int, float]:
    """Return the top-1 accuracy by label, so the loss of one class is not hidden in the mean.

    Args:
        scores: Rows of scores.
        labels: Correct index of each row.
        least: Minimum rows of a label.
    """
    right = scores.argmax(axis=-1).reshape(-1) == labels.reshape(-1)
    kinds, place, counts = np.unique(labels.reshape(-1), return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=right, minlength=len(kinds))
    return {
        int(kind): float(hit / count)
        for kind, hit, count in zip(kinds, hits, counts, strict=True)
        if count >= least
    }


def box_iou(boxes: Array, others: Array) -> Array:
    """Return the intersection over union of each box (x0, y0, x1, y1) with each of the others."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:4], others[None, :, 2:4])
    shared = np.clip(high - low, 0.0, None).prod(axis=-1)
    areas = [np.clip(b[:, 2:4] - b[:, :2], 0.0, None).prod(axis=-1) for b in (boxes, others)]
    return np.asarray(shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-12))


def box_agreement(boxes: Array, others: Array) -> float:
    """Return the agreement of two sets of boxes: 1 for equal boxes and scores, 0 without overlap.

    Boxes are matched one to one, largest overlap first. A match counts by its overlap, times the smaller over the
    larger score; an unmatched box counts as 0.

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


def ctc_text(scores: Array, blank: int = 0) -> list[int]:
    """Return the text of a CTC output: the best symbol per step, with repeats merged and blanks removed."""
    best = scores.argmax(axis=-1)
    changes = np.concatenate([[True], best[1:] != best[:-1]])
    return [int(symbol) for symbol in best[changes] if symbol != blank]


def edit_distance(text: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of symbols to insert, remove or replace to turn one text into the other."""
    row = list(range(len(other) + 1))
    for i, symbol in enumerate(text, 1):
        # One row of the Levenshtein table; ``before`` is the value above and to the left.
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (symbol != wanted))
    return row[-1]


def character_accuracy(texts: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> float:
    """Return 1 minus the character error rate (edits over symbols of the correct texts), at least 0."""
    edits = sum(edit_distance(text, wanted) for text, wanted in zip(texts, right, strict=True))
    return max(0.0, 1.0 - edits / max(1, sum(map(len, right))))


def rank_correlation(vectors: Array, others: Array) -> float:
    """Return Spearman's correlation of the cosines of all pairs of rows, which shows whether neighbours are preserved.

    Args:
        vectors: Rows of embeddings.
        others: Embeddings of the same inputs.
    """
    upper = np.triu_indices(len(vectors), 1)
    cosines = []
    for rows in (vectors, others):
        units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        cosines.append((units @ units.T)[upper])
    a, b = (_ranks(values) for values in cosines)
    # If all cosines are equal, ranks have no spread to divide by.
    if np.array_equal(a, b):
        return 1.0
    spread = float(np.linalg.norm(a - a.mean()) * np.linalg.norm(b - b.mean()))
    return float((a - a.mean()) @ (b - b.mean())) / spread if spread else 0.0


def _ranks(values: Array) -> Array:
    """Return the rank of each value; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    # Three equal values on ranks 3 to 5 all get 4: the last rank minus (3 - 1) / 2.
    return np.asarray((last - (counts - 1) / 2.0)[inverse])


def perplexity(logits: Array, tokens: Array) -> float:
    """Return the exponential of the mean negative log likelihood of tokens, at best 1; 1.0 without tokens.

    Args:
        logits: Rows of scores, before a softmax.
        tokens: Correct index of each row; negative ones are ignored.
    """
    rows, right = logits.reshape(-1, logits.shape[-1]).astype(np.float64), tokens.reshape(-1)
    rows, right = rows[right >= 0], right[right >= 0]
    if not right.size:
        return 1.0
    # Scores are relative to the largest, since the exponential of a large one would overflow.
    high = rows.max(axis=1, keepdims=True)
    totals = high[:, 0] + np.log(np.exp(rows - high).sum(axis=1))
    likelihoods = rows[np.arange(right.size), right] - totals
    return float(np.exp(-likelihoods.mean()))
