"""What a bench says of the process that it measured, and a profile of a load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import ortune
from facts import facts
from onnx_text import model_of, saved
from simulated_machine import Lab, measuring_on


@pytest.fixture(autouse=True, scope="module")
def simulated() -> Iterator[None]:
    with measuring_on(Lab(1, profiles=True)):
        yield


def _model(folder: Path) -> Path:
    return saved(folder / "m.onnx", model_of("g (float[4,4] x) => (float[4,4] y) { y = Relu (x) }"))


@pytest.mark.parametrize(
    ("variable", "settings", "code"),
    [
        ("OMP_NUM_THREADS", (), "ENV005"),
        ("", ("intra_op_num_threads=512",), "THR001"),
        ("", ("intra_op_num_threads=1",), ""),
    ],
)
def test_a_bench_names_threads_that_are_not_what_they_seem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, settings: tuple[str, ...], code: str
) -> None:
    """As a diagnosis does: more threads than CPUs, or a variable that nobody reads."""
    for name in ("OMP_NUM_THREADS", "ORT_INTRA_OP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "2")
    options = {"budget": "30s", "processes": 3, "runs": 3, "store": tmp_path / "store", "set": settings}
    result = ortune.bench(_model(tmp_path), **options).result
    assert result is not None
    codes = {finding.code for finding in result.findings}
    assert code in codes if code else not codes & {"ENV005", "THR001"}


def test_a_profile_takes_the_load_that_others_were_given(tmp_path: Path) -> None:
    """The command of a tuning can be pasted; the profile is of one caller, and says so."""
    result = ortune.profile(
        _model(tmp_path), callers=4, sessions=2, budget="30s", no_peak=True, store=tmp_path / "store"
    ).result
    assert result is not None and result.wall_ns > 0
    (note,) = (text for text in result.notes if "one caller" in text)
    facts(note, "4 callers", "2 sessions")
