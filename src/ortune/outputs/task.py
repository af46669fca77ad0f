"""Built-in metrics of ``--metric NAME``, computed over all inputs, per output and for its worst slice.

If the data have labels, outputs are measured against these, else against the base's outputs for the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.errors import UsageError
from ortune.outputs.files import Array
from ortune.outputs.task_metrics import (
    LEAST_SCORE,
    box_agreement,
    by_label,
    character_accuracy,
    ctc_text,
    perplexity,
    rank_correlation,
    regions,
    top1_accuracy,
)
from ortune.records import TaskFigure

FEWEST = 5
"""Minimum rows of a class for a separate result."""
MOST_BOXES = 300
"""Maximum number of boxes per input, those with the best scores."""
FEWEST_RANKED = 4
"""Minimum number of embeddings for a meaningful order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input.

    Attributes:
        base: Outputs of the base, by name.
        inputs: Fed values by name.
        label: Label from the data; None without one.
    """

    base: Mapping[str, Array]
    inputs: Mapping[str, Array]
    label: Array | None = None


Side = Sequence[Mapping[str, Array]]
"""Outputs by name, for each input."""


class Task:
    """A metric over the inputs of a session; expected results and the base's quality are computed once."""

    def __init__(self, name: str, cases: Sequence[Case]) -> None:
        """Compute the expected results and the base's quality.

        Raises:
            UsageError: If the metric applies to no output.
        """
        metric = METRICS[name]
        self._of, self._count, self._cases = metric.of, metric.count, cases
        self._right = {
            output: [metric.right(case, output) for case in cases] for output in metric.names(cases[0])
        }
        self._base = self._by_output([case.base for case in cases])
        if not any(self._base.values()):
            do = "pass a function of your own: --metric MODULE:FUNCTION"
            raise UsageError(f"no output is of that kind: {metric.takes}", where=f"--metric {name}", do=do)

    @property
    def n_right(self) -> int:
        """Number of expected answers (rows, boxes, symbols, tokens); the minimum over outputs."""
        return min(sum(map(self._count, of_cases)) for of_cases in self._right.values())

    def figures(self, side: Side) -> tuple[TaskFigure, ...]:
        """Return, for each output of the metric, the figures of the whole and of the slice with the largest loss."""
        chosen = []
        for output, values in self._by_output(side).items():
            base = self._base[output]
            figures = [
                TaskFigure(output=output, slice=place, base=base[place], value=value)
                for place, value in values.items()
            ]
            chosen += figures[:1]
            chosen += sorted(figures[1:], key=lambda figure: figure.value - figure.base)[:1]
        return tuple(chosen)

    def _by_output(self, side: Side) -> dict[str, dict[str, float]]:
        return {output: self._of(self._cases, right, side, output) for output, right in self._right.items()}


def worst(of: Sequence[TaskFigure]) -> TaskFigure:
    """Return the figure of the whole output with the largest relative loss."""
    return min(
        (figure for figure in of if not figure.slice), key=lambda figure: figure.value / (figure.base or 1.0)
    )


def _score_names(case: Case) -> list[str]:
    """Return the names of outputs with rows of scores; with labels, only those with one row per label."""
    rows = {
        name: a.size // a.shape[-1] for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 1
    }
    return [name for name, n in rows.items() if case.label is None or case.label.size == n]


def _classes(case: Case, name: str) -> Array:
    return _rows(case.base[name]).argmax(axis=1) if case.label is None else case.label.reshape(-1)


def _accuracy(_: Sequence[Case], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    scores, labels = _all_rows(side, name), np.concatenate(right)
    by_class = by_label(scores, labels, FEWEST)
    return {
        "": top1_accuracy(scores, labels),
        **{f"class {label}": share for label, share in by_class.items()},
    }


def _box_names(case: Case) -> list[str]:
    return [name for name in case.base if _boxes(case.base, name) is not None]


def _right_boxes(case: Case, name: str) -> Array:
    return _found_boxes(case.base, name) if case.label is None else _labelled(case.label)


def _box_figures(cases: Sequence[Case], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
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
    """Return the boxes of an output; none if its scores exceed 1, so it is something else."""
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
    """Return labels with x0, y0, x1, y1 and optionally a class as boxes with score 1."""
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
    """Return boxes with their best scores from the first other output with matching scores; None if there is none."""
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
    """Return boxes as corners, converted from centre and size if necessary."""
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


def _step_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and a.shape[-1] > 2 and 1 in a.shape[:2]]


def _text(case: Case, name: str) -> list[int]:
    if case.label is None:
        return ctc_text(_rows(case.base[name]))
    return [int(symbol) for symbol in case.label.reshape(-1) if symbol > 0]


def _text_figures(_: Sequence[Case], right: Sequence[list[int]], side: Side, name: str) -> dict[str, float]:
    texts = [ctc_text(_rows(outputs[name])) for outputs in side]
    figures = {"": character_accuracy(texts, right)}
    for number, (text, wanted) in enumerate(zip(texts, right, strict=True)):
        figures[f"input {number}"] = character_accuracy([text], [wanted])
    return figures


def _vector_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 2]


