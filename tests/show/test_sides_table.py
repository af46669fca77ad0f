"""The table that every comparison has: nothing in it contradicts the headline, and each figure has one name."""

from __future__ import annotations

import msgspec
import pytest

import golden
from facts import facts
from ortune.records import Envelope, FigureChange, Finding, Guard, Plan, RewriteSpec
from ortune.show import sides
from ortune.show.checks import checks
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult, TriedFix
from ortune.verbs.history import words as history_words
from ortune.verbs.history.result import HistoryResult, ReleaseRow

DRIFTED = sides.DRIFTED.format(new="B", base="A")


def rows(**changes: object) -> list[str]:
    found = golden.comparison(**changes)
    table = sides.sides_table(
        [
            ("A", golden.figures(11e6, objective_ns=10e6)),
            ("B", golden.figures(9.9e6, objective_ns=9.2e6, peak_mib=338)),
        ],
        found.statistic, found, "A",
    )  # fmt: skip
    return [" ".join(cell.text for cell in row) for row in table.rows] + list(table.notes)


@pytest.mark.parametrize(
    ("statistic", "name", "kind"),
    [
        ("p50 latency (median over rounds of the ratio of p50s within a round)", "p50", "latency"),
        ("p25 latency (median over rounds of the ratio of p25s within a round)", "p25", "latency"),
        ("p10 latency (of all runs of a block)", "p10", "latency"),
        ("p95 latency", "p95", "other"),
        ("throughput (mean latency, back to back)", "throughput", "other"),
        ("CPU time a run", "CPU time per run", "cpu"),
        ("peak memory", "peak memory", "memory"),
        ("cold start (load and first run)", "cold start", "cold"),
    ],
)  # fmt: skip
def test_a_statistic_has_one_name(statistic: str, name: str, kind: str) -> None:
    assert (sides.statistic_name(statistic), sides.kind(statistic)) == (name, kind)


def test_what_was_compared_comes_first_and_all_that_is_paired_has_its_change() -> None:
    found = rows(
        statistic="p10 latency (of all runs of a block)",
        beside=(
            FigureChange(figure="p50", ratio=0.95, ratio_low=0.9, ratio_high=1.01),
            FigureChange(figure="load", ratio=1.2, ratio_low=1.1, ratio_high=1.3),
        ),
    )
    assert found[0] == "p10 10.0 ms 9.00 ms -10.0 % -12.0 % to -8.0 %"
    assert found[1] == "p50 11.0 ms 10.4 ms -5.0 % -10.0 % to +1.0 %"
    assert found[-3] == "load time 225 ms 270 ms +20.0 % +10.0 % to +30.0 %"
    assert found[-2:] == [sides.LOWER_QUANTILE.format(statistic="p10"), DRIFTED]


def test_medians_that_went_the_other_way_are_explained_and_not_shown() -> None:
    slower = {"ratio": 1.03, "ratio_low": 1.01, "ratio_high": 1.05, "verdict": "slower"}
    assert rows(**slower)[-1] == DRIFTED
    text = compare_headline.headline(golden.compared(comparison=golden.comparison(**slower)).result)
    assert text.startswith(
        "slower: 1.03x in p50 (95 % interval 1.01-1.05x, 24 blocks), A 11.0 ms -> B 11.3 ms"
    )
    assert DRIFTED not in rows()


def test_a_change_without_an_interval_says_why() -> None:
    found = rows()
    assert "p95 13.2 ms 11.9 ms  too few samples" in found
    assert "load time 225 ms 225 ms  single observations" in found


def told(**changes: object) -> list[str]:
    found = golden.comparison(**changes)
    return [line.text for line in checks(golden.CONTROLS, found, ())]


