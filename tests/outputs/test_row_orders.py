"""Rows of one selection move together, and rows that are sorted by a score change places only where scores tie."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from facts import facts
from ortune.graph.output_order import RowOrder
from ortune.graph.outputs import OutputComparison
from ortune.outputs.labels import Scores

RNG = np.random.default_rng(4)
N = 60
SCORES = np.sort(RNG.random(N).astype(np.float32))[::-1].copy()
SCORES[31] = SCORES[30]  # a tie
BOXES = RNG.uniform(0, 640, (N, 4)).astype(np.float32)
CLASSES = RNG.integers(0, 80, N)
ANY, SORTED = (
    RowOrder(key=("nms",)),
    RowOrder(key=("top",), is_sorted=True, scores=ir.Value(name="s"), axis=-1),
)
OTHER = RowOrder(key=("another",))


def ways(order, **kinds):
    """How outputs are compared whose rows a node selected: boxes by row, the others by element."""
    return {
        name: OutputComparison(
            kind=kind, roles=("free", "joint") if name == "boxes" else ("free",), order=order
        )
        for name, kind in kinds.items()
    }


DETECTIONS = {"boxes": BOXES, "scores": SCORES, "classes": CLASSES}
DETECTED = ways(ANY, boxes="set", scores="set", classes="indices")


def taken(rows, **others):
    """The detections at these positions; of single outputs, at others."""
    return {name: value[others.get(name, rows)] for name, value in DETECTIONS.items()}


def test_detections_move_as_a_whole(compare):
    shuffled, other = RNG.permutation(N), RNG.permutation(N)
    found = compare(DETECTIONS, taken(shuffled), comparisons=DETECTED)
    assert found.ok and found.compared_as == "sets"
    for name in DETECTIONS:
        wrong = compare(DETECTIONS, taken(shuffled, **{name: other}), comparisons=DETECTED)
        facts(wrong.what, "'boxes'", "of 60 belong together with others")
        assert wrong.comparable and not wrong.ok
    # Outputs of two selections have an order each.
    apart = DETECTED | ways(OTHER, classes="indices")
    assert compare(DETECTIONS, taken(shuffled, classes=other), comparisons=apart).ok


def test_a_detection_may_go_with_all_its_outputs(compare):
    rest = np.delete(RNG.permutation(N), 20)
    assert compare(DETECTIONS, taken(rest), comparisons=DETECTED).ok
    fewer = np.delete(np.arange(N), 20)
    wrong = compare(DETECTIONS, taken(fewer, classes=fewer[::-1]), comparisons=DETECTED)
    assert "belong together with others" in wrong.what


def swapped(i, j):
    rows = np.arange(N)
    rows[[i, j]] = rows[[j, i]]
    return rows


@pytest.mark.parametrize("read", ["output", "graph", "derived output"])
def test_sorted_rows_are_swapped_only_where_their_scores_tie(compare, read):
    places, by_place = RNG.permutation(8400)[:N], ways(SORTED, y="indices")
    a, more = {"y": places}, {}
    if read == "output":
        a["s"] = SCORES
    elif read == "graph":
        more = {"scores": lambda _: Scores(values=SCORES)}
    else:
        a["p"] = 1 / (1 + np.exp(-SCORES))
        by_place |= ways(SORTED, p="values")

    def of(rows):
        return compare(a, a | {"y": places[rows]}, comparisons=by_place, **more)

    found = of(swapped(30, 31))
    assert found.ok and found.compared_as == "sets"
    facts(of(swapped(3, 4)).what, "'y'", "1 of 60 rows come before rows with a better score")
    assert "59 of 60 rows" in of(np.arange(N)[::-1]).what
    assert of(np.arange(N)).compared_as == "values"
    # A row that is gone moves all rows behind it, and no two change places.
    assert compare(a, a | {"y": np.append(np.delete(places, 9), 9999)}, comparisons=by_place, **more).ok


def test_a_score_that_rounding_moves_further_ties_further(compare):
    places, by_place = RNG.permutation(8400)[:N], ways(SORTED, y="indices")
    for moved, ok in ((0.0, False), (1.0, True)):
        scores = Scores(values=SCORES, moved=np.full_like(SCORES, moved))
        found = compare(
            {"y": places}, {"y": places[swapped(3, 4)]}, comparisons=by_place, scores=lambda _, s=scores: s
        )
        assert found.ok == ok


def test_rows_are_sorted_in_the_direction_of_the_scores_and_each_of_the_batch_by_itself(compare):
    rows = [("fixed", "free")] * 2
    places = np.argsort(RNG.random((2, 500)))[:, :N]
    by_place = {
        "y": OutputComparison(kind="indices", roles=rows[0], order=SORTED),
        "s": OutputComparison(kind="values", roles=rows[1], order=SORTED),
    }
    scores = np.stack([SCORES[::-1] - 3, SCORES[::-1]])  # the smallest first
    for first, second, ok in ((28, 29, True), (29, 30, False), (40, 41, False)):
        other = places.copy()
        other[1, [first, second]] = other[1, [second, first]]
        found = compare({"y": places, "s": scores}, {"y": other, "s": scores}, comparisons=by_place)
        assert found.ok == ok, (first, found.what)


def test_without_scores_sorted_rows_keep_their_places(compare):
    places, by_place = RNG.permutation(8400)[:N], ways(SORTED, y="indices")
    wrong = compare({"y": places}, {"y": places[swapped(30, 31)]}, comparisons=by_place)
    facts(wrong.what, "'y'", "2 of 60 rows are at another position", "scores cannot be read")
    free = ways(ANY, y="indices")
    assert compare({"y": places}, {"y": places[::-1]}, comparisons=free).ok
