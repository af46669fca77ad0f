"""Top-1 accuracy of outputs with rows of scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.outputs.files import Array
from ortune.outputs.metrics.metric import FEWEST, Metric, Side, TaskCase, all_rows, rows_of


def _score_names(case: TaskCase) -> list[str]:
    """Return the names of outputs with rows of scores; if there are labels, only outputs with one row per label."""
    rows = {
        name: a.size // a.shape[-1] for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 1
    }
    return [name for name, n in rows.items() if case.label is None or case.label.size == n]


def _classes(case: TaskCase, name: str) -> Array:
    return rows_of(case.base[name]).argmax(axis=1) if case.label is None else case.label.reshape(-1)


def _accuracy(_: Sequence[TaskCase], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    scores, labels = all_rows(side, name), np.concatenate(right)
    by_class = by_label(scores, labels, FEWEST)
    return {
        "": top1_accuracy(scores, labels),
        **{f"class {label}": share for label, share in by_class.items()},
    }


def top1_accuracy(scores: Array, labels: Array) -> float:
    """Return the fraction of rows whose largest score is at the label's index; 1.0 without rows.

    Args:
        scores: Rows of scores.
        labels: Correct index of each row.
    """
    return float((scores.argmax(axis=-1).reshape(-1) == labels.reshape(-1)).mean()) if labels.size else 1.0


def by_label(scores: Array, labels: Array, least: int = 1) -> dict[int, float]:
    """Return the top-1 accuracy for each label, so the loss of one class is not hidden in the mean.

    Args:
        scores: Rows of scores.
        labels: Correct index of each row.
        least: Minimum number of rows of a label; labels with fewer rows are omitted.
    """
    right = scores.argmax(axis=-1).reshape(-1) == labels.reshape(-1)
    kinds, place, counts = np.unique(labels.reshape(-1), return_inverse=True, return_counts=True)
    hits = np.bincount(place, weights=right, minlength=len(kinds))
    return {
        int(kind): float(hit / count)
        for kind, hit, count in zip(kinds, hits, counts, strict=True)
        if count >= least
    }


METRIC = Metric(
    names=_score_names,
    takes="rows of scores, with a label for each where the data have labels",
    right=_classes,
    of=_accuracy,
)
