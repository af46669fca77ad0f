"""Character accuracy of a CTC output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.outputs.files import Array
from ortune.outputs.metrics.metric import Metric, Side, TaskCase, rows_of


def _step_names(case: TaskCase) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and a.shape[-1] > 2 and 1 in a.shape[:2]]


def _text(case: TaskCase, name: str) -> list[int]:
    if case.label is None:
        return ctc_text(rows_of(case.base[name]))
    return [int(symbol) for symbol in case.label.reshape(-1) if symbol > 0]


def _text_figures(
    _: Sequence[TaskCase], right: Sequence[list[int]], side: Side, name: str
) -> dict[str, float]:
    texts = [ctc_text(rows_of(outputs[name])) for outputs in side]
    figures = {"": character_accuracy(texts, right)}
    for number, (text, wanted) in enumerate(zip(texts, right, strict=True)):
        figures[f"input {number}"] = character_accuracy([text], [wanted])
    return figures


def ctc_text(scores: Array) -> list[int]:
    """Decode a CTC output to symbol indices: the best symbol per step, with repeats merged and blanks (0) removed."""
    best = scores.argmax(axis=-1)
    changes = np.concatenate([[True], best[1:] != best[:-1]])
    return [int(symbol) for symbol in best[changes] if symbol != 0]


def edit_distance(text: Sequence[int], other: Sequence[int]) -> int:
    """Return the minimum number of insertions, deletions and replacements that turn one text into the other."""
    row = list(range(len(other) + 1))
    for i, symbol in enumerate(text, 1):
        # One row of the Levenshtein table; ``before`` is the value above and to the left.
        before, row[0] = row[0], i
        for j, wanted in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (symbol != wanted))
    return row[-1]


def character_accuracy(texts: Sequence[Sequence[int]], right: Sequence[Sequence[int]]) -> float:
    """Return 1 minus the character error rate (edits per symbol of the correct texts), at least 0."""
    edits = sum(edit_distance(text, wanted) for text, wanted in zip(texts, right, strict=True))
    return max(0.0, 1.0 - edits / max(1, sum(map(len, right))))


METRIC = Metric(
    names=_step_names,
    takes="scores of symbols at each step, with one text per input",
    right=_text,
    of=_text_figures,
)