def test_checks_speak_only_where_they_limit_the_claim() -> None:
    fine = Guard(figure="mean", ratio=0.91, ratio_low=0.9, ratio_high=0.92, limit_ratio=1.05)
    unsure = Guard(figure="cpu", ratio=1.1, ratio_low=0.9, ratio_high=1.4, limit_ratio=1.2)
    assert told(guards=(fine,)) == ["checks: passed"]
    (check,) = told(guards=(fine, unsure))
    facts(
        check,
        "CPU time",
        "+10.0 %",
        "-10.0 %",
        "+40.0 %",
        "undecided: more than the limit of +20.0 % is possible",
    )
    worse = "checks: peak memory +30.0 % (+20.0 % to +40.0 %) is WORSE than allowed (limit +10.0 %)"
    assert told() == [worse]
    assert told(verdict="slower") == ["checks: passed"], "what is slower is no better for being smaller"
    missed = golden.msgspec.structs.replace(golden.CONTROLS[1], ok=False)
    (line,) = checks((missed,), None, ())
    assert line.text == "checks: sensitivity check FAILED: an artificial +5.0 % slowdown was missed"


def test_what_is_wrong_with_the_measurement_has_a_line_of_its_own() -> None:
    finding = Finding(code="MSR001", what="latency depends on the values fed", fix="give --inputs")
    other = Finding(code="GRA004", what="opset 9 is old")
    lines = [line.text for line in checks(golden.CONTROLS, None, (finding, other))]
    assert lines == ["checks: passed", "MSR001 latency depends on the values fed -> give --inputs"]
    assert [line.text for line in checks((), golden.comparison(guards=()), ())] == [
        "checks: controls not run"
    ]


QUARTILE = "p25 latency (median over rounds of the ratio of p25s within a round)"


def test_a_diagnosis_names_what_was_compared_and_what_was_changed() -> None:
    fix = TriedFix(
        codes=("SES002",),
        plan=Plan(settings={"graph_optimization_level": "all"}),
        figures=golden.figures(9.9e6, objective_ns=9e6),
        comparison=golden.comparison(statistic=QUARTILE),
    )
    result = DiagnoseResult(
        side=golden.side(),
        statistic=QUARTILE,
        figures=golden.figures(11e6, objective_ns=10e6),
        findings=(Finding(code="SES002", what="graph optimisations are limited to level basic"),),
        tried=(fix,),
        session="20261123-abcdef",
    )
    assert diagnose_words.headline(result) == (
        "faster: 1.11x in p25 (95 % interval 1.09-1.14x, 24 blocks), 10.0 ms -> 9.00 ms; "
        "with graph_optimization_level=all (fixes SES002)"
    )
    envelope = Envelope(schema="ortune/diagnose/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(diagnose_words.document(envelope), 120).split())
    facts(text, "p25", "as it is 10.0 ms", "SES002 graph_optimization_level=all 9.00 ms")
    facts(text, "SES002", "graph optimisations", "level basic")
    assert "ortune report 20261123-abcdef -v" in text


def test_a_fix_that_the_budget_did_not_hold_is_no_manual_one_and_has_a_rerun() -> None:
    plan = Plan(rewrites=(RewriteSpec(name="constant-folding"),))
    late = TriedFix(codes=("SHP002",), plan=plan, failed=diagnose_words.no_time(120.0))
    findings = (
        Finding(code="SHP002", what="shapes are computed", plan=plan, fix="ortune compare a.onnx"),
        Finding(code="GRA005", what="time between nodes", fix="merge nodes"),
    )
    result = DiagnoseResult(
        side=golden.side(), findings=findings, tried=(late,), enough_s=150,
        reproduce="ortune diagnose a.onnx --dim seq=8 --budget 90s", tune="ortune tune a.onnx",
    )  # fmt: skip
    assert late.failed.endswith("(--budget 150s is enough)")
    head = diagnose_words.headline(result)
    facts(head, "2 findings", "--budget 150s is enough to measure the fix for SHP002")
    assert "manual" not in head
    envelope = Envelope(schema="ortune/diagnose/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(diagnose_words.document(envelope), 140).split())
    facts(text, "SHP002", "ortune diagnose a.onnx --dim seq=8 --budget 150s")
    done = msgspec.structs.replace(result, tried=(), enough_s=0.0)
    assert diagnose_words.headline(done).endswith("GRA005 needs a manual fix")


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        (("inconclusive",), "inconclusive: +73.0 %; the only fix measured, of SES002"),
        (("inconclusive", "slower"), "inconclusive: +73.0 %; the nearest of 2 fixes measured, of SES002"),
        (
            ("equivalent", "slower"),
            "equivalent (within 1 %): +73.0 %; the nearest of 2 fixes measured, of SES002",
        ),
        (("equivalent",), "equivalent (within 1 %): +73.0 %; the only fix measured, of SES002"),
    ],
)
def test_a_fix_that_was_not_confirmed_is_not_said_not_to_pay(verdicts: tuple[str, ...], told: str) -> None:
    tried = tuple(
        TriedFix(
            codes=("SES002",), plan=Plan(), figures=golden.figures(19e6),
            comparison=golden.comparison(ratio=1.73, ratio_low=0.8, ratio_high=2.2, verdict=verdict),
        )
        for verdict in verdicts
    )  # fmt: skip
    result = DiagnoseResult(
        side=golden.side(), statistic=QUARTILE, figures=golden.figures(11e6), tried=tried,
        findings=(Finding(code="SES002", what="a finding"),),
        controls=(msgspec.structs.replace(golden.CONTROLS[1], detected=False),),
    )  # fmt: skip
    start, _, end = told.partition("; ")
    text = diagnose_words.headline(result)
    assert text.startswith(start) and text.endswith(f"; {end}")
    envelope = Envelope(schema="ortune/diagnose/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(diagnose_words.document(envelope), 120).split())
    assert "passed" not in text and "too small to detect in 9 blocks" in text


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("inconclusive", "inconclusive: no release is confirmed to have changed the p25"),
        ("equivalent", "inconclusive: no release changed the p25"),
    ],
)
def test_a_history_says_no_change_only_where_that_was_shown(verdict: str, told: str) -> None:
    found = golden.comparison(statistic=QUARTILE, ratio=1.73, ratio_low=0.8, ratio_high=2.2, verdict=verdict)
    newest = ReleaseRow(release="1.31.1", figures=golden.figures(11e6), since_previous=found)
    result = HistoryResult(side=golden.side(), statistic=QUARTILE, rows=(newest,), changed=(), whole=None)
    assert history_words.headline(result).startswith(told)


