"""The walk from fewer bits towards float: what it keeps, and how few models it asks for."""

from __future__ import annotations

import math

import pytest

from ortune.search.precision import (
    ConfirmedSpeed,
    Kept,
    LayerSet,
    QuantizationWalk,
    Start,
    float_order,
    front,
    grouped_like,
    measured_errors,
    merged,
    starts,
    to_ship,
)


def question(name: str, error: float, saved_ns: float, *more: str) -> LayerSet:
    return LayerSet(names=(name, *more), error=error, saved_ns=saved_ns)


LAYERS = (
    question("stem", 0.05, 10.0),
    question("body", 0.01, 400.0, "body2", "body3", "body4"),
    question("idle", 0.002, -5.0),
    question("head", 0.2, 20.0),
)


class Model:
    """Errors add by their squares; how often it was asked is counted."""

    def __init__(self, most: int = 1000, extra: dict[str, float] | None = None) -> None:
        self.asked: list[Kept] = []
        self.most, self.extra = most, extra or {}

    def error(self, kept: Kept) -> float | None:
        if len(self.asked) >= self.most:
            return None
        self.asked.append(kept)
        squares = 0.0
        for each in LAYERS:
            for name in each.names:
                if name not in kept:
                    squares += each.error**2 / len(each.names) + self.extra.get(name, 0.0) ** 2
        return math.sqrt(squares)


def walk(model: Model) -> QuantizationWalk:
    return QuantizationWalk(questions=float_order(LAYERS), measure=model.error)


def test_what_saves_nothing_goes_back_first_and_then_the_dearest_error_for_its_time() -> None:
    assert [each.names[0] for each in float_order(LAYERS)] == ["idle", "head", "stem", "body"]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(0.3, {"idle"}), (0.1, {"idle", "head"}), (0.02, {"idle", "head", "stem"})],
)
def test_the_first_step_within_the_limit_is_found(limit: float, kept: set[str]) -> None:
    assert walk(Model()).within(limit) == kept


def test_no_step_is_within_an_impossible_limit() -> None:
    model = Model(extra={"never": 0.0})
    line = walk(model)
    assert line.within(-1.0) is None
    assert line.within(0.0) is None or line.within(0.0) == {n for each in LAYERS for n in each.names}


def test_a_step_is_measured_once() -> None:
    model = Model()
    line = walk(model)
    for limit in (0.1, 0.02, 0.1, 0.02):
        line.within(limit)
    assert len(model.asked) == len(set(model.asked))


def test_refining_takes_back_what_was_not_needed_and_splits_what_was() -> None:
    """One of four equal layers carries the error of all: the other three go back to fewer bits."""
    model = Model(extra={"body3": 0.5})
    line = walk(model)
    everything = frozenset(name for each in LAYERS for name in each.names)
    kept = line.refined(everything, 0.06)
    assert "body3" in kept and "head" in kept
    assert not {"body", "body2", "body4"} & kept
    error = model.error(kept)
    assert error is not None and error <= 0.06


def test_without_time_what_is_known_stands() -> None:
    line = walk(Model(most=1))
    kept = line.within(0.1)
    assert kept is None or line.errors[kept] <= 0.1
    everything = frozenset(name for each in LAYERS for name in each.names)
    assert walk(Model(most=0)).refined(everything, 0.1) == everything


def test_equal_kinds_are_one_question_and_the_cheapest_neighbours_are_joined() -> None:
    kinds = ["a", "b", "a", "c", "d"]
    assert merged(kinds, [1.0] * 5, 10) == [[0, 2], [1], [3], [4]]
    assert merged(kinds, [2.0, 1.0, 2.0, 9.0, 9.0], 3) == [[0, 1, 2], [3], [4]]
    assert merged(kinds, [1.0] * 5, 0) == [[0, 1, 2, 3, 4]]


def test_the_front_holds_what_nothing_beats() -> None:
    points = [(0.0, 1.0), (0.1, 0.5), (0.05, 0.7), (0.2, 0.6), (0.1, 0.5)]
    assert front(points) == [0, 2, 1]


def test_the_fastest_is_shipped_where_it_is_shown_to_be() -> None:
    slow, fast = (
        ConfirmedSpeed(error=0.001, low=0.7, at=0.75, high=0.8),
        ConfirmedSpeed(error=0.009, low=0.4, at=0.5, high=0.6),
    )
    assert to_ship([slow, fast]) == 1
    assert to_ship([fast, slow]) == 0


def test_of_equally_fast_models_the_smaller_error_is_shipped() -> None:
    fastest = ConfirmedSpeed(error=0.009, low=0.45, at=0.50, high=0.56)
    alike = ConfirmedSpeed(error=0.002, low=0.46, at=0.503, high=0.56)
    nearest = ConfirmedSpeed(error=0.0001, low=0.7, at=0.75, high=0.8)
    assert to_ship([fastest, alike, nearest]) == 1
    assert to_ship([nearest, alike, fastest]) == 1


def test_a_slower_model_is_not_shipped_for_an_error_that_the_tolerance_allows() -> None:
    """Wide intervals overlap whatever the numbers are: of two that are right, the one that was faster is faster."""
    fastest = ConfirmedSpeed(error=0.009, low=0.45, at=0.50, high=0.56)
    slower = ConfirmedSpeed(error=0.002, low=0.49, at=0.53, high=0.58)
    assert to_ship([fastest, slower]) == 0
    assert to_ship([slower, fastest]) == 1


