"""Agreement of embeddings in the order of their mutual distances."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.outputs.files import Array
from ortune.outputs.metrics.metric import Metric, Side, TaskCase

FEWEST_RANKED = 4
"""Minimum number of embeddings for a meaningful order of distances."""


def _vector_names(case: TaskCase) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 2]


def _vectors(case: TaskCase, name: str) -> Array:
    return _pooled(case.base[name])


def _pooled(array: Array) -> Array:
    return array.mean(axis=1) if array.ndim == 3 else array


def _rankings(_: Sequence[TaskCase], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    base, new = np.concatenate(right), np.concatenate([_pooled(outputs[name]) for outputs in side])
    return {"": rank_correlation(base, new)} if len(base) >= FEWEST_RANKED else {}


def rank_correlation(vectors: Array, others: Array) -> float:
    """Return Spearman's correlation between both sides' cosines of all pairs of rows: are neighbours preserved?

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


METRIC = Metric(
    names=_vector_names,
    takes=f"at least {FEWEST_RANKED} embeddings",
    right=_vectors,
    of=_rankings,
)
