"""What a bench shows: digits, open intervals, tails that are not known, widths, names."""

from __future__ import annotations

import msgspec
import pytest

import golden
from facts import facts
from golden_answers import document, row
from ortune.records import (
    BenchRow,
    Envelope,
    Estimate,
    Finding,
    Plan,
    TailEstimate,
)
from ortune.show import markdown
from ortune.show.document import INTERRUPTED
from ortune.show.sides import FIRST_LOAD
from ortune.verbs.bench import words


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width."""
    return golden.printed(words.document(envelope), width, whole=True)


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (10.234e6, 10.1e6, 10.4e6, ("10.2 ms", "10.1 to 10.4 ms")),
        (10.234e6, 10.21e6, 10.259e6, ("10.23 ms", "10.21 to 10.26 ms")),
        (10.234e6, 7e6, 13e6, ("10 ms", "7 to 13 ms")),
        (1234e9, 1100e9, 1400e9, ("1,200 s", "1,100 to 1,400 s")),
        (123456.0, 123455.9, 123456.1, ("123.5 us", "123.4 to 123.5 us")),
        (4e6, None, 9.31e6, ("4 ms", "10 ms or less")),
        (4e6, 0.93e6, None, ("4.0 ms", "0.9 ms or more")),
        (4e6, None, None, ("4.0 ms", "no bound: too few processes for this much variation")),
        (5e6, 5e6, 5e6, ("5.00 ms", "5.00 to 5.00 ms")),
    ],
)
def test_no_more_digits_than_the_interval_supports(
    value: float, low: float | None, high: float | None, expected: tuple[str, str]
) -> None:
    assert words.time(Estimate(value=value, low=low, high=high)) == expected


def test_ends_are_rounded_outward() -> None:
    _, interval = words.time(Estimate(value=10e6, low=9.81e6, high=10.19e6))
    assert interval == "9.8 to 10.2 ms"
    _, interval = words.time(Estimate(value=10e6, low=9.89e6, high=10.11e6))
    assert interval == "9.8 to 10.2 ms"


def test_a_single_observation_is_called_one() -> None:
    assert words.time(Estimate(value=10.23e6, single=True)) == ("10 ms", "single observation")


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("rows", [(), (row("seq=16"), row("seq=128,batch=4"), row("seq=512"))])
def test_terminal_fits_its_width_and_loses_nothing(rows: tuple[BenchRow, ...], width: int) -> None:
    text = shown(document(*rows), width)
    assert golden.widest(words.document(document(*rows)), width) <= width
    flat = " ".join(text.split())
    facts(flat, "allow_spinning=0", "0.01")
    for part in (
        "no load: not valid for an SLO",
        "busy machine: tasks waited",
        "MSR010 latency depends on the input -> give --inputs",
        "one process (crash): killed by SIGSEGV",
        "logits 1x10; best 1, indices",
        "ortune bench a.onnx --set spin=0",
        "12 ms or more" if not rows else "12 or more",
        "252 to 268",
        "mean 10.9 ms 10.5 to 11.3 ms" if not rows else "10.5 to 11.3",
        "min 9.51 ms single observation, of 864 requests" if not rows else "9.51 ms",
        "max 31.3 ms single observation, of 864 requests" if not rows else "31.3 ms",
    ):
        assert part in flat, part
    assert "p99.9" not in flat


def test_a_tail_of_too_few_samples_says_what_it_needs() -> None:
    unknown = (TailEstimate(quantile=0.95, latency_ns=None, needed=130, made=90),)
    text = " ".join(shown(document(row(tails=unknown)), 80).split())
    assert "p95 too few samples 130 requests needed, 90 were made" in text


def test_a_document_without_mean_and_extremes_is_told_without_them() -> None:
    older = {"mean_ns": None, "min_ns": None, "max_ns": None}
    for envelope in (document(row(**older)), document(row("a", **older), row("b", **older))):
        text = shown(envelope, 80)
        assert " min " not in text and " mean " not in text
        assert "throughput" in text


def test_the_load_that_wrote_a_cache_is_told_beside_those_that_read_it() -> None:
    result = document().result
    names = [(name, value) for name, value, _ in words.figures(row(first_load_ns=812e6), result)]
    assert (FIRST_LOAD, "812 ms") in names and names[names.index((FIRST_LOAD, "812 ms")) - 1][
        0
    ] == "load time"
    assert FIRST_LOAD not in [name for name, _, _ in words.figures(row(), result)]


def test_several_callers_are_a_closed_loop() -> None:
    text = shown(document(load="4 callers, back to back"), 140)
    assert "closed loop: not valid for an SLO" in text
    assert "no load" not in text


def test_a_gap_sets_the_throughput() -> None:
    long = document(load="one caller, 30 ms apart", gap_ns=30_000_000)
    assert "(set by the gap of 30 ms)" in shown(long, 140)
    short = document(load="one caller, 1 ms apart", gap_ns=1_000_000)  # a request takes ten times as long
    assert "set by the gap" not in shown(short, 140)


def test_a_stop_is_said() -> None:
    assert INTERRUPTED in shown(document(status="interrupted"), 80)
    assert INTERRUPTED in markdown.render(words.document(document(status="interrupted")))


def test_names_are_neutral() -> None:
    name = "[red]|<script>\n### x\x1b[31m"
    side = msgspec.structs.replace(golden.side(name), plan=Plan())
    envelope = document(row(name, outputs=(name,)), row("b"), side=side, notes=(name,))
    text = shown(envelope, 140)
    assert "\x1b" not in text
    assert "[red]|<script>\\n### x" in text
    page = markdown.render(words.document(envelope))
    assert "<script>" not in page.replace("\\<script\\>", "")
    assert "\n### x" not in page
    assert "\x1b" not in page


def test_an_emulated_device_shows_no_time() -> None:
    emulated = Finding(
        code="MSR006", what="functional only: the CPU emulates the device of QNN", fix="measure elsewhere"
    )
    page = shown(document(findings=(emulated,)), 100)
    assert "functional only; 864 requests ran on an emulated device, so no speed is shown" in page
    for said in ("p50", "throughput", "load time", "/s", "ortune tune"):
        assert said not in page
    assert "MSR006 functional only" in page


def test_what_was_found_of_the_model_is_said_without_being_asked_for() -> None:
    growth = Finding(
        code="SHP008",
        what="latency grows 11x while the inputs grow 4x",
        where=("scores",),
        fix="split long inputs",
    )
    text = " ".join(golden.printed(words.document(document(findings=(growth,))), 100).split())
    assert "SHP008 latency grows 11x while the inputs grow 4x -> split long inputs (scores)" in text


def test_details_repeat_no_finding() -> None:
    of_the_model = Finding(code="SHP008", what="latency grows 11x", evidence="at 4 sizes", fix="split inputs")
    of_the_measurement = Finding(code="MSR010", what="latency depends on the input", fix="give --inputs")
    text = shown(document(findings=(of_the_model, of_the_measurement)), 140)
    assert [text.count(code) for code in ("SHP008", "at 4 sizes", "MSR010")] == [1, 1, 1]


def test_one_request_is_not_above_its_own_maximum() -> None:
    once = Estimate(value=269_400.0, single=True)
    single = msgspec.structs.replace(row(), median_ns=once, mean_ns=once, min_ns=269_400.0, max_ns=269_400.0)
    assert {value for _, value, _ in words.extremes(single)} == {words.time(once)[0]}
