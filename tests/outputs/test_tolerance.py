"""``--tolerance`` as a budget: read, and held against outputs that workers left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ortune
from facts import facts
from onnx_text import model_of, saved
from ortune.errors import UsageError
from ortune.graph.outputs import OutputComparison
from ortune.outputs.comparison import compare_outputs
from ortune.outputs.tolerance import judged, parse, worst_of
from ortune.outputs.ways import SOMETHING_IN_COMMON
from ortune.records import AcceptedChange, OutputDifference
from ortune.show.output_words import by_output, outputs
from ortune.worker.values import write_outputs

REFERENCE = np.random.default_rng(0).normal(size=(200, 10)).astype(np.float32)


def left(folder: Path, **values: np.ndarray) -> Path:
    types = {"f": "tensor(float)", "i": "tensor(int64)"}
    write_outputs(
        str(folder), list(values), [types[v.dtype.kind] for v in values.values()], list(values.values())
    )
    return folder


def difference(folder: Path, *moved: np.ndarray, **more: np.ndarray) -> list[OutputDifference]:
    a = left(folder / "a", y=REFERENCE)
    return [compare_outputs(a, left(folder / f"b{i}", y=each, **more)) for i, each in enumerate(moved)]


def noisy(relative: float) -> np.ndarray:
    """The reference with so much relative L2 of noise."""
    noise = np.random.default_rng(1).normal(size=REFERENCE.shape)
    scale = relative * np.linalg.norm(REFERENCE) / np.linalg.norm(noise)
    return (REFERENCE + scale * noise).astype(np.float32)


@pytest.mark.parametrize(
    ("text", "within", "beyond"),
    [
        ("l2<=1%", 0.009, 0.011),
        ("l2<=0.01", 0.009, 0.011),
        ("snr>=40dB", 0.009, 0.011),
        ("SNR>=40", 0.009, 0.011),
        ("cosine>=0.999", 0.04, 0.05),
        ("top1>=0.99", 0.001, 0.5),
        ("l2<=0.5, top1 >= 99%", 0.001, 0.4),
    ],
)
def test_a_budget_holds_up_to_its_limit(tmp_path: Path, text: str, within: float, beyond: float) -> None:
    asked = parse(text)
    assert asked is not None
    near = judged(difference(tmp_path / "near", noisy(within)), asked)
    far = judged(difference(tmp_path / "far", noisy(beyond)), asked)
    assert (near.ok, near.what, near.accepting_tolerance) == (True, "", None)
    assert (far.ok, far.asked) == (False, text)
    assert "output 'y'" in far.what
    assert f"beyond --tolerance {text}" in outputs(far)


def test_random_outputs_are_said_to_be_random_and_not_compared(tmp_path: Path) -> None:
    a = left(tmp_path / "a", y=REFERENCE, z=np.arange(6.0, dtype=np.float32))
    b = left(tmp_path / "b", y=-REFERENCE, z=np.arange(6.0, dtype=np.float32))
    assert not compare_outputs(a, b).ok
    some = compare_outputs(a, b, random={"y": False})
    assert some.ok and not some.relative_l2 and some.compared_as == "values"
    assert outputs(some) == "outputs equal, but the values of y are random and were not compared"
    every = worst_of([compare_outputs(a, b, random={"y": False, "z": False})] * 2)
    assert every.ok and not every.empty and every.compared_as == "sizes"
    assert "identical" not in outputs(every) and "equal" not in outputs(every)
    assert not compare_outputs(
        a, left(tmp_path / "c", y=-REFERENCE, z=np.ones(6, np.float32)), random={"y": False}
    ).ok
    for name, bad in {
        "smaller": REFERENCE[:20],
        "shorter": REFERENCE[:-1],
        "transposed": REFERENCE.T,
        "rank": REFERENCE.ravel(),
        "nan": REFERENCE * np.nan,
    }.items():
        found = compare_outputs(
            a, left(tmp_path / name, y=bad, z=np.arange(6.0, dtype=np.float32)), random={"y": False}
        )
        assert not found.ok and "'y'" in found.what, name
    lengths = {"y": True, "z": False}
    assert compare_outputs(a, tmp_path / "shorter", random=lengths).ok
    assert not compare_outputs(a, tmp_path / "smaller", random=lengths).ok


def test_a_number_alone_is_no_budget() -> None:
    asked = parse(0.01)
    assert asked is not None and asked.number == 0.01
    assert parse("0.01") == asked
    assert parse(None) is None


@pytest.mark.parametrize(
    "text",
    [
        "0",
        "-1",
        "nan",
        "inf",
        "cosine<=0.9",
        "cosine>=2",
        "top1>=101%",
        "snr>=30%",
        "l2>=1",
        "psnr>=3",
        "",
        "l2<=1,l2<=2",
    ],
)
def test_what_is_no_tolerance_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"tolerance|positive|more than 1"):
        parse(text)


def test_top1_is_of_all_inputs_together(tmp_path: Path) -> None:
    """One row that flips of four hundred is a quarter of a per cent, whichever input it is in."""
    flipped = REFERENCE.copy()
    flipped[0, flipped[0].argmax()] = flipped[0].min() - 1e-3
    found = difference(tmp_path, REFERENCE, flipped)
    assert judged(found, parse("top1>=0.9975") or pytest.fail()).ok
    assert not judged(found, parse("top1>=0.998") or pytest.fail()).ok


def test_no_budget_accepts_nan_another_shape_or_a_label(tmp_path: Path) -> None:
    asked = parse("cosine>=0.1")
    assert asked is not None
    nan = REFERENCE.copy()
    nan[3, 3] = np.nan
    assert not judged(difference(tmp_path / "nan", nan), asked).ok
    assert not judged(difference(tmp_path / "shape", REFERENCE[:-1]), asked).comparable
    a = left(tmp_path / "labels", y=REFERENCE, label=np.arange(4))
    b = left(tmp_path / "others", y=noisy(0.01), label=np.array([0, 1, 2, 9]))
    found = judged([compare_outputs(a, b, tolerance=1.0)], asked)
    assert not found.ok and "label" in found.what


def test_outputs_without_elements_cannot_be_compared(tmp_path: Path) -> None:
    empty, full = np.zeros((0, 10), np.float32), np.ones((2, 10), np.float32)
    a, b = (left(tmp_path / name, y=empty) for name in "ab")
    found = compare_outputs(a, b)
    assert (found.ok, found.comparable, found.empty) == (False, False, True)
    facts(outputs(found), "cannot be compared", "no elements")
    asked = parse("l2<=0.1")
    assert asked is not None and not judged([found], asked).ok
    # Beside an output with elements it is named, and inputs for which there is nothing tell nothing.
    both = compare_outputs(left(tmp_path / "c", y=empty, z=full), left(tmp_path / "d", y=empty, z=full))
    assert both.ok and not both.empty
    assert outputs(both) == "outputs equal, but y has no elements"
    other = compare_outputs(left(tmp_path / "e", y=full, z=full), left(tmp_path / "f", y=full, z=full))
    assert outputs(worst_of([both, other, found])) == "outputs identical"
    gone = compare_outputs(a, left(tmp_path / "g", y=full))
    assert not gone.ok and not gone.empty and "shape" in gone.what
    assert worst_of([found, found]).empty


def test_each_output_has_its_own_error(tmp_path: Path) -> None:
    z = np.ones((2, 3, 4, 5), np.float32)
    a = left(tmp_path / "a", y=REFERENCE, z=z)
    b = left(tmp_path / "b", y=noisy(0.01), z=z)
    y, other = compare_outputs(a, b).outputs
    assert y.name == "y" and y.relative_l2 == pytest.approx(0.01, rel=1e-3)
    assert y.snr_db == pytest.approx(40, abs=0.1)
    assert y.top1 is not None and 0.9 < y.top1 <= 1 and y.n_rows == 200
    assert (other.relative_l2, other.snr_db, other.top1) == (0.0, None, None)
    rows = by_output(compare_outputs(a, b)).rows
    assert [cell.text for cell in rows[0]][:2] == ["y", "1.0e-02"]
    assert not by_output(compare_outputs(a, a)).rows


@pytest.mark.parametrize("text", ["cosine>=0.999", "metric>=0", "top1>=0"])
def test_no_budget_accepts_what_is_as_far_as_zeros(tmp_path: Path, text: str) -> None:
    """Of zeros there is no cosine; twice the values have the same one."""
    asked = parse(text)
    assert asked is not None
    a = left(tmp_path / "a", y=REFERENCE)
    for name, other in (("zeros", 0 * REFERENCE), ("double", 2 * REFERENCE)):
        found = judged(
            [compare_outputs(a, left(tmp_path / name, y=other), tolerance=SOMETHING_IN_COMMON)], asked, (1, 1)
        )
        assert (found.ok, found.comparable) == (False, False), name


def test_zeros_are_another_answer_whatever_budget_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    for name, factor in (("a", 1.0), ("b", 0.0)):
        text = f"g (float[64] x) => (float[64] y) <float[1] k = {{{factor}}}> {{ y = Mul (x, k) }}"
        saved(tmp_path / f"{name}.onnx", model_of(text))
    found = ortune.compare(
        tmp_path / "a.onnx",
        tmp_path / "b.onnx",
        tolerance="cosine>=0.999",
        budget=1,
        store=tmp_path / "store",
    )
    assert found.verdict == "wrong-output"


@pytest.mark.parametrize(
    ("text", "within", "beyond"),
    [("cosine>=0.999", 0.2, 0.6), ("snr>=40", 0.05, 0.2), ("l2<=1%", 0.05, 0.2), ("top1>=0.9", 0.8, 1.0)],
)
def test_rows_are_held_to_what_a_budget_comes_to(
    tmp_path: Path, text: str, within: float, beyond: float
) -> None:
    """A set has no figures of its own: a column that loses a share of its largest value."""
    asked = parse(text)
    assert asked is not None
    ways = {"y": OutputComparison(kind="set", roles=("free", "joint"))}
    rows = np.column_stack([np.linspace(0, 100, 50), np.full(50, 100)]).astype(np.float32)
    a = left(tmp_path / "a", y=rows)
    for name, share, ok in (("near", within, True), ("far", beyond, False)):
        b = left(tmp_path / name, y=(rows - np.array([0, 100 * share])).astype(np.float32))
        found = compare_outputs(a, b, comparisons=ways, tolerance=SOMETHING_IN_COMMON, rows=asked.of_rows)
        assert found.ok is ok, (name, found.what)


def test_a_share_of_a_metric_below_zero_is_lower(tmp_path: Path) -> None:
    asked = parse("metric>=99%")
    assert asked is not None
    same = difference(tmp_path, REFERENCE)
    for base, new, ok in (
        (-10.0, -10.0, True),
        (-10.0, -10.2, False),
        (10.0, 9.95, True),
        (10.0, 9.8, False),
    ):
        assert judged(same, asked, (base, new)).ok is ok, (base, new)


def test_of_several_inputs_the_worst_figures_of_each_output_are_told(tmp_path: Path) -> None:
    spike = REFERENCE.copy()
    spike[0, 0] += 1.05 * np.abs(REFERENCE).max()
    label = np.arange(8)
    a = left(tmp_path / "a", y=REFERENCE, label=label)
    others = {
        "far": {"y": noisy(0.095), "label": label},
        "spike": {"y": spike, "label": label},
        "flipped": {"y": REFERENCE, "label": label // 2},
    }
    found = {name: compare_outputs(a, left(tmp_path / name, **values)) for name, values in others.items()}
    far, peak, flipped = found.values()
    both = worst_of([far, peak])
    assert (both.relative_l2, both.max_error) == (far.relative_l2, peak.max_error)
    assert far.max_error < peak.max_error
    accepting = both.accepting_tolerance
    assert accepting is not None and accepting > (far.accepting_tolerance or 0)
    for name in ("far", "spike"):
        assert compare_outputs(a, tmp_path / name, tolerance=accepting).ok, name
    (y,) = both.outputs
    assert (y.relative_l2, y.max_error, y.n_rows) == (far.relative_l2, peak.max_error, 400)
    # A label that flips with one input is what no tolerance accepts, however near that input's numbers are.
    every = worst_of([far, flipped, peak])
    assert (every.ok, every.accepting_tolerance) == (False, None) and "label" in every.what


def test_numbers_that_are_not_finite_are_counted_over_all_inputs(tmp_path: Path) -> None:
    holes = REFERENCE.copy()
    holes[3, :2] = np.nan
    a = left(tmp_path / "holes", y=holes)
    found = worst_of([*difference(tmp_path, REFERENCE), *[compare_outputs(a, a)] * 2])
    assert (found.nonfinite_reference, found.nonfinite_candidate) == (4, 4)
    assert [(o.name, o.n_elements) for o in found.nonfinite] == [("y", 4000)]


@pytest.mark.parametrize(
    ("text", "seen", "times"),
    [
        ("0.01", {"relative_l2": 0.3}, 30.0),
        ("l2<=5%", {"relative_l2": 0.3}, 6.0),
        ("top1>=0.99", {"relative_l2": 3.0, "top1": 0.04}, 96.0),
        ("top1>=0.99", {"relative_l2": 3.0, "top1": 0.985}, 1.5),
        ("top1>=1", {"top1": 0.99}, 10.0),  # complete or not: a thousandth is the least that counts
        ("cosine>=0.99", {"cosine": 0.95}, 5.0),
        ("metric>=99%", {"relative_l2": 0.5, "metric": 0.96, "metric_base": 1.0}, 4.0),
        ("metric>=99%", {"metric": -2.1, "metric_base": -2.0}, 5.0),
        ("metric>=0.8", {"metric": 0.7, "metric_base": 0.9}, 2.0),
        ("top1>=0.99,l2<=10%", {"relative_l2": 0.3, "top1": 0.985}, 3.0),
        ("0.01", {"comparable": False}, np.inf),
        ("0.01", {"ok": True, "relative_l2": 0.005}, 1.0),
    ],
)
def test_how_many_times_the_allowed_distance_outputs_are_away(
    text: str, seen: dict[str, float], times: float
) -> None:
    tolerance = parse(text)
    assert tolerance is not None
    difference = OutputDifference(**{"ok": False, **seen})
    assert tolerance.times(difference) == pytest.approx(times)


def test_what_no_figure_shows_is_beyond_all_the_same() -> None:
    """A dead slice, or another label: the distance is within the tolerance, and the outputs are wrong."""
    tolerance = parse("0.01")
    assert tolerance is not None
    assert tolerance.times(OutputDifference(ok=False, relative_l2=0.001)) > 1.0


def test_labels_that_a_tie_decided_are_counted_over_all_inputs() -> None:
    change = AcceptedChange(output="y", reason="tie", what="labels", n_differing=2, n_elements=50)
    tied, moved = OutputDifference(ok=True, accepted=(change,)), OutputDifference(ok=True, compared_as="sets")
    both = worst_of([OutputDifference(ok=True, relative_l2=1e-6), tied, moved, tied])
    (counted,) = both.accepted
    assert (both.ok, both.compared_as, both.relative_l2) == (True, "sets", 1e-6)
    assert (counted.n_differing, counted.n_elements) == (4, 100)
