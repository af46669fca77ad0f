"""Which layers stay in float: a walk from the whole model in fewer bits towards float, in steps of layers.

The order is greedy: first what saves no time, then what costs the most error for the time that it saves. Errors of
layers add like independent noise, by their squares. That is only the order; every step that matters is measured, and
around the step that is wanted single questions are tried again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Kept = frozenset[str]
"""Names of the layers in float."""
ASKED_SHARE = 1 / 3
"""Share of the questions that are measured although another model predicts their answers."""
FINER = 2.0
"""Weight of a measured question relative to a prediction from an earlier model."""
FAR = 3.0
"""A ratio of errors by which one differs from what was expected, in addition to what all differ by."""
ALIKE = 1.1
"""What models save for their error, as ratios that single observations cannot tell apart."""
AS_FAST = 1.01
"""Of the fastest one's time: what is slower is not shipped for a smaller error, which the tolerance allows."""
LEAST_SAVED = 0.03
"""Of the time of float: less is no saving in a single observation."""
LEAST = 1e-12
"""Errors below it are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Layers that are decided together.

    Attributes:
        names: Of the layers.
        error: At the model's outputs where these alone are in fewer bits; infinite where that does not run.
        saved_ns: Of a run, by fewer bits for them; below 0 they cost time.
        measured: Of this model; else the error is that of layers of another model with the same structure.
    """

    names: tuple[str, ...]
    error: float
    saved_ns: float
    measured: bool = True


