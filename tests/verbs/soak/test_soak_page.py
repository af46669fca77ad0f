"""The page of a soak: a line for each process, the phases behind them, and the verdict."""

from __future__ import annotations

import msgspec
import pytest

from facts import facts
from golden import side
from ortune.records import Envelope, GrowthFigure, SoakExperiment
from ortune.show.chart import Box, Chart, Segment
from ortune.show.document import Section
from ortune.show.html import pages
from ortune.show.terminal import plain
from ortune.verbs.soak.page import charts
from ortune.verbs.soak.result import LimitForecast, PointRow, SoakResult
from ortune.verbs.soak.words import document

MIB = 1 << 20


def rows(arm: str, slope: int) -> list[PointRow]:
    return [
        PointRow(
            arm=arm,
            calls=calls,
            sessions=1,
            active_ns=calls * 1_000_000,
            latency_ns=900_000,
            held_bytes=30 * MIB + calls * slope,
        )
        for calls in (0, 1, 100, 200, 300, 400)
    ]


@pytest.fixture
def result() -> SoakResult:
    return SoakResult(
        side=side(),
        verdict="growing",
        calls=400,
        calls_per_s=5150.0,
        first_bytes=30.0 * MIB,
        held_bytes=70.0 * MIB,
        base_bytes=26.0 * MIB,
        released_bytes=66.0 * MIB,
        growth=GrowthFigure(
            of="held", per_1000_calls=100.0 * MIB, low=99.0 * MIB, high=101.0 * MIB, from_call=133
        ),
        forecast=LimitForecast(limit_bytes=2 << 30, after_s=60.0, low_s=50.0, high_s=70.0),
        experiments=(SoakExperiment(change="no-arena", calls=400, explained=0.1),),
        points=(
            *rows("as-is-1", MIB // 10),
            *rows("as-is-2", MIB // 10),
            *rows("experiment-as-is-1", MIB // 10),
            *rows("experiment-no-arena", MIB // 11),
        ),
    )


def drawn(result: SoakResult) -> list[Chart]:
    sections = [block for block in charts(result) if isinstance(block, Section)]
    return [chart for section in sections for chart in section.blocks if isinstance(chart, Chart)]


def test_each_process_is_a_line_from_before_loading_until_the_release(result: SoakResult) -> None:
    over_time, changes = drawn(result)
    assert [name for _, name in over_time.legend] == ["as-is-1", "as-is-2"]
    lines = [mark for mark in over_time.marks if isinstance(mark, Segment)]
    assert len(lines) == 2 * 7  # eight points each
    assert lines[0].y0 == 26 * MIB and lines[6].y1 == 66 * MIB
    assert lines[0].x0 == over_time.x.low and lines[6].x1 == over_time.x.high
    phases = [mark for mark in over_time.marks if isinstance(mark, Box)]
    assert [mark.about for mark in phases] == ["load", "first calls", "later calls", "release"]
    assert [mark.text for mark in phases] == ["", "first calls", "later calls", ""]
    assert [name for _, name in changes.legend] == ["unchanged (1)", "arena off"]
    assert len({hue for hue, _ in changes.legend}) == 2


def test_the_page_has_the_verdict_and_its_figures(result: SoakResult) -> None:
    page = pages.render(Envelope(schema="ortune/soak/1", ortune="0.1.0", status="ok", result=result))
    assert page.count("<svg") >= 2
    for fact in (
        "Memory grows",
        "100 MiB per 1,000 calls",
        "passes 2.00 GiB after 60 s",
        "5,150 calls/s",
        "arena off",
    ):
        assert fact in page, fact


def test_a_rise_without_experiments_names_the_budget_for_them(result: SoakResult) -> None:
    late = msgspec.structs.replace(result, experiments=(), elapsed_s=300.0)
    text = plain(document(Envelope(schema="ortune/soak/1", ortune="0.1.0", status="ok", result=late)))
    assert "--budget 12m" in text
    with_them = plain(document(Envelope(schema="ortune/soak/1", ortune="0.1.0", status="ok", result=result)))
    assert "--budget 12m" not in with_them


def test_without_points_nothing_is_drawn(result: SoakResult) -> None:
    assert drawn(msgspec.structs.replace(result, points=())) == []


def test_the_parts_of_a_page_are_named(result: SoakResult) -> None:
    parts = {"heap_bytes": 6 * MIB, "wasm_bytes": 16 * MIB, "gpu_bytes": 2 * MIB, "gpu_buffers": 5}
    points = [msgspec.structs.replace(point, **parts) for point in result.points]
    found = msgspec.structs.replace(result, points=tuple(points))
    text = plain(document(Envelope(schema="ortune/soak/1", ortune="0", status="ok", result=found)))
    facts(text, "JavaScript heap", "6.00 MiB", "WebAssembly memory", "16.0 MiB", "GPU buffers", "5 buffers")
    sections = [block for block in charts(found) if isinstance(block, Section)]
    assert "WebAssembly" in sections[0].note and "child" not in sections[0].note
