"""Outputs that are sets, lists of maps or positions: what may change places, and what may not."""

from __future__ import annotations

import numpy as np

from facts import facts

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


def test_near_ties_of_topk_do_not_fail(compare):
    kinds = {"i": "indices"}
    swapped = CHOSEN.copy()
    swapped[:, [3, 4]] = swapped[:, [4, 3]]
    swapped[2, 19] = 999_999  # the last place went to another
    result = compare({"i": CHOSEN, "v": SCORES}, {"i": swapped, "v": SCORES}, kinds=kinds)
    assert result.ok and result.compared_as == "sets"
    moved = SCORES + np.float32(0.1)
    result = compare({"i": CHOSEN, "v": SCORES}, {"i": swapped, "v": moved}, kinds=kinds)
    assert result.what.startswith("output 'v' differs")
    wrong = compare({"i": CHOSEN, "v": SCORES}, {"i": CHOSEN + 1000, "v": SCORES}, kinds=kinds)
    assert (
        wrong.what == "output 'i': 80 of 80 indices differ, limit 1 (shape [4, 20], [4, 20] in the reference)"
    )


def test_argmax_alone_may_differ_in_one_place_of_a_hundred(compare):
    labels = RNG.integers(0, 20, (1, 40, 50))
    few, many = labels.copy(), labels.copy()
    few.ravel()[:20] += 1
    many.ravel()[:21] += 1
    assert compare({"y": labels}, {"y": few}, kinds={"y": "indices"}).ok
    assert not compare({"y": labels}, {"y": many}, kinds={"y": "indices"}).ok
    # Without scores nothing excuses another order.
    assert not compare({"y": labels}, {"y": labels[..., ::-1]}, kinds={"y": "indices"}).ok
    one = np.array([7])
    assert not compare({"y": one}, {"y": one + 1}, kinds={"y": "indices"}).ok
    assert compare({"y": one, "s": SCORES}, {"y": one + 1, "s": SCORES}, kinds={"y": "indices"}).ok


def test_positions_behind_a_threshold_may_vary_in_number(compare):
    kinds = {"y": "indices"}
    places = np.array(np.nonzero(RNG.random((60, 60)) > 0.5))
    assert compare({"y": places}, {"y": np.delete(places, 700, axis=1)}, kinds=kinds).ok
    fewer = compare({"y": places}, {"y": places[:, :1000]}, kinds=kinds)
    assert "indices differ" in fewer.what
    assert "indices differ" in compare({"y": places}, {"y": places[:, :0]}, kinds=kinds).what
    assert compare({"y": places[:, :0]}, {"y": places[:, :0]}, kinds=kinds).ok
    wrong = compare({"y": places}, {"y": places[:1]}, kinds=kinds)
    assert wrong.what.endswith(f"(shape [1, {places.shape[1]}], [2, {places.shape[1]}] in the reference)")
    assert compare({"y": np.array(3)}, {"y": np.array(3)}, kinds=kinds).ok


def test_boxes_chosen_by_nms_may_swap_and_one_may_go(compare):
    kinds = {"y": "indices"}
    chosen = np.column_stack([np.zeros(12, int), RNG.integers(0, 3, 12), 7 * np.arange(12)])
    swapped = chosen[[1, 0, 2, 3, 5, 4, *range(6, 12)]]
    assert compare({"y": chosen}, {"y": swapped}, kinds=kinds).ok
    assert compare({"y": chosen}, {"y": swapped[1:]}, kinds=kinds).ok
    assert "3 of 12 rows" in compare({"y": chosen}, {"y": chosen[3:]}, kinds=kinds).what
    assert not compare({"y": chosen}, {"y": chosen + 1}, kinds=kinds).ok


BOXES = np.column_stack([RNG.uniform(0, 640, (50, 4)), RNG.random(50)]).astype(np.float32)


def test_boxes_match_in_any_order(compare):
    kinds = {"y": "set"}
    jitter = BOXES * (1 + RNG.uniform(-1e-4, 1e-4, BOXES.shape)).astype(np.float32)
    assert compare({"y": BOXES}, {"y": jitter[::-1]}, kinds=kinds).ok
    assert compare({"y": BOXES[None]}, {"y": jitter[None, RNG.permutation(50)]}, kinds=kinds).ok
    assert compare({"y": BOXES}, {"y": jitter[:49]}, kinds=kinds).ok  # one at the threshold is gone
    result = compare({"y": BOXES}, {"y": jitter[:45]}, kinds=kinds)
    facts(result.what, "output 'y'", "5 of 50 rows", "limit 1", "(45 rows, 50 in the reference)")
    worse = jitter.copy()
    worse[:, 4] += 0.05
    assert not compare({"y": BOXES}, {"y": worse}, kinds=kinds).ok
    assert not compare({"y": BOXES}, {"y": np.repeat(jitter[:10], 5, 0)}, kinds=kinds).ok
    assert not compare({"y": BOXES[:1]}, {"y": BOXES[1:2]}, kinds=kinds).ok
    assert compare({"y": BOXES[:0]}, {"y": BOXES[:0]}, kinds=kinds).ok
    assert "rows of 4 values, not 5" in compare({"y": BOXES}, {"y": BOXES[:, :4]}, kinds=kinds).what


def test_selected_rows_of_integers_and_strings(compare):
    rows = np.column_stack([np.zeros(30, int), RNG.integers(0, 80, 30), np.arange(30)])
    kinds = {"y": "set"}
    assert compare({"y": rows}, {"y": rows[RNG.permutation(30)]}, kinds=kinds).ok
    assert compare({"y": rows}, {"y": rows[1:]}, kinds=kinds).ok
    assert not compare({"y": rows}, {"y": rows + np.array([0, 0, 9])}, kinds=kinds).ok
    words = np.array(["a", "b", "c"], dtype=object)
    assert compare({"y": (words, "string")}, {"y": (words[::-1].copy(), "string")}, kinds=kinds).ok


def test_sets_of_thousands_stay_quick_and_right(compare):
    many = RNG.uniform(0, 1, (20_000, 4)).astype(np.float32)
    jitter = many + RNG.uniform(-2e-6, 2e-6, many.shape).astype(np.float32)
    assert compare({"y": many}, {"y": jitter[::-1]}, kinds={"y": "set"}).ok
    assert not compare({"y": many}, {"y": 1 - jitter}, kinds={"y": "set"}).ok


def test_sets_with_nan_rows(compare):
    holes = BOXES.copy()
    holes[5, 2], holes[6, 1] = np.nan, np.inf
    assert compare({"y": holes}, {"y": holes[::-1]}, kinds={"y": "set"}).ok
    # One row in fifty may go, and none may become NaN.
    found = compare({"y": BOXES}, {"y": np.where(BOXES[7, 2] == BOXES, np.nan, BOXES)}, kinds={"y": "set"})
    assert not found.ok and not found.comparable and "NaN" in found.what
