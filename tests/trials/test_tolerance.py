"""``--tolerance`` as a budget: read, and held against outputs that workers left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ortune.errors import UsageError
from ortune.records import OutputDifference
from ortune.report.compare_outputs import by_output, outputs
from ortune.trials.outputs import compare_outputs
from ortune.trials.tolerance import judged, parse
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


def test_outputs_without_elements_have_no_figures(tmp_path: Path) -> None:
    empty = np.zeros((0, 10), np.float32)
    a, b = (left(tmp_path / name, y=empty) for name in "ab")
    found = compare_outputs(a, b)
    assert found.ok and found.outputs == ()
    asked = parse("cosine>=0.999")
    assert asked is not None and judged([found], asked).ok


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
