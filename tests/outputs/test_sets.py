"""Outputs that are sets, lists of maps or positions: what may change places, and what may not."""

from __future__ import annotations

import numpy as np

from facts import facts
from ortune.graph.outputs import OutputComparison

RNG = np.random.default_rng(0)
SCORES = np.sort(RNG.random((4, 20)).astype(np.float32))[:, ::-1]
CHOSEN = np.argsort(RNG.random((4, 1000)))[:, :20]


def maps(table, keys):
    return ([dict(zip(keys, map(float, row), strict=True)) for row in table], "float")


def test_a_list_of_maps_is_compared_with_a_tensor_by_keys(compare):
    """Columns are in the order of ZipMap's labels, where that is known, else of the keys; 10 comes after 9."""
    table = RNG.dirichlet(np.ones(12), 5).astype(np.float32)
    numbers, words = [str(i) for i in range(12)], list("lkjihgfedcba")
    other = table.copy()
    other[3, 10] += 0.2
    for keys, labels in ((numbers, {}), (words, {"p": tuple(words)}), (sorted(words), {})):
        for old, new, wrong in (
            (maps(table, keys), table, other),
            (table, maps(table, keys), maps(other, keys)),
        ):
            found = compare({"p": old}, {"p": new}, labels=labels)
            assert found.ok and found.relative_l2 == 0.0, found.what
            found = compare({"p": old}, {"p": wrong}, labels=labels)
            assert not found.ok and found.comparable and "'p' differs: relative L2" in found.what
    assert not compare({"p": maps(table, words)}, {"p": table}).ok  # which is in another order
    one = maps(table[:1], numbers)
    assert compare({"p": one}, {"p": table[0]}).ok
    assert compare({"p": one}, {"p": table[:, :11]}).what == "output 'p' has shape [5, 11], not [1, 12]"
    text = ([{"label": "cat"}], "string")
    assert "a class table" in compare({"p": text}, {"p": table}).what
    uneven = ([{"a": 1.0}, {"b": 2.0}], "float")
    assert "a class table" in compare({"p": uneven}, {"p": table}).what
    assert "a class table" in compare({"p": one}, {"p": table}, labels={"p": tuple(words)}).what


def way(*roles):
    """How an output is compared whose axes have these roles."""
    return {"y": OutputComparison(kind="set", roles=roles)}


LIST, BATCHES, BOXES_OF_BATCHES = way("free", "joint"), way("fixed", "free"), way("fixed", "free", "joint")
COLUMNS = way("joint", "free")


def test_near_ties_of_topk_do_not_fail(compare):
    swapped = CHOSEN.copy()
    swapped[:, [3, 4]] = swapped[:, [4, 3]]
    swapped[2, 19] = 999_999  # the last place went to another
    result = compare({"y": CHOSEN, "v": SCORES}, {"y": swapped, "v": SCORES}, comparisons=BATCHES)
    assert result.ok and result.compared_as == "sets"
    (change,) = result.accepted
    assert (change.output, change.what, change.n_differing, change.n_elements) == ("y", "indices", 1, 80)
    moved = SCORES + np.float32(0.1)
    result = compare({"y": CHOSEN, "v": SCORES}, {"y": swapped, "v": moved}, comparisons=BATCHES)
    assert result.what.startswith("output 'v' differs")
    wrong = compare({"y": CHOSEN, "v": SCORES}, {"y": CHOSEN + 1000, "v": SCORES}, comparisons=BATCHES)
    facts(wrong.what, "output 'y'", "80 of 80 indices", "limit 1")
    assert "[4, 20]" not in wrong.what  # both sides have this shape


def test_positions_keep_to_their_own_row_of_the_batch(compare):
    """The rows of another image, or of the same in another order, are other answers."""
    outputs = {"y": CHOSEN, "v": SCORES}
    for other in (CHOSEN[::-1], np.roll(CHOSEN, 1, axis=0)):
        assert not compare(outputs, {"y": other, "v": SCORES}, comparisons=BATCHES).ok
    found = compare(outputs, {"y": CHOSEN[:, ::-1], "v": SCORES}, comparisons=BATCHES)
    assert found.ok and found.compared_as == "sets" and not found.accepted
    same = compare(outputs, outputs, comparisons=BATCHES)
    assert same.ok and same.compared_as == "values"


def test_positions_behind_a_threshold_may_vary_in_number(compare):
    places = np.array(np.nonzero(RNG.random((60, 60)) > 0.5))
    fewer = compare({"y": places}, {"y": np.delete(places, 700, axis=1)}, comparisons=COLUMNS)
    assert fewer.ok and fewer.accepted[0].n_differing == 1
    fewer = compare({"y": places}, {"y": places[:, :1000]}, comparisons=COLUMNS)
    facts(fewer.what, "no counterpart", "1000 rows", f"{places.shape[1]} in the reference")
    assert "no counterpart" in compare({"y": places}, {"y": places[:, :0]}, comparisons=COLUMNS).what
    wrong = compare({"y": places}, {"y": places[:1]}, comparisons=COLUMNS)
    assert wrong.what.endswith(f"has shape [1, {places.shape[1]}], not [2, {places.shape[1]}]")
    # A row and a column belong together: the same numbers in other pairs are other places.
    mixed = np.stack([places[0], RNG.permutation(places[1])])
    assert not compare({"y": places}, {"y": mixed}, comparisons=COLUMNS).ok


