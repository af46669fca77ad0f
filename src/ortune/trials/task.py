"""``--metric NAME``: the built-in metrics, by what outputs are, over all inputs, of each output and its worst slice.

Where the data have labels, outputs are measured by these; else by what the base gave for the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ortune.errors import UsageError
from ortune.records import TaskFigure
from ortune.trials.output_files import Array
from ortune.trials.task_metrics import (
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

FEWEST = 5
"""Rows of a class of which something can be said."""
MOST_BOXES = 300
"""Of an input, those with the best scores."""
FEWEST_RANKED = 4
"""Embeddings whose order tells something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One input.

    Attributes:
        outputs: To be judged, by name.
        base: What the base gave.
        inputs: What was fed.
        label: Of the data; None for none.
    """

    outputs: Mapping[str, Array]
    base: Mapping[str, Array]
    inputs: Mapping[str, Array]
    label: Array | None = None


Of = Callable[[Sequence[Case], str], Iterator[tuple[str, float, float]]]
"""Slices of an output ("" for the whole, first) with the figure of the base and that of the outputs."""


def figures(name: str, cases: Sequence[Case]) -> tuple[TaskFigure, ...]:
    """The figures of each output that the metric is made for: of the whole, and of its worst slice.

    Raises:
        UsageError: No output is of that kind.
    """
    metric = METRICS[name]
    made = []
    for output in metric.names(cases[0]):
        slices = [
            TaskFigure(output=output, slice=place, base=base, value=value)
            for place, base, value in metric.of(cases, output)
        ]
        made += slices[:1]
        made += sorted(slices[1:], key=lambda each: each.value - each.base)[:1]
    if not made:
        do = "pass a function of your own: --metric MODULE:FUNCTION"
        raise UsageError(f"no output is of that kind: {metric.takes}", where=f"--metric {name}", do=do)
    return tuple(made)


def worst(of: Sequence[TaskFigure]) -> TaskFigure:
    """The whole output that lost most."""
    return min((each for each in of if not each.slice), key=lambda each: each.value / (each.base or 1.0))


def _score_names(case: Case) -> list[str]:
    """Outputs with rows of scores; where there are labels, those with a row for each."""
    rows = {
        name: a.size // a.shape[-1] for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 1
    }
    return [name for name, n in rows.items() if case.label is None or case.label.size == n]


def _accuracy(cases: Sequence[Case], name: str) -> Iterator[tuple[str, float, float]]:
    base, new = (np.concatenate([_rows(of[name]) for of in side]) for side in _sides(cases))
    labels = np.concatenate(
        [_rows(c.base[name]).argmax(axis=1) if c.label is None else c.label.reshape(-1) for c in cases]
    )
    yield "", top1_accuracy(base, labels), top1_accuracy(new, labels)
    before, after = by_label(base, labels), by_label(new, labels)
    for label in before:
        if int((labels == label).sum()) >= FEWEST:
            yield f"class {label}", before[label], after[label]


def _box_names(case: Case) -> list[str]:
    return [name for name in case.base if _boxes(case.base, name) is not None]


def _box_figures(cases: Sequence[Case], name: str) -> Iterator[tuple[str, float, float]]:
    pairs = []
    for case in cases:
        # Scores beyond 1 are no boxes either.
        base, new = (
            np.zeros((0, 6)) if boxes is None else boxes
            for boxes in (_boxes(case.base, name), _boxes(case.outputs, name))
        )
        right = base
        if case.label is not None:
            right, base, new = _labelled(case.label), _certain(base), _certain(new)
        pairs.append((right, base, new))
    yield "", *_both(pairs)
    for kind in sorted({int(k) for right, _, _ in pairs for k in right[:, 5]}):
        of = [(a[a[:, 5] == kind], b[b[:, 5] == kind], c[c[:, 5] == kind]) for a, b, c in pairs]
        if sum(len(right) for right, _, _ in of) >= FEWEST:
            yield f"class {kind}", *_both(of)


def _both(triples: Sequence[tuple[Array, Array, Array]]) -> tuple[float, float]:
    """The agreement of the base's boxes, and of the others, with the right ones."""
    return (
        _mean_agreement([(right, base) for right, base, _ in triples]),
        _mean_agreement([(right, new) for right, _, new in triples]),
    )


def _mean_agreement(pairs: Sequence[tuple[Array, Array]]) -> float:
    """Over all inputs, by the number of boxes; boxes of two classes never match."""
    weights = [len(a) + len(b) for a, b in pairs]
    if not sum(weights):
        return 1.0
    apart = 4.0 * max(
        [1.0, *(float(np.abs(boxes[:, :4]).max(initial=0.0)) for pair in pairs for boxes in pair)]
    )
    shifted = [
        [boxes + np.outer(boxes[:, 5] * apart, [1, 1, 1, 1, 0, 0]) for boxes in pair] for pair in pairs
    ]
    values = [box_agreement(a, b) for a, b in shifted]
    return float(np.average(values, weights=weights))


def _labelled(label: Array) -> Array:
    """Rows of x0, y0, x1, y1 and perhaps a class, as boxes of score 1."""
    rows = label.reshape(-1, label.shape[-1]).astype(np.float64)
    kinds = rows[:, 4:5] if rows.shape[1] > 4 else np.zeros((len(rows), 1))
    return np.concatenate([rows[:, :4], np.ones((len(rows), 1)), kinds], axis=1)


def _certain(boxes: Array) -> Array:
    certain = boxes.copy()
    certain[:, 4] = 1.0
    return certain