def answered(
    expected: Sequence[float | None], measure: Callable[[int], float | None], otherwise: float
) -> tuple[list[tuple[float, bool]], bool]:
    """Return the error of each question and whether it was measured; and whether there was time for all that had to be.

    What is not expected of another model is measured, and of the rest the third with the largest errors. Where one of
    these is far from what was expected, the other model was no guide, and everything is measured.

    Args:
        expected: Errors as an earlier model had them, None for what is new.
        measure: The error of a question by its place; None if no time is left.
        otherwise: The error of a question for which no time was left.
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
    # All errors of this model may be off by one factor (other inputs, say), which ``typical`` takes out. Only
    # what is off from that factor speaks against the other model as a guide.
    apart = [math.log(max(errors[p], LEAST) / max(expected[p] or 0.0, LEAST)) for p in sample if p in errors]
    typical = sum(apart) / len(apart) if apart else 0.0
    if any(not abs(one - typical) <= math.log(FAR) for one in apart):
        done = ask(rest) and done
        guesses = [otherwise] * len(expected)
    else:
        guesses = [otherwise if e is None else e * math.exp(typical) for e in expected]
    return [(errors.get(p, guesses[p]), p in errors) for p in range(len(expected))], done


def keep_order(questions: Sequence[Question]) -> list[Question]:
    """Return the order in which layers go back into float: those that save nothing, then by error for time."""

    def worth(question: Question) -> float:
        # Squared, because errors that have nothing to do with each other add by their squares.
        return math.inf if question.saved_ns <= 0 else question.error**2 / question.saved_ns

    return sorted(questions, key=lambda question: (-worth(question), -question.error))


def merged(kinds: Sequence[str], times_ns: Sequence[float], most: int) -> list[list[int]]:
    """Return layers as at most so many questions: equal kinds are one, and then the cheapest neighbours are joined.

    Args:
        kinds: Of each layer's structure, in the order of the graph.
        times_ns: What each takes in float.
        most: Questions that there is time for, one at least.

    Returns:
        Places of layers, a list for each question.
    """
    by_kind: dict[str, list[int]] = {}
    for place, kind in enumerate(kinds):
        by_kind.setdefault(kind, []).append(place)
    groups = list(by_kind.values())
    # Neighbours in the order of the graph, and the pair that takes the least time first: what is joined can
    # only go back to float together, so the loss is least where there is little to save.
    while len(groups) > max(1, most):
        costs = [sum(times_ns[place] for place in one) for one in groups]
        first = min(range(len(groups) - 1), key=lambda i: costs[i] + costs[i + 1])
        groups[first : first + 2] = [sorted(groups[first] + groups[first + 1])]
    return groups


def as_asked(
    asked: Sequence[Sequence[str]], kinds: Sequence[str], times_ns: Sequence[float], most: int
) -> list[list[int]]:
    """Group layers as an earlier model's questions did, and the remaining layers as ``merged`` does.

    A third of the earlier questions is repeated. If there is time for many more questions than the earlier model
    had, its groups are not used.

    Args:
        asked: Kinds of the layers of each question of the earlier model, each kind once.
        kinds: As ``merged``.
        times_ns: As ``merged``.
        most: As ``merged``.
    """
    alone = merged(kinds, times_ns, most)
    parts = [[place for place, kind in enumerate(kinds) if kind in question] for question in asked]
    rest = sorted(set(range(len(kinds))).difference(*parts))
    again = math.ceil(len(parts) * ASKED_SHARE)
    new = merged([kinds[i] for i in rest], [times_ns[i] for i in rest], most - again) if rest else []
    parts = sorted([*parts, *([rest[i] for i in part] for part in new)])
    return parts if FINER * len(parts) >= len(alone) else alone


@dataclass(slots=True, kw_only=True)
class Walk:
    """The walk of one means, and what was measured on it.

    Attributes:
        questions: In the order in which they go back into float.
        measure: The error with these layers in float, infinite where that does not run; None if no time is left.
        errors: What was measured, the whole model in fewer bits among them.
    """

    questions: Sequence[Question]
    measure: Callable[[Kept], float | None]
    errors: dict[Kept, float] = field(default_factory=dict)

    def step(self, count: int) -> Kept:
        """Return what is in float after so many steps."""
        return frozenset(name for question in self.questions[:count] for name in question.names)

    def error(self, kept: Kept) -> float | None:
        """Measured once; None if no time is left."""
        if kept not in self.errors:
            error = self.measure(kept)
            if error is None:
                return None
            self.errors[kept] = error
        return self.errors[kept]

    @property
    def free(self) -> int:
        """Step that lose no time."""
        return sum(question.saved_ns <= 0 for question in self.questions)

    def within(self, limit: float) -> Kept | None:
        """The first step whose error keeps the limit, found by halving; None if none does, or no time was left."""
        # Halving takes the error to fall along the walk. Where it does not, the step that is returned still
        # keeps the limit, as it was measured; only an earlier step may be missed.
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
        """Return what is in float where single questions that are not needed for the limit go back to fewer bits.

        Those that save the most time are tried first; then the halves of those that had to stay whole.
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
                # One of 8 layers that alone has to stay is found in 6 more models, two of each half; one by
                # one it takes 8.
                parts += [names[: len(names) // 2], names[len(names) // 2 :]]
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A whole model in fewer bits, from which a walk may begin.

    Attributes:
        kind: Of its method.
        beyond: How many times the tolerance its error is; 1 if it is right.
        error: Its error.
        ratio: Of its time against float, a single observation.
    """

    kind: str
    beyond: float
    error: float
    ratio: float

    @property
    def worth(self) -> float:
        """What it saves for what it is beyond; below 0 if it saves nothing."""
        saved = 1.0 - self.ratio
        return saved / self.beyond if saved >= LEAST_SAVED else -self.beyond


def starts(models: Sequence[Start]) -> list[int]:
    """Return places of the whole models to walk from, one of each kind: first what saves most for what it is beyond.

    Of those of a kind that single observations cannot tell apart, the one with the smallest error is chosen.
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
    """Places of the points (error, time) of which no other has less of one and no more of the other, by error."""
    # By error, then time: a point belongs to the front if it is faster than every point of a smaller error.
    order = sorted(range(len(points)), key=lambda i: (points[i], i))
    places, fastest = [], math.inf
    for i in order:
        if points[i][1] < fastest:
            places.append(i)
            fastest = points[i][1]
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A model that is confirmed to be faster: its error, and its time against float with its interval."""

    error: float
    low: float
    at: float
    high: float


def to_ship(confirmed: Sequence[Interval]) -> int:
    """The place of the fastest; of those that are as fast in numbers and intervals, that of the smallest error."""
    fastest = min(confirmed, key=lambda one: one.at)
    alike = [
        i
        for i, one in enumerate(confirmed)
        if one is fastest or (one.low <= fastest.high and one.at <= AS_FAST * fastest.at)
    ]
    return min(alike, key=lambda i: (confirmed[i].error, confirmed[i].at))