def test_boxes_chosen_by_nms_may_swap_and_one_may_go(compare):
    chosen = np.column_stack([np.zeros(12, int), RNG.integers(0, 3, 12), 7 * np.arange(12)])
    swapped = chosen[[1, 0, 2, 3, 5, 4, *range(6, 12)]]
    assert compare({"y": chosen}, {"y": swapped}, comparisons=LIST).ok
    fewer = compare({"y": chosen}, {"y": swapped[1:]}, comparisons=LIST)
    assert fewer.ok and fewer.accepted[0].what == "rows"
    assert "3 of 12 rows" in compare({"y": chosen}, {"y": chosen[3:]}, comparisons=LIST).what
    assert not compare({"y": chosen}, {"y": chosen + 1}, comparisons=LIST).ok
    # Of two boxes one may go where the scores agree, and of one none.
    scores = {"s": SCORES}
    assert compare({"y": chosen[:2], **scores}, {"y": chosen[:1], **scores}, comparisons=LIST).ok
    assert not compare({"y": chosen[:1], **scores}, {"y": chosen[:0], **scores}, comparisons=LIST).ok


BOXES = np.column_stack([RNG.uniform(0, 640, (50, 4)), RNG.random(50)]).astype(np.float32)


def test_boxes_match_in_any_order(compare):
    jitter = BOXES * (1 + RNG.uniform(-1e-4, 1e-4, BOXES.shape)).astype(np.float32)
    found = compare({"y": BOXES}, {"y": jitter[::-1]}, comparisons=LIST)
    assert found.ok and 1e-5 < found.relative_l2 < 1e-4
    moved = jitter[None, RNG.permutation(50)]
    assert compare({"y": BOXES[None]}, {"y": moved}, comparisons=BOXES_OF_BATCHES).ok
    two = np.stack([BOXES[:25], BOXES[25:]])
    assert compare({"y": two}, {"y": two[:, ::-1]}, comparisons=BOXES_OF_BATCHES).ok
    assert not compare({"y": two}, {"y": two[::-1]}, comparisons=BOXES_OF_BATCHES).ok
    assert compare({"y": BOXES}, {"y": jitter[:49]}, comparisons=LIST).ok  # one at the threshold is gone
    result = compare({"y": BOXES}, {"y": jitter[:45]}, comparisons=LIST)
    facts(result.what, "output 'y'", "5 of 50 rows", "limit 1", "(45 rows, 50 in the reference)")
    worse = jitter.copy()
    worse[:, 4] += 0.05
    assert not compare({"y": BOXES}, {"y": worse}, comparisons=LIST).ok
    assert not compare({"y": BOXES}, {"y": np.repeat(jitter[:10], 5, 0)}, comparisons=LIST).ok
    assert not compare({"y": BOXES[:1]}, {"y": BOXES[1:2]}, comparisons=LIST).ok
    assert "shape [50, 4], not [50, 5]" in compare({"y": BOXES}, {"y": BOXES[:, :4]}, comparisons=LIST).what


def test_selected_rows_of_integers_and_strings(compare):
    rows = np.column_stack([np.zeros(30, int), RNG.integers(0, 80, 30), np.arange(30)])
    assert compare({"y": rows}, {"y": rows[RNG.permutation(30)]}, comparisons=LIST).ok
    assert compare({"y": rows}, {"y": rows[1:]}, comparisons=LIST).ok
    assert not compare({"y": rows}, {"y": rows + np.array([0, 0, 9])}, comparisons=LIST).ok
    words = np.array(["a", "b", "c"], dtype=object)
    assert compare(
        {"y": (words, "string")}, {"y": (words[::-1].copy(), "string")}, comparisons=way("free")
    ).ok


def test_sets_of_thousands_stay_quick_and_right(compare):
    many = RNG.uniform(0, 1, (20_000, 4)).astype(np.float32)
    jitter = many + RNG.uniform(-2e-6, 2e-6, many.shape).astype(np.float32)
    assert compare({"y": many}, {"y": jitter[::-1]}, comparisons=LIST).ok
    assert not compare({"y": many}, {"y": 1 - jitter}, comparisons=LIST).ok


def test_sets_with_nan_rows(compare):
    holes = BOXES.copy()
    holes[5, 2], holes[6, 1] = np.nan, np.inf
    assert compare({"y": holes}, {"y": holes[::-1]}, comparisons=LIST).ok
    # One row in fifty may go, and none may become NaN.
    found = compare({"y": BOXES}, {"y": np.where(BOXES[7, 2] == BOXES, np.nan, BOXES)}, comparisons=LIST)
    assert not found.ok and not found.comparable and "NaN" in found.what