def _boxes(outputs: Mapping[str, Array], name: str) -> Array | None:
    """Rows of x0, y0, x1, y1, score, class, of a map of scores, a table, or boxes beside scores; else None."""
    array = outputs[name]
    if array.ndim == 4 and array.shape[:2] == (1, 1) and _is_share(array):
        found = regions(array[0, 0])
        return np.concatenate([found, np.zeros((len(found), 1))], axis=1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[0] != 1):
        return None
    rows = array.reshape(-1, array.shape[-1]).astype(np.float64)
    if rows.shape[1] == 7:
        rows = rows[:, [1, 2, 3, 4, 6, 5]]
    if rows.shape[1] == 6 and _is_share(rows[:, 4]):
        return _best(rows)
    return (
        _beside_scores(rows, {k: v for k, v in outputs.items() if k != name}) if rows.shape[1] == 4 else None
    )


def _beside_scores(rows: Array, others: Mapping[str, Array]) -> Array | None:
    """Boxes with the best score of each, of the first other output that has as many rows or columns of scores."""
    for scores in others.values():
        if scores.ndim > 3 or not len(rows) or scores.size % len(rows) or not _is_share(scores):
            continue
        turned = scores.ndim == 3 and scores.shape[-1] == len(rows) != scores.shape[1]
        by_class = scores[0].T if turned else scores.reshape(len(rows), -1)
        best, kinds = by_class.max(axis=1), by_class.argmax(axis=1).astype(np.float64)
        return _best(np.concatenate([_corners(rows), best[:, None], kinds[:, None]], axis=1))
    return None


def _corners(rows: Array) -> Array:
    """Boxes by their corners, of those that have a middle and a size."""
    if (rows[:, 2:4] >= rows[:, :2]).all():
        return rows[:, :4]
    half = rows[:, 2:4] / 2.0
    return np.concatenate([rows[:, :2] - half, rows[:, :2] + half], axis=1)


def _best(rows: Array) -> Array:
    rows = rows[rows[:, 4] >= LEAST_SCORE]
    return rows[np.argsort(-rows[:, 4], kind="stable")[:MOST_BOXES]]


def _is_share(values: Array) -> bool:
    """Whether all values lie between 0 and 1, but for rounding."""
    if values.dtype.kind != "f" or not values.size:
        return False
    return float(values.min()) >= -1e-3 and float(values.max()) <= 1.001


def _step_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and a.shape[-1] > 2 and 1 in a.shape[:2]]


def _texts(cases: Sequence[Case], name: str) -> Iterator[tuple[str, float, float]]:
    base, new = ([ctc_text(_rows(of[name])) for of in side] for side in _sides(cases))
    right = [
        text if case.label is None else [int(symbol) for symbol in case.label.reshape(-1) if symbol > 0]
        for case, text in zip(cases, base, strict=True)
    ]
    yield "", character_accuracy(base, right), character_accuracy(new, right)
    for number, (a, b, c) in enumerate(zip(right, base, new, strict=True)):
        yield f"input {number}", character_accuracy([b], [a]), character_accuracy([c], [a])


def _vector_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim in (2, 3) and a.shape[-1] > 2]


def _rankings(cases: Sequence[Case], name: str) -> Iterator[tuple[str, float, float]]:
    base, new = (
        np.concatenate([of[name].mean(axis=1) if of[name].ndim == 3 else of[name] for of in side])
        for side in _sides(cases)
    )
    if len(base) >= FEWEST_RANKED:
        yield "", 1.0, rank_correlation(base, new)


def _logit_names(case: Case) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and _tokens(case, a) is not None]


def _tokens(case: Case, logits: Array) -> Array | None:
    """What each row of logits is to foretell: the label, or the next token of an input; -1 for nothing."""
    if case.label is not None:
        return case.label if case.label.shape == logits.shape[:2] else None
    inputs = sorted(case.inputs.items(), key=lambda pair: "ids" not in pair[0])
    for _, fed in inputs:
        if fed.dtype.kind in "iu" and fed.shape == logits.shape[:2] and int(fed.max(initial=0)) > 1:
            return np.concatenate([fed[:, 1:], np.full((len(fed), 1), -1)], axis=1)
    return None


def _foretold(cases: Sequence[Case], name: str) -> Iterator[tuple[str, float, float]]:
    tokens = [_tokens(case, case.base[name]) for case in cases]
    right = np.concatenate([t.reshape(-1) for t in tokens if t is not None])
    base, new = (np.concatenate([_rows(of[name]) for of in side]) for side in _sides(cases))
    yield "", 1.0 / perplexity(base, right), 1.0 / perplexity(new, right)


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _sides(cases: Sequence[Case]) -> tuple[list[Mapping[str, Array]], list[Mapping[str, Array]]]:
    return [case.base for case in cases], [case.outputs for case in cases]


@dataclass(frozen=True, slots=True)
class _Metric:
    """A built-in metric: the outputs that it is made for, what these are in words, and its figures."""

    names: Callable[[Case], list[str]]
    takes: str
    of: Of


METRICS = {
    "accuracy": _Metric(
        _score_names, "rows of scores, with a label for each where the data have labels", _accuracy
    ),
    "boxes": _Metric(
        _box_names,
        "a map of scores, rows of 6 (box, score, class) or 7, or rows of 4 beside scores",
        _box_figures,
    ),
    "ctc": _Metric(_step_names, "steps by symbols, one text an input", _texts),
    "ranks": _Metric(_vector_names, f"embeddings, {FEWEST_RANKED} at least", _rankings),
    "perplexity": _Metric(_logit_names, "logits with a token for each row", _foretold),
}