def start(kind: str, beyond: float, ratio: float, error: float = 0.1) -> Start:
    return Start(kind=kind, beyond=beyond, error=error, ratio=ratio)


def test_walks_begin_where_most_is_saved_for_what_is_beyond_the_tolerance() -> None:
    """All operators in 8 bits save most, and are far away; products alone are right, and save nearly as much."""
    everything, products = start("static", 96.0, 0.6), start("static", 1.0, 0.7)
    dynamic, weights = start("dynamic", 4.0, 0.6), start("weights", 1.0, 1.3)
    assert starts([everything, products, dynamic, weights]) == [1, 2, 3]
    assert starts([weights, dynamic, everything]) == [1, 2, 0]
    assert starts([]) == []


def test_of_starts_that_look_alike_the_smallest_error_is_taken() -> None:
    first, alike = start("static", 1.0, 0.60, error=0.04), start("static", 1.0, 0.62, error=0.01)
    slower = start("static", 1.0, 0.70, error=0.001)
    assert starts([first, alike, slower]) == [1]


def test_what_saves_nothing_is_walked_from_last_and_from_the_nearest() -> None:
    far, near = start("static", 30.0, 0.99), start("static", 2.0, 1.2)
    saves = start("dynamic", 500.0, 0.9)
    assert starts([far, near, saves]) == [2, 1]


def test_layers_are_asked_about_as_they_were_in_an_earlier_model() -> None:
    kinds = ["a", "b", "a", "c", "d", "e"]
    # Alone the cheapest neighbours would be joined: here those are others than in the earlier model.
    times = [1.0, 1.0, 1.0, 5.0, 5.0, 9.0]
    assert merged(kinds, times, 4) == [[0, 1, 2], [3], [4], [5]]
    asked = [("a",), ("b",), ("c", "d"), ("e",)]
    assert grouped_like(asked, kinds, times, 4) == [[0, 2], [1], [3, 4], [5]]
    # What the earlier model had not is asked beside it, within the questions that there is time for.
    assert grouped_like(asked[:3], [*kinds, "f"], [*times, 1.0], 2) == [[0, 2], [1], [3, 4], [5, 6]]
    assert grouped_like([], kinds, times, 4) == merged(kinds, times, 4)


def test_two_questions_of_an_earlier_model_do_not_stand_in_for_five() -> None:
    kinds, coarse = ["a", "b", "c", "d", "e"], [("a", "b", "c"), ("d", "e")]
    assert grouped_like(coarse, kinds, [1.0] * 5, 5) == merged(kinds, [1.0] * 5, 5)
    assert grouped_like(coarse, kinds, [1.0] * 5, 4) == [[0, 1, 2], [3, 4]]


class Errors:
    """The errors of questions, counted."""

    def __init__(self, errors: list[float], most: int = 1000) -> None:
        self.errors, self.most, self.asked = errors, most, list[int]()

    def __call__(self, place: int) -> float | None:
        if len(self.asked) >= self.most:
            return None
        self.asked.append(place)
        return self.errors[place]


def test_without_another_model_every_question_is_asked() -> None:
    errors = Errors([0.1, 0.2, 0.3])
    assert measured_errors([None] * 3, errors, 1.0) == ([(0.1, True), (0.2, True), (0.3, True)], True)


def test_a_second_model_of_a_family_takes_a_third_of_the_questions_and_keeps_the_order() -> None:
    """Its errors are another's by a common factor, more or less: the dearest are asked, the rest is ordered by them."""
    first = [0.02 * 1.3**i for i in range(12)]
    errors = Errors([1.7 * error * (1.1 if i % 2 else 0.9) for i, error in enumerate(first)])
    known, complete = measured_errors(list(first), errors, 1.0)
    assert complete and len(errors.asked) == 4
    assert sorted(errors.asked) == [8, 9, 10, 11]
    assert [measured for _, measured in known] == [i >= 8 for i in range(12)]
    rated = sorted(range(12), key=lambda i: known[i][0])
    assert rated == sorted(range(12), key=lambda i: errors.errors[i] if i >= 8 else first[i])
    assert all(abs(math.log(error / errors.errors[i])) < 0.3 for i, (error, _) in enumerate(known))


def test_a_model_that_is_no_guide_is_not_followed() -> None:
    first = [0.02 * 1.3**i for i in range(12)]
    errors = Errors(list(reversed(first)))
    errors.errors[10] = 9.0
    known, complete = measured_errors(list(first), errors, 1.0)
    assert complete and sorted(errors.asked) == list(range(12))
    assert known == [(error, True) for error in errors.errors]


def test_a_layer_that_no_other_model_had_is_asked() -> None:
    errors = Errors([0.1] * 6)
    known, _ = measured_errors([0.1, None, 0.1, 0.1, None, 0.1], errors, 1.0)
    assert {1, 4} < set(errors.asked) and len(errors.asked) == 4
    assert [error for error, _ in known] == pytest.approx([0.1] * 6)


def test_questions_that_no_time_was_left_for_have_the_error_of_the_whole() -> None:
    known, complete = measured_errors([None] * 3, Errors([0.1, 0.2, 0.3], most=1), 1.0)
    assert not complete and known == [(0.1, True), (1.0, False), (1.0, False)]
