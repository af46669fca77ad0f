"""The release in which memory began to grow."""

from __future__ import annotations

from pathlib import Path

import pytest

import leaking
import ortune
from golden import side
from made_runtimes import require
from onnx_text import model_of, saved
from ortune.errors import UsageError
from ortune.records import Envelope, GrowthFigure
from ortune.show.terminal import plain
from ortune.verbs.history.growth import STATISTIC, changed
from ortune.verbs.history.options import Options
from ortune.verbs.history.result import HistoryResult, ReleaseRow
from ortune.verbs.history.words import document, headline

KIB = 1 << 10


def row(release: str, low: float, high: float, verdict: str = "growing", why: str = "") -> ReleaseRow:
    figure = GrowthFigure(
        of="held", per_1000_calls=KIB * (low + high) / 2, low=KIB * low, high=KIB * high, why=why
    )
    return ReleaseRow(release=release, growth=figure, memory_verdict=verdict)


def result(*rows: ReleaseRow) -> HistoryResult:
    return HistoryResult(side=side(), statistic=STATISTIC, rows=rows, changed=changed(list(rows)))


def test_a_release_changed_growth_if_intervals_do_not_overlap() -> None:
    found = result(row("1.32.0", 1010, 1030), row("1.31.1", 1000, 1020), row("1.30.0", 0, 5, "flat"))
    assert found.changed == ("1.31.1",)
    assert headline(found) == "memory grows more in 1.31.1 than in 1.30.0"
    ended = result(row("1.32.0", 0, 5, "flat"), row("1.31.1", 1000, 1020))
    assert "grows less in 1.32.0 than in 1.31.1" in headline(ended)


def test_a_release_that_is_undecided_or_failed_changes_nothing() -> None:
    unsure = result(row("1.32.0", 50, 900, "undecided", "noise"), row("1.31.1", 0, 5, "flat"))
    assert unsure.changed == () and "inconclusive" in headline(unsure)
    failed = ReleaseRow(release="1.31.1", failed="crash")
    over = result(row("1.32.0", 1000, 1020), failed, row("1.30.0", 0, 5, "flat"))
    assert over.changed == ("1.32.0",)
    text = plain(document(Envelope(schema="ortune/history/1", ortune="0", status="ok", result=over)))
    assert "1010 KiB" in text and "crash" in text and "flat" in text


@pytest.mark.parametrize(
    ("rows", "fact"),
    [
        ([row("1.32.0", 0, 5, "flat"), row("1.31.1", 0, 5, "bounded")], "no release"),
        ([row("1.32.0", 9, 12), row("1.31.1", 8, 11)], "all releases"),
        ([row("1.32.0", 3, 12), row("1.31.1", 0, 5, "flat")], "1.32.0"),
    ],
)
def test_without_a_change_the_headline_has_what_is_known(rows: list[ReleaseRow], fact: str) -> None:
    assert fact in headline(result(*rows))


def test_a_soak_cannot_be_resumed() -> None:
    with pytest.raises(UsageError, match="resumed"):
        Options(model="m.onnx", objective="memory-growth", resume="")


@pytest.mark.long
def test_the_release_is_named(tmp_path: Path) -> None:
    releases = ["1.32.0", "1.29.0", "1.26.0"]
    for release in releases:
        require(f"onnxruntime=={release}")
    model = leaking.model(tmp_path, "LeakSince130")
    found = ortune.history(
        model,
        objective="memory-growth",
        budget="90s",
        release=releases,
        custom_ops=[leaking.library()],
        store=tmp_path,
    ).result
    assert found.changed == ("1.32.0",)
    assert [each.memory_verdict for each in found.rows] == ["growing", "flat", "flat"]


@pytest.mark.long
def test_the_release_is_named_that_ended_a_real_leak(tmp_path: Path) -> None:
    """Each string of an input from NumPy kept 145 bytes in 1.20 and older."""
    releases = ["1.23.2", "1.21.1", "1.20.1"]
    for release in releases:
        require(f"onnxruntime=={release}")
    model = saved(
        tmp_path / "strings.onnx", model_of("g (string[n] x) => (string[n] y) { y = Identity (x) }")
    )
    found = ortune.history(
        model, objective="memory-growth", budget="3m", release=releases, dim={"n": 1}, store=tmp_path
    ).result
    assert found.changed == ("1.21.1",)
    assert found.rows[-1].memory_verdict == "growing" and found.rows[0].memory_verdict == "flat"
    assert headline(found) == "memory grows less in 1.21.1 than in 1.20.1"
