"""Chooses the layers that stay in float, by a walk from the fully quantized model towards float in steps of layers.

The order is greedy: first the layers that save no time, then the layers with the largest error for the time that they
save. Errors of layers are assumed to add up by their squares, like independent noise. The assumption only determines
the order: every step that matters is measured, and single questions are tried again around the final step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Kept = frozenset[str]
"""Names of the layers in float."""
ASKED_SHARE = 1 / 3
"""Fraction of the questions that are measured although another model predicts their errors."""
FINER = 2.0
"""Weight of a measured question relative to a prediction from an earlier model."""
FAR = 3.0
"""Factor by which an error may deviate from its prediction, in addition to a factor that is common to all errors."""
ALIKE = 1.1
"""Ratio of two models' worth within which single observations cannot distinguish the models."""
AS_FAST = 1.01
"""Ratio of times within which the model with the smaller error is preferred. Slower models are not shipped, since the
tolerance allows the error."""
LEAST_SAVED = 0.03
"""Minimum saving in a single observation, as a fraction of the time in float."""
LEAST = 1e-12
"""Value below which errors are considered equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSet:
    """A question: layers that are quantized or left in float together.

    Attributes:
        names: Names of the layers.
        error: Error of the model's outputs if only these layers are quantized; infinite if that model does not run.
        saved_ns: Nanoseconds per run that quantizing the layers saves; negative if it costs time.
        measured: Whether the error was measured; False if it is predicted from another model of the same structure.
    """

    names: tuple[str, ...]
    error: float
    saved_ns: float
    measured: bool = True


def measured_errors(
    expected: Sequence[float | None], measure: Callable[[int], float | None], otherwise: float
) -> tuple[list[tuple[float, bool]], bool]:
    """Return (error, whether it was measured) for each question, and whether there was time for all measurements.

    Questions without a prediction are measured, and a third of the others, which have the largest predicted errors. If
    one of these errors deviates far from its prediction, the predictions are not used and everything is measured.

    Args:
        expected: Predicted errors from an earlier model; None for new questions.
        measure: Returns the error of a question by index; None if no time is left.
        otherwise: Error of a question for which there was no time.
    """
    predicted = [place for place, error in enumerate(expected) if error is not None]
    predicted.sort(key=lambda place: -(expected[place] or 0.0))
    sample = predicted[: math.ceil(len(predicted) * ASKED_SHARE)]
    rest = predicted[len(sample) :]
    errors: dict[int, float] = {}

    def ask(places: Sequence[int]) -> bool:
        for place in places:
            error = measure(place)
            if error is None:
                return False
            errors[place] = error
        return True

    done = ask([place for place in range(len(expected)) if place not in rest])
    # All errors of this model may differ by one factor (for example, because of other inputs), which
    # ``typical`` removes. Only deviations from this factor show that the predictions are unreliable.
    apart = [math.log(max(errors[p], LEAST) / max(expected[p] or 0.0, LEAST)) for p in sample if p in errors]
    typical = sum(apart) / len(apart) if apart else 0.0
    if any(not abs(one - typical) <= math.log(FAR) for one in apart):
        done = ask(rest) and done
        guesses = [otherwise] * len(expected)
    else:
        guesses = [otherwise if e is None else e * math.exp(typical) for e in expected]
    return [(errors.get(p, guesses[p]), p in errors) for p in range(len(expected))], done


def float_order(questions: Sequence[LayerSet]) -> list[LayerSet]:
    """Return the order in which questions go back to float: those that save nothing, then by error per saved time."""

    def worth(question: LayerSet) -> float:
        # Squared, since independent errors add up by their squares.
        return math.inf if question.saved_ns <= 0 else question.error**2 / question.saved_ns

    return sorted(questions, key=lambda question: (-worth(question), -question.error))


def merged(kinds: Sequence[str], times_ns: Sequence[float], most: int) -> list[list[int]]:
    """Group layers into at most ``most`` questions: layers of equal kind, then the neighbours with the least time.

    Args:
        kinds: Kind of each layer's structure, in graph order.
        times_ns: Time of each layer in float, in nanoseconds.
        most: Maximum number of questions; at least one is returned.

    Returns:
        Indices of the layers of each question.
    """
    by_kind: dict[str, list[int]] = {}
    for place, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(place)
    groups = list(by_kind.values())
    # Neighbours in graph order, and the pair with the least time first: merged layers can go back to float
    # only together, so merging costs least if there is little to save.
    while len(groups) > max(1, most):
        costs = [sum(times_ns[place] for place in one) for one in groups]
        first = min(range(len(groups) - 1), key=lambda i: costs[i] + costs[i + 1])
        groups[first : first + 2] = [sorted(groups[first] + groups[first + 1])]
    return groups


def grouped_like(
    asked: Sequence[Sequence[str]], kinds: Sequence[str], times_ns: Sequence[float], most: int
) -> list[list[int]]:
    """Group layers into the questions of an earlier model, and the remaining layers as ``merged`` does.

    A third of the earlier questions is measured again. If there is time for many more questions than the earlier model
    had, its groups are not used.

    Args:
        asked: Kinds of the layers of each question of the earlier model, each kind once.
        kinds: See ``merged``.
        times_ns: See ``merged``.
        most: See ``merged``.
    """
    alone = merged(kinds, times_ns, most)
    parts = [[place for place, kind in enumerate(kinds) if kind in question] for question in asked]
    rest = sorted(set(range(len(kinds))).difference(*parts))
    again = math.ceil(len(parts) * ASKED_SHARE)
    new = merged([kinds[i] for i in rest], [times_ns[i] for i in rest], most - again) if rest else []
    parts = sorted([*parts, *([rest[i] for i in part] for part in new)])
    return parts if FINER * len(parts) >= len(alone) else alone


@dataclass(slots=True, kw_only=True)
class QuantizationWalk:
    """The walk towards float for one quantization method, with the errors measured so far.

    Attributes:
        questions: Questions in the order in which their layers go back to float.
        measure: Returns the error with these layers in float; infinite if the model does not run, None if no time is
            left.
        errors: Measured errors by the layers in float, which include the fully quantized model's.
    """

    questions: Sequence[LayerSet]
    measure: Callable[[Kept], float | None]
    errors: dict[Kept, float] = field(default_factory=dict)

    def step(self, count: int) -> Kept:
        """Return the layers in float after a number of steps."""
        return frozenset(name for question in self.questions[:count] for name in question.names)

    def error(self, kept: Kept) -> float | None:
        """Return the error with these layers in float, which is measured once; None if no time is left."""
        if kept not in self.errors:
            error = self.measure(kept)
            if error is None:
                return None
            self.errors[kept] = error
        return self.errors[kept]

    @property
    def free(self) -> int:
        """Number of steps at the start of the walk that make the model no slower."""
        return sum(question.saved_ns <= 0 for question in self.questions)

    def within(self, limit: float) -> Kept | None:
        """Return the layers in float at the first step within the error limit, by bisection; None if none was found."""
        # Bisection assumes that the error decreases along the walk. If not, the returned step is still within
        # the limit, as measured; only an earlier step may be missed.
        low, high = self.free, len(self.questions)
        best: Kept | None = None
        while low < high:
            middle = (low + high) // 2
            error = self.error(self.step(middle))
            if error is None:
                return best
            if error <= limit:
                best, high = self.step(middle), middle
            else:
                low = middle + 1
        return best

    def refined(self, kept: Kept, limit: float) -> Kept:
        """Return the layers in float after single questions that the limit allows were quantized again.

        Questions that save the most time are tried first, then the halves of questions that had to stay in float.
        """
        waiting = [
            question for question in self.questions if question.saved_ns > 0 and kept >= set(question.names)
        ]
        waiting.sort(key=lambda question: -question.saved_ns)
        parts = [question.names for question in waiting]
        while parts:
            names = parts.pop(0)
            fewer = kept - set(names)
            error = self.error(fewer)
            if error is None:
                return kept
            if error <= limit:
                kept = fewer
            elif len(names) > 1:
                # One of 8 layers that must stay is found with 6 more models, two for each half; one by one it
                # takes 8.
                parts += [names[: len(names) // 2], names[len(names) // 2 :]]
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A fully quantized model, from which a walk may start.

    Attributes:
        kind: Kind of the quantization method.
        beyond: Ratio of the error to the tolerance; 1 if the error is within the tolerance.
        error: Error of the model.
        ratio: Ratio of the model's time to the float model's, from a single observation.
    """

    kind: str
    beyond: float
    error: float
    ratio: float

    @property
    def worth(self) -> float:
        """Saved fraction of the time divided by ``beyond``; negative if the model saves too little."""
        saved = 1.0 - self.ratio
        return saved / self.beyond if saved >= LEAST_SAVED else -self.beyond


