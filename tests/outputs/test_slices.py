"""Slices of an output, each held to an error of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ortune.graph.outputs import OutputComparison
from ortune.outputs import files as output_files
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.tolerance import judged, parse, worst_of
from ortune.records import OutputDifference
from ortune.show.output_words import outputs
from ortune.worker.values import write_outputs

RNG = np.random.default_rng(3)
BOXES = RNG.uniform(20, 640, (1, 4, 400))
SCORES = RNG.uniform(0.05, 0.95, (1, 8, 400))
DETECTOR = np.concatenate([BOXES, SCORES], 1)


def difference(
    folder: Path, old: np.ndarray, new: np.ndarray, tolerance: float | None = None
) -> OutputDifference:
    for side, value in (("a", old), ("b", new)):
        write_outputs(str(folder / side), ["y"], ["tensor(float)"], [np.asarray(value, np.float32)])
    return compare_outputs(folder / "a", folder / "b", tolerance=tolerance)


def on_grid(values: np.ndarray, scale: float) -> np.ndarray:
    return np.round(values / scale) * scale


SATURATED = np.stack([RNG.normal(size=(30, 30)), RNG.uniform(5, 9, (30, 30))])
BATCH = RNG.normal(size=(8, 100))
ANCHORS = np.concatenate([RNG.uniform(20, 640, (1, 2000, 4)), RNG.uniform(0.05, 0.95, (1, 2000, 20))], 2)
TOKENS = RNG.normal(size=(1500, 32))


def lost(values: np.ndarray, rows: list[int], value: float = 0.0) -> np.ndarray:
    """The values with some rows of the longest axis lost."""
    axis = int(np.argmax(values.shape))
    gone = np.isin(np.arange(values.shape[axis]), rows)
    return np.where(gone.reshape([-1 if i == axis else 1 for i in range(values.ndim)]), value, values)


DEAD = {
    "scores beside boxes": (DETECTOR, on_grid(DETECTOR, 640 / 255), "rows 4 to 11 of axis 1 are all zero"),
    "the same, channels last": (
        DETECTOR.transpose(0, 2, 1),
        on_grid(DETECTOR, 640 / 255).transpose(0, 2, 1),
        "rows 4 to 11 of axis 2 are all zero",
    ),
    "one score beside a box": (
        DETECTOR[0, :5].T,
        DETECTOR[0, :5].T * [1, 1, 1, 1, 0],
        "row 4 of axis 1 is all zero",
    ),
    "one class of several": (
        DETECTOR,
        DETECTOR * (np.arange(12) != 6)[:, None],
        "row 6 of axis 1 is all zero",
    ),
    "a channel that is saturated": (SATURATED, SATURATED.clip(None, 4.0), "row 1 of axis 0 is constant"),
    "three of two thousand anchors": (
        ANCHORS,
        lost(ANCHORS, [7, 400, 1999]),
        "rows 7, 400 and 1999 of axis 1 are all zero",
    ),
    "two of them, channels first": (
        ANCHORS.transpose(0, 2, 1),
        lost(ANCHORS.transpose(0, 2, 1), [12, 13]),
        "rows 12 to 13 of axis 2 are all zero",
    ),
    "a token of a long text": (TOKENS, lost(TOKENS, [1000], 0.25), "row 1000 of axis 0 is constant"),
    "one box among many": (BOXES[0].T, lost(BOXES[0].T, [33]), "row 33 of axis 0 is all zero"),
    "an input of the batch": (BATCH, BATCH * (np.arange(8) != 3)[:, None], "row 3 of axis 0 is all zero"),
}


@pytest.mark.parametrize("case", DEAD)
@pytest.mark.parametrize("tolerance", [None, 0.01, 0.9])
def test_a_dead_slice_is_named_and_accepted_by_no_tolerance(
    tmp_path: Path, case: str, tolerance: float | None
) -> None:
    old, new, words = DEAD[case]
    found = difference(tmp_path, old, new, tolerance)
    assert (found.ok, found.comparable, found.accepting_tolerance) == (False, False, None)
    assert found.what.startswith(f"output 'y': {words}, ")
    assert found.outputs[0].dead_slices
    for budget in ("cosine>=0.1", "top1>=0", "l2<=0.9"):
        asked = parse(budget)
        assert asked is not None and not judged([found], asked).ok


def test_dead_columns_of_rows_in_any_order_are_named(tmp_path: Path) -> None:
    rows = np.concatenate([BOXES[0].T, SCORES[0, :2].T], 1)[:60].astype(np.float32)
    for side, value in (("a", rows), ("b", rows[::-1][3:] * np.float32([1, 1, 1, 1, 0, 1]))):
        write_outputs(str(tmp_path / side), ["y"], ["tensor(float)"], [value])
    ways = {"y": OutputComparison(kind="set", roles=("free", "joint"))}
    for tolerance in (None, 0.5):
        found = compare_outputs(tmp_path / "a", tmp_path / "b", comparisons=ways, tolerance=tolerance)
        assert found.what.startswith("output 'y': row 4 of axis 1 is all zero, ")
        assert (found.comparable, found.accepting_tolerance) == (False, None)
    same = compare_outputs(tmp_path / "a", tmp_path / "a", comparisons=ways)
    assert same.ok


def test_several_runs_of_dead_slices_are_counted(tmp_path: Path) -> None:
    new = DETECTOR.copy()
    for row in (5, 7, 9, 10):
        new[:, row] = 0
    found = difference(tmp_path, DETECTOR, new)
    assert "rows 5, 7 and 9 to 10 of axis 1 are all zero" in found.what
    many = RNG.normal(size=(20, 60))
    found = difference(tmp_path, many, np.where(np.arange(20)[:, None] % 4 == 0, 9.5, many))
    assert "rows 0, 4, 8 and 2 more of axis 0 are constant" in found.what


def test_places_that_are_small_beside_their_like_may_be_lost(tmp_path: Path) -> None:
    """Lines of a heat map, and anchors where nothing is: their values are lost at the other places too."""
    heat = RNG.uniform(0, 1e-3, (1, 1, 400, 300))
    heat[..., 100:150, 30:80] += RNG.uniform(0.3, 0.9, (50, 50))
    faint = np.where(heat < 5e-4, 0.0, heat)
    faint[..., 5, :] = 0
    found = difference(tmp_path, heat, faint)
    assert not found.outputs[0].dead_slices and found.accepting_tolerance == 0.005


def test_of_very_many_dead_slices_some_are_named(tmp_path: Path) -> None:
    many = RNG.normal(size=(3000, 16)) * np.geomspace(1, 1e-3, 3000)[:, None]
    found = difference(tmp_path, many, np.where(np.arange(3000)[:, None] % 3 == 1, 0.0, many))
    assert "rows 1, 4, 7 and at least 253 more of axis 0 are all zero" in found.what
    assert len(found.outputs[0].dead_slices) == 256


def test_what_is_small_and_of_the_same_kind_may_be_lost(tmp_path: Path) -> None:
    """The background of a heat map, a class that is not in the picture, a channel that hardly ever fires."""
    rng = np.random.default_rng(3)
    heat = rng.uniform(0, 1e-3, (1, 1, 60, 80))
    heat[..., 20:40, 30:50] += rng.uniform(0.3, 0.9, (20, 20))
    classes = rng.normal(size=(1, 6, 40, 40)) * 4
    classes[:, 4] -= 20
    classes = np.exp(classes) / np.exp(classes).sum(1, keepdims=True)
    relu = np.maximum(rng.normal(size=(1, 8, 30, 30)), 0)
    relu[:, 3] = 0
    relu[0, 3, 5, 5] = 2e-3
    for old in (heat, classes, relu):
        new = on_grid(old, old.max() / 255)
        found = difference(tmp_path, old, new, 0.02)
        assert found.ok, found.what
        assert not found.outputs[0].dead_slices


def test_a_reference_that_hardly_varies_is_not_dead(tmp_path: Path) -> None:
    old = RNG.normal(size=(4, 500))
    old[1] = 1.0 + 1e-7 * RNG.normal(size=500)
    new = old.copy()
    new[1] = 1.0
    old[2], new[2] = 1e-7 * RNG.normal(size=500), 0.0
    assert difference(tmp_path, old, new).ok


def test_a_tolerance_is_recommended_from_the_worst_slice(tmp_path: Path) -> None:
    new = DETECTOR.copy()
    new[:, 6] *= 1 + 0.3 * RNG.choice([-1, 1], 400)
    found = difference(tmp_path, DETECTOR, new, 1e-5)
    worst = found.outputs[0].worst_slice
    assert worst is not None and (worst.axis, worst.first) == (1, 6)
    assert worst.relative_l2 == pytest.approx(0.3, rel=0.02)
    assert found.relative_l2 < 3e-4
    assert found.accepting_tolerance == 0.5
    assert "0.3 in row 6 of axis 1" in outputs(found)
    new[:, 6] = DETECTOR[:, 6] + (new[:, 6] - DETECTOR[:, 6]) / 2.5
    found = difference(tmp_path, DETECTOR, new)
    assert found.relative_l2 < 1e-4  # which would pass
    assert (found.ok, found.comparable) == (False, True)
    assert found.what == "output 'y' differs: relative L2 distance 0.12 in row 6 of axis 1, limit 0.1"
    new[:, 6] = DETECTOR[:, 6] + (new[:, 6] - DETECTOR[:, 6]) * 2.5
    assert not difference(tmp_path, DETECTOR, new, 0.1).ok
    assert difference(tmp_path, DETECTOR, new, 0.5).ok
    budget = parse("l2<=1%")
    assert budget is not None
    assert "row 6 of axis 1" in judged([difference(tmp_path, DETECTOR, new, 0.99)], budget).what


def test_rounding_that_is_the_same_everywhere_stays_the_same(tmp_path: Path) -> None:
    """However small a slice is beside the whole."""
    for small in (1e-2, 1e-4, 1e-7, 0.0):
        old = RNG.normal(size=(6, 900))
        old[2] *= small
        new = old + 5e-5 * RNG.normal(size=old.shape)
        found = difference(tmp_path, old, new)
        assert found.ok, (small, found.what)


def test_of_several_inputs_the_worst_slice_is_told(tmp_path: Path) -> None:
    other = DETECTOR.copy()
    other[:, 7] *= 1.001
    near = difference(tmp_path / "1", DETECTOR, DETECTOR * 1.00001)
    far = difference(tmp_path / "2", DETECTOR, other)
    dead = difference(tmp_path / "3", DETECTOR, on_grid(DETECTOR, 640 / 255))
    worst = worst_of([near, far, near]).outputs[0].worst_slice
    assert worst is not None and worst.first == 7
    assert worst_of([near, dead, far]).outputs[0].dead_slices == dead.outputs[0].dead_slices


def test_pieces_do_not_change_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = on_grid(DETECTOR, 640 / 255)
    at_once = difference(tmp_path, DETECTOR, new)
    for chunk in (1, 7, 401, 1000):
        monkeypatch.setattr(output_files, "CHUNK", chunk)
        found = difference(tmp_path, DETECTOR, new)
        assert found.what == at_once.what
        assert found.outputs[0].dead_slices == at_once.outputs[0].dead_slices


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (3, 0, 2), (2, 300, 5), (40, 40, 40)])
def test_boxes_cover_every_element_once(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_files, "CHUNK", 100)
    covered = np.zeros(shape or (1,), int)
    for box in output_files.blocks(covered.shape):
        assert covered[box].size <= 100
        covered[box] += 1
    assert (covered == 1).all()