def _vectors(case: Case, name: str) -> Array:
    return _pooled(case.base[name])


def _pooled(array: Array) -> Array:
    return array.mean(axis=1) if array.ndim == 3 else array


def _rankings(_: Sequence[Case], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    base, new = np.concatenate(right), np.concatenate([_pooled(outputs[name]) for outputs in side])
    return {"": rank_correlation(base, new)} if len(base) >= FEWEST_RANKED else {}


def _logit_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and _tokens(case, a) is not None]


def _tokens(case: Case, logits: Array) -> Array | None:
    """Return the token that each row of logits should predict, from the label or the next input token; -1 for none.

    None if neither matches the logits' shape.
    """
    if case.label is not None:
        return case.label if case.label.shape == logits.shape[:2] else None
    # input_ids come before attention_mask, which has the same shape but contains only 0 and 1.
    inputs = sorted(case.inputs.items(), key=lambda pair: "ids" not in pair[0])
    for _, fed in inputs:
        if fed.dtype.kind in "iu" and fed.shape == logits.shape[:2] and int(fed.max(initial=0)) > 1:
            # Row i predicts token i + 1; the token after the last one is unknown.
            following = np.full(fed.shape, -1, np.int64)
            following[:, :-1] = np.where(_attended(case, fed)[:, 1:], fed[:, 1:], -1)
            return following
    return None


def _attended(case: Case, tokens: Array) -> Array:
    """Return which tokens are text instead of padding, by the attention mask; all of them without one."""
    for name, fed in case.inputs.items():
        # With a past, the mask has leading columns for its tokens.
        if (
            "attention_mask" in name
            and fed.ndim == 2
            and len(fed) == len(tokens)
            and fed.shape[1] >= tokens.shape[1]
        ):
            return np.asarray(fed[:, fed.shape[1] - tokens.shape[1] :] != 0)
    return np.ones(tokens.shape, np.bool_)


def _next_tokens(case: Case, name: str) -> Array:
    logits = case.base[name]
    tokens = _tokens(case, logits)
    return np.full(logits.size // logits.shape[-1], -1) if tokens is None else tokens.reshape(-1)


def _foretold(_: Sequence[Case], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    tokens = np.concatenate(right)
    # Inputs of one token have no known next token, so any model would be correct.
    return {"": 1.0 / perplexity(_all_rows(side, name), tokens)} if _n_tokens(tokens) else {}


def _n_tokens(tokens: Array) -> int:
    return int(np.count_nonzero(tokens >= 0))


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _all_rows(side: Side, name: str) -> Array:
    return np.concatenate([_rows(outputs[name]) for outputs in side])


@dataclass(frozen=True, slots=True)
class _Metric:
    """A built-in metric.

    Attributes:
        names: Returns the names of the outputs that it applies to.
        takes: Description of these outputs.
        right: Returns the expected result for an input, from its label or the base's output.
        of: Returns the quality by slice, with "" for the whole first.
        count: Returns the number of answers in an expected result.
    """

    names: Callable[[Case], list[str]]
    takes: str
    right: Callable[[Case, str], Any]
    of: Callable[[Sequence[Case], Sequence[Any], Side, str], dict[str, float]]
    count: Callable[[Any], int] = len


METRICS = {
    "accuracy": _Metric(
        _score_names,
        "rows of scores, with a label for each where the data have labels",
        _classes,
        _accuracy,
    ),
    "boxes": _Metric(
        _box_names,
        "a map of scores, rows of 6 (box, score, class) or 7, or rows of 4 with separate scores",
        _right_boxes,
        _box_figures,
    ),
    "ctc": _Metric(
        _step_names, "scores of symbols at each step, with one text per input", _text, _text_figures
    ),
    "ranks": _Metric(_vector_names, f"at least {FEWEST_RANKED} embeddings", _vectors, _rankings),
    "perplexity": _Metric(
        _logit_names,
        "logits for the tokens of an input (at least 2), or for those of the label",
        _next_tokens,
        _foretold,
        _n_tokens,
    ),
}