def starts(models: Sequence[Start]) -> list[int]:
    """Return the indices of the models to walk from, one of each kind, by decreasing worth.

    If single observations cannot distinguish models of a kind, the model with the smallest error is chosen.
    """
    order = sorted(range(len(models)), key=lambda place: -models[place].worth)
    chosen: dict[str, list[int]] = {}
    for place in order:
        alike = chosen.setdefault(models[place].kind, [place])
        best = models[alike[0]].worth
        if place != alike[0] and models[place].worth >= (best / ALIKE if best > 0 else best * ALIKE):
            alike.append(place)
    return [min(alike, key=lambda place: models[place].error) for alike in chosen.values()]


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return the indices of the Pareto front of (error, time) points, sorted by error."""
    # By error, then time: a point is on the front if it is faster than every point with a smaller error.
    order = sorted(range(len(points)), key=lambda i: (points[i], i))
    places, fastest = [], math.inf
    for i in order:
        if points[i][1] < fastest:
            places.append(i)
            fastest = points[i][1]
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmedSpeed:
    """The error of a model that is confirmed to be faster, and the ratio of its time to float, with the interval."""

    error: float
    low: float
    at: float
    high: float


def to_ship(confirmed: Sequence[ConfirmedSpeed]) -> int:
    """Return the index of the fastest model, or of the one with the smallest error among equally fast models."""
    fastest = min(confirmed, key=lambda one: one.at)
    alike = [
        i
        for i, one in enumerate(confirmed)
        if one is fastest or (one.low <= fastest.high and one.at <= AS_FAST * fastest.at)
    ]
    return min(alike, key=lambda i: (confirmed[i].error, confirmed[i].at))