def test_a_release_whose_median_shows_another_change_has_the_value_of_the_paired_one() -> None:
    found = golden.comparison(statistic=QUARTILE, ratio=0.722, ratio_low=0.714, ratio_high=0.809)
    same = golden.comparison(statistic=QUARTILE, ratio=1.0, ratio_low=0.99, ratio_high=1.01)
    rows_ = (
        ReleaseRow(release="1.32.0", figures=golden.figures(9.7e6), since_previous=same),
        ReleaseRow(release="1.31.1", figures=golden.figures(9.88e6), since_previous=found),
        ReleaseRow(release="1.22.1", figures=golden.figures(12.1e6)),
    )
    result = HistoryResult(
        side=golden.side(), statistic=QUARTILE, rows=rows_, changed=("1.31.1",), whole=None
    )
    envelope = Envelope(schema="ortune/history/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(history_words.document(envelope), 120).split())
    assert (
        "1.22.1 12.1 ms" in text
        and "1.31.1 8.74 ms" in text
        and "1.32.0 8.74 ms" in text
        and "-27.8 % (-28.6 % to -19.1 %)" in text
    )


def test_a_history_names_what_was_compared() -> None:
    found = golden.comparison(statistic=QUARTILE)
    newest = ReleaseRow(
        release="1.31.1", figures=golden.figures(9.9e6, objective_ns=9e6), since_previous=found
    )
    oldest = ReleaseRow(release="1.22.1", figures=golden.figures(11e6, objective_ns=10e6))
    result = HistoryResult(
        side=golden.side(), statistic=QUARTILE, rows=(newest, oldest), changed=("1.31.1",), whole=found
    )
    assert history_words.headline(result) == (
        "faster: 1.11x in p25 (95 % interval 1.09-1.14x, 24 blocks), 1.31.1 against 1.22.1; "
        "1.31.1 is faster than the previous release in p25 by -10.0 % (-12.0 % to -8.0 %)"
    )
    envelope = Envelope(schema="ortune/history/1", ortune="0.1.0", status="ok", result=result)
    text = " ".join(golden.printed(history_words.document(envelope), 120).split())
    facts(text, "onnxruntime p25", "1.31.1 9.00 ms -10.0 %")


def _ns(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"us": 1e3, "ms": 1e6, "s": 1e9}[unit]


@pytest.mark.parametrize("ratio", [0.6, 1.0, 1.71])
@pytest.mark.parametrize("p95_ratio", [None, 0.9, 1.8])
def test_no_p95_is_below_the_p50_of_its_side(ratio: float, p95_ratio: float | None) -> None:
    """The p50 of B is A's times the paired change, and its p95 may be of other moments."""
    unknown = Guard(figure="p95", limit_ratio=1.05, known=False, note="too few samples")
    known = Guard(figure="p95", ratio=p95_ratio, ratio_low=0.8, ratio_high=2.0, limit_ratio=1.05)
    found = golden.comparison(ratio=ratio, guards=(known if p95_ratio else unknown,))
    pair = [("A", golden.figures(11e6)), ("B", golden.figures(9.9e6))]
    table = sides.sides_table(pair, found.statistic, found, "A")
    cells = {row[0].text: [cell.text for cell in row[1:3]] for row in table.rows}
    for p50, p95 in zip(cells["p50"], cells["p95"], strict=True):
        assert p95 == sides.UNKNOWN or _ns(p95) >= 0.99 * _ns(p50)
    assert (ratio < 1.7 or p95_ratio == 1.8) or DRIFTED in table.notes


@pytest.mark.parametrize(
    "statistic",
    [
        "p25 latency (median over rounds of the ratio of p25s within a round)",
        "p10 latency (of all runs of a block)",
        "p95 latency",
    ],
)
@pytest.mark.parametrize("p50_ratio", [None, 0.6, 1.0, 1.8])
def test_quantiles_of_a_side_are_in_order(statistic: str, p50_ratio: float | None) -> None:
    name = sides.statistic_name(statistic)
    beside = (FigureChange(figure="p50", ratio=p50_ratio, ratio_low=0.5, ratio_high=2.0),)
    found = golden.comparison(statistic=statistic, ratio=1.0, beside=beside if p50_ratio else ())
    ns = {"p10": 9e6, "p25": 10e6, "p95": 14.3e6}[name]
    pair = [
        ("A", golden.figures(11e6, objective_ns=ns)),
        ("B", golden.figures(9e6, objective_ns=0.8 * ns)),
    ]
    table = sides.sides_table(pair, found.statistic, found, "A")
    cells = {row[0].text: [cell.text for cell in row[1:3]] for row in table.rows}
    for side in range(2):
        written = [texts[side] for q in ("p10", "p25", "p50", "p95") if (texts := cells.get(q))]
        values = [_ns(text) for text in written if text != sides.UNKNOWN]
        assert cells[name][side] != sides.UNKNOWN and values == sorted(values), written
    assert any("p50 in the calibration" in note for note in table.notes) == (name != "p95")


@pytest.mark.parametrize(
    ("verdict", "statistic", "named"),
    [
        ("faster", "idle memory", True),
        ("slower", "idle memory", False),
        ("faster", "p50 latency (median over rounds of the ratio of p50s within a round)", False),
    ],
)
def test_a_side_with_less_memory_names_the_memory_that_is_more(
    verdict: str, statistic: str, named: bool
) -> None:
    found = golden.comparison(
        statistic=statistic,
        verdict=verdict,
        beside=(
            FigureChange(figure="released", ratio=1.02, ratio_low=0.99, ratio_high=1.05),
            FigureChange(figure="load", ratio=1.2, ratio_low=1.1, ratio_high=1.3),
        ),
        guards=(
            Guard(figure="memory", ratio=1.27, ratio_low=1.25, ratio_high=1.3, limit_ratio=1.1, failed=False),
        ),
    )
    said = sides.more_memory(found)
    assert said == (["MORE peak memory +27.0 % (+25.0 % to +30.0 %)"] if named else [])
