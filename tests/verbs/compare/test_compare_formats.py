"""A comparison as text, Markdown and workflow commands: the same facts, and no name acts as markup."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
from facts import facts
from ortune.records import CaseResult, Envelope, Gate, NonFiniteOutput, OutputDifference
from ortune.show import github, markdown, sides
from ortune.show import output_words as compare_outputs
from ortune.show import side_rows as compare_rows
from ortune.show.html import pages
from ortune.show.numbers import duration
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.compare import words as compare_words

WIDTHS = (80, 100, 140)


def shown(envelope: Envelope, width: int) -> str:
    """The page as plain text at that width, with what supports the answer."""
    return golden.printed(compare_words.document(envelope), width, whole=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_terminal_fits_its_width_and_loses_nothing(width: int) -> None:
    text = shown(golden.compared(), width)
    assert max(len(line) for line in text.splitlines()) <= width
    flat = " ".join(text.split())
    for part in (
        "gate: pass, a regression of 5.0 % or more is ruled out",
        "faster: 1.11x in p50 (95 % interval 1.09-1.14x, 24 blocks), A 11.0 ms -> B 9.90 ms; outputs",
        "outputs equal within 9e-7",
        "peak memory +30.0 % WORSE than allowed",
        "one block dropped",
        "MSR001 latency depends on the values fed -> give --inputs",
        "decoder: one step at past=128; prefill not measured",
        "one trial (crash): killed by SIGSEGV while running",
        "-20.0 % or more",
        "A a.onnx, default",
        "B b.onnx, ",
    ):
        assert part in flat
    assert "…" not in text


@pytest.mark.parametrize("width", WIDTHS)
def test_sides_are_a_table_with_one_row_a_figure(width: int) -> None:
    lines = [" ".join(line.split()) for line in shown(golden.compared(), width).splitlines()]
    for row in (
        "p50 11.0 ms 9.90 ms -10.0 % -12.0 % to -8.0 %",
        "p95 13.2 ms 11.9 ms too few samples",
        "peak memory 260 MiB 338 MiB +30.0 % +20.0 % to +40.0 %",
        "load time 225 ms 225 ms single observations",
    ):
        assert row in lines


def test_settings_say_how_far_they_were_read_back() -> None:
    flat = " ".join(shown(golden.compared(), 140).split())
    assert "graph_optimization_level=basic accepted;" in flat
    facts(flat, "allow_spinning=0", "0.01")


def test_a_setting_that_cannot_be_read_back_says_so() -> None:
    item = golden.ReadBack(knob="allocator", level="none", ok=True)
    text = compare_rows.setting(item, golden.Plan(settings={"allocator": "mimalloc"}))
    assert text == "allocator=mimalloc not verified"


def test_a_long_path_read_back_keeps_its_end() -> None:
    item = golden.ReadBack(
        knob="allocator", level="effect", ok=True, seen="/a/very/" + "long/" * 20 + "libmimalloc.so.2"
    )
    text = compare_rows.setting(item, golden.Plan(settings={"allocator": "mimalloc"}))
    assert len(text) < 100
    assert text.endswith("libmimalloc.so.2)")


@pytest.mark.parametrize("width", WIDTHS)
def test_a_long_name_is_folded_whole(width: int) -> None:
    name = "a-model-with-a-name-" * 6 + "@origin/main.onnx"
    text = shown(golden.compared(new=golden.side(name), notes=()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert name in "".join(line.strip() for line in text.splitlines())


NASTY = "[red]|<script>`x`\n::error::\x1b[31m*_b_"


def nasty() -> Envelope:
    side = golden.side(NASTY)
    return golden.compared(
        base=side, new=side, notes=(NASTY,), outputs=OutputDifference(ok=False, what=NASTY)
    )


def test_names_are_shown_as_they_are_in_the_terminal() -> None:
    text = shown(nasty(), 140)
    assert "[red]|<script>`x`\\n::error::\\x1b[31m*_b_" in text
    assert "\x1b" not in text


def test_names_are_neutral_in_markdown() -> None:
    text = markdown.render(compare_words.document(nasty()))
    assert "<script>" not in text.replace("\\<script\\>", "")
    assert "\x1b" not in text
    heads = [line for line in text.splitlines() if line.startswith(("#", "::"))]
    assert len(heads) == 1
    rows = [line for line in text.splitlines() if line.startswith("| p50")]
    assert len(rows) == 1
    unescaped_bars = {
        len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("| load")
    }
    assert unescaped_bars == {6}
    # Code is no markup, and emphasis of a whole line is the renderer's own.
    outside = "\n".join(line.strip("*") for line in text.splitlines() if not line.startswith("    "))
    assert re.search(r"(?<!\\)[\[*`<]", outside) is None


def test_names_start_no_workflow_command() -> None:
    envelope = nasty()
    text = github.render(compare_words.document(envelope))
    assert [line.split(" ")[0] for line in text.splitlines()] == ["::notice", "::warning"]
    title = text.splitlines()[0].partition("title=")[2].partition("::")[0]
    assert ":" not in title and "," not in title
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("answer", "counts_as", "level"),
    [
        ("pass", "pass", "notice"),
        ("fail", "pass", "error"),
        ("undecided", "pass", "warning"),
        ("undecided", "fail", "error"),
    ],
)
def test_the_gate_decides_the_annotation(answer: str, counts_as: str, level: str) -> None:
    gate = Gate(threshold_ratio=0.05, answer=answer, undecided_counts_as=counts_as)  # type: ignore[arg-type]
    assert github.render(compare_words.document(golden.compared(gate=gate))).startswith(f"::{level} ")


def test_wrong_outputs_are_the_only_thing_told() -> None:
    envelope = golden.compared(
        comparison=None,
        outputs=OutputDifference(ok=False, comparable=False, what="y differs by 0.3"),
        base_figures=None,
        new_figures=None,
        cases=(),
        controls=(),
        gate=None,
    )
    text = " ".join(shown(envelope, 80).split())
    facts(text, "outputs differ", "B's cannot be compared", "y differs by 0.3", "nothing was timed")
    assert "latency 1" not in text
    nonfinite = (NonFiniteOutput(name="y", n_elements=8, nonfinite_candidate=6, unusable_candidate=6),)
    outputs = OutputDifference(ok=False, comparable=False, what="y is NaN", nonfinite=nonfinite)
    no_numbers = golden.compared(comparison=None, outputs=outputs, wrong_sides=("B",), gate=None)
    text = " ".join(shown(no_numbers, 80).split())
    facts(text, "outputs differ", "'y'", "NaN or infinite in 6 of 8 elements")
    assert github.render(compare_words.document(envelope)).startswith("::error ")


@pytest.mark.parametrize(
    ("statistic", "ratio", "said"),
    [
        (
            "p50 latency (of each process)",
            0.9,
            "faster: 1.11x in p50 (95 % interval 1.09-1.13x, 24 blocks), A 11.0 ms",
        ),
        (
            "peak memory",
            1.3,
            "more memory: 1.30x in peak memory (95 % interval 1.27-1.33x, 24 blocks), A 260 MiB",
        ),
        (
            "peak memory",
            1.25,
            "more memory: 1.25x in peak memory (95 % interval 1.23-1.27x, 24 blocks), A 260 MiB -> B 325 MiB",
        ),
        (
            "CPU time per run",
            0.9,
            "less CPU time: 1.11x in CPU time per run (95 % interval 1.09-1.13x",
        ),
        ("CPU time per run", 0.5, "less CPU time: 2.00x in CPU time per run (95 % interval"),
        ("cold start (load and first run)", 1.01, "slower: 1.01x in cold start (95 % interval"),
        ("p95 latency", 0.9, "faster: 1.11x in p95 (95 % interval"),
        ("throughput (mean latency, back to back)", 1.25, "slower: 1.25x in throughput (95 % interval"),
    ],
)
def test_the_claim_names_what_was_compared(statistic: str, ratio: float, said: str) -> None:
    verdict = "faster" if ratio < 1 else "slower"
    ends = {"ratio_low": 0.98 * ratio, "ratio_high": 1.02 * ratio}
    made = golden.comparison(statistic=statistic, ratio=ratio, verdict=verdict, **ends)
    assert compare_headline.headline(golden.compared(comparison=made).result).startswith(said)


@pytest.mark.parametrize(
    ("statistic", "row"),
    [
        ("p95 latency", "p95 15.0 ms 12.4 ms -17.0 %"),
        ("p10 latency (of all runs of a block)", "p10 15.0 ms 12.4 ms -17.0 %"),
        ("throughput (mean latency, back to back)", "throughput 66.7 runs/s 80.3 runs/s +20.5 %"),
    ],
)
def test_what_was_compared_has_its_own_row_beside_the_p50(statistic: str, row: str) -> None:
    # The tenth percentile of a side is below its p50.
    p50_ms = 17.0 if row.startswith("p10") else 11.0
    made = golden.comparison(statistic=statistic, ratio=0.83, ratio_low=0.82, ratio_high=0.84)
    envelope = golden.compared(
        comparison=made,
        base_figures=golden.figures(p50_ms * 1e6, objective_ns=15e6),
        new_figures=golden.figures(0.9 * p50_ms * 1e6, objective_ns=12.5e6),
    )
    lines = [" ".join(line.split()) for line in shown(envelope, 100).splitlines()]
    assert any(line.startswith(row) for line in lines)
    assert any(line.startswith(f"p50 {p50_ms:.1f} ms {0.9 * p50_ms:.3g}") for line in lines)
    was, now = re.findall(r"[\d.]+ (?:ms|runs/s)", row)
    assert f"A {was} -> B {now}" in compare_headline.claim(envelope.result)


def test_a_throughput_is_in_runs_a_second() -> None:
    statistic = "throughput (mean latency, back to back)"
    sides = {
        "base_figures": golden.figures(11e6, objective_ns=1.18e6),
        "new_figures": golden.figures(9.9e6, objective_ns=565e3),
    }
    ends = {"ratio_low": 0.45, "ratio_high": 0.55}
    found = golden.comparison(statistic=statistic, ratio=0.52, **ends)
    faster = golden.compared(comparison=found, **sides)
    facts(
        compare_headline.headline(faster.result),
        "faster: 1.92x in throughput",
        "A 847 runs/s -> B 1,630 runs/s",
    )
    # More runs a second are a change upwards.
    unsure = golden.comparison(
        statistic=statistic, ratio=0.76, ratio_low=0.45, ratio_high=1.2, verdict="inconclusive"
    )
    text = compare_headline.claim(golden.compared(comparison=unsure, **sides).result)
    facts(text, "+31.6 % in throughput", "A 847 runs/s -> B 1,115 runs/s")


@pytest.mark.parametrize(
    ("statistic", "base", "new"),
    [
        ("p50 latency (median over rounds of the ratio of p50s within a round)", {}, {}),
        ("p95 latency", {"objective_ns": 12e6}, {"objective_ns": 9.9e6}),
        ("throughput (mean latency, back to back)", {"objective_ns": 12e6}, {"objective_ns": 9.9e6}),
        ("peak memory", {"peak_mib": 85}, {"peak_mib": 79}),
    ],
)
def test_two_figures_divide_to_the_claim_where_the_medians_show_another_change(
    statistic: str, base: dict[str, float], new: dict[str, float]
) -> None:
    """As medians of 12.1 and 9.88 ms beside 1.39x (1.24-1.40)."""
    made = golden.comparison(statistic=statistic, ratio=0.722, ratio_low=0.714, ratio_high=0.809)
    a, b = golden.figures(12.1e6, **base), golden.figures(9.88e6, **new)
    envelope = golden.compared(comparison=made, base_figures=a, new_figures=b, gate=None, cases=())
    what = sides.statistic_name(statistic)
    first, _, second = sides.values(a, b, made).partition(" -> ")
    assert sides.value(b, statistic) != second
    ratio = float(second.replace(",", "").split()[0]) / float(first.split()[0])
    assert (1 / ratio if sides.is_rate(statistic) else ratio) == pytest.approx(0.722, abs=0.006)
    for text in (shown(envelope, 140), markdown.render(compare_words.document(envelope))):
        assert f"A {first} -> B {second}" in text.replace("&gt;", ">").replace("\\", "")
        row = next(line for line in text.splitlines() if what in line and "->" not in line and first in line)
        assert second in row
    assert sides.DRIFTED.format(new="B", base="A") in " ".join(shown(envelope, 140).split())


@pytest.mark.parametrize(
    ("before", "ratio", "told"),
    [
        (102e6, 1.36, ("102 ms", "139 ms")),
        (1.20e6, 0.996, ("1.200 ms", "1.195 ms")),
        (0.9994e6, 1.015, ("999.40 us", "1.0144 ms")),
        (24.4e6, 0.84, ("24.4 ms", "20.5 ms")),
    ],
)
def test_two_values_have_the_digits_that_their_factor_needs(
    before: float, ratio: float, told: tuple[str, str]
) -> None:
    assert sides.written_pair(before, before * ratio, duration) == told


def test_the_document_holds_the_values_that_are_shown() -> None:
    made = golden.comparison(ratio=0.722, ratio_low=0.714, ratio_high=0.809)
    found = sides.with_values(made, golden.figures(12.1e6), golden.figures(9.88e6))
    assert (found.base_value, found.new_value) == (12.1e6, pytest.approx(0.722 * 12.1e6))
    assert sides.with_values(made, golden.figures(12.1e6), None).new_value is None


def test_a_shape_of_a_mix_shows_a_time_that_divides_to_its_change() -> None:
    case = CaseResult(
        case="seq=16", weight=1, base_ns=12.1e6, new_ns=9.88e6, ratio=0.72, ratio_low=0.71, ratio_high=0.81
    )
    (row,) = compare_rows.cases([case], "A", "B", "change").rows
    assert [cell.text for cell in row][2:5] == ["12.1 ms", "8.71 ms", "-28.0 %"]


def test_an_interrupted_run_says_so_in_every_format() -> None:
    envelope = golden.msgspec.structs.replace(golden.compared(), status="interrupted")
    assert "stopped early" in shown(envelope, 80)
    assert "stopped early" in markdown.render(compare_words.document(envelope))


@pytest.mark.parametrize(
    ("low", "ratio", "high", "said"),
    [
        (0.9804, 0.9901, 0.9985, "faster: 1.01x in p50 (95 % interval 1.002-1.02x,"),
        (
            0.9960,
            0.9975,
            0.9998,
            "faster: 1.003x in p50 (95 % interval 1.0002-1.004x,",
        ),
        (1.0031, 1.2, 1.3, "slower: 1.20x in p50 (95 % interval 1.003-1.30x,"),
    ],
)
def test_an_end_that_excludes_no_change_does_not_look_like_it(
    low: float, ratio: float, high: float, said: str
) -> None:
    verdict = "faster" if ratio < 1 else "slower"
    found = golden.compared().result
    changed = msgspec.structs.replace(
        found.comparison, verdict=verdict, ratio=ratio, ratio_low=low, ratio_high=high
    )
    assert said in compare_headline.headline(msgspec.structs.replace(found, comparison=changed))


def test_outputs_that_no_tolerance_accepts_come_first_where_nothing_was_timed_too() -> None:
    found = OutputDifference(ok=False, what="output 'label': 94 of 200 labels differ")
    untimed = msgspec.structs.replace(golden.compared().result, comparison=None, outputs=found)
    headline = compare_headline.headline(untimed)
    assert headline.index("94 of 200 labels") < headline.index("inconclusive: nothing was timed")


def test_a_label_that_flipped_is_named_beside_the_distance() -> None:
    what = "output 'label' is 3 at element 0, expected 4"
    found = OutputDifference(ok=False, relative_l2=9e-6, cosine=1.0, what=what)
    assert (
        compare_outputs.outputs(found)
        == f"outputs differ beyond rounding ({what}, relative L2 9e-06, cosine 1)"
    )
    assert (
        compare_outputs.outputs(OutputDifference(ok=False, what=what))
        == f"outputs differ beyond rounding ({what})"
    )


@pytest.mark.parametrize(
    ("ratio", "verdict", "told"),
    [
        (1.36, "slower", "1.36x slower (1.33-1.39x)"),
        (0.5, "faster", "2.00x faster (1.96-2.04x)"),
        (1.001, "equivalent", "+0.1 % (-1.9 % to +2.1 %)"),
    ],
)
def test_the_plot_of_a_page_has_the_figure_of_its_headline(ratio: float, verdict: str, told: str) -> None:
    made = golden.comparison(ratio=ratio, ratio_low=0.98 * ratio, ratio_high=1.02 * ratio, verdict=verdict)
    page = pages.render(golden.compared(comparison=made))
    assert told in page and "0.74x" not in page
