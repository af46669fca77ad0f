"""A comparison that decides nothing, or claims without controls: what was seen, and which command decides."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
from facts import facts
from ortune.records import Case, Envelope, Gate, OtherPrograms, OutputDifference, Workload
from ortune.show import github
from ortune.show.html import pages
from ortune.verbs._shared.other_programs import worded
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.compare import run as compare
from ortune.verbs.compare import words as compare_words


def flat_text(envelope: Envelope) -> str:
    """What the terminal shows, with what supports the answer, as one line."""
    return " ".join(golden.printed(compare_words.document(envelope), 140, whole=True).split())


@pytest.mark.parametrize(
    ("ratio", "seen"),
    [(1.73, "1.73x slower than A in p50 (+73.0 %)"), (0.015, "66.7x faster than A in p50 (-98.5 %)")],
)
def test_too_few_blocks_are_inconclusive_with_what_was_seen_and_what_decides(ratio: float, seen: str) -> None:
    made = golden.comparison(
        ratio=ratio, ratio_low=0.0, ratio_high=None, smallest_effect_ratio=None, n_blocks=5, more_blocks=1,
        verdict="inconclusive",
    )  # fmt: skip
    gate = Gate(threshold_ratio=0.05, answer="no-answer", undecided_counts_as="pass", reason="too-few-blocks")
    envelope = golden.compared(comparison=made, controls=(), gate=gate, enough_s=31.0)
    flat = flat_text(envelope)
    assert "no difference" not in flat
    assert f"inconclusive: B looks {seen}, but 5 blocks" in flat
    facts(flat, "5 blocks", "confirm", "6 needed", "--budget 40s")
    facts(flat, "NO ANSWER", "5.0 %", "5 blocks", "6 needed")
    assert "checks: controls not run;" in flat, "beside a guard that failed"
    assert github.render(compare_words.document(envelope)).startswith("::error ")
    assert compare.exit_code(envelope) == 3


def test_a_rerun_of_a_gate_is_the_same_gate() -> None:
    gate = Gate(threshold_ratio=0.05, answer="no-answer", undecided_counts_as="fail", reason="too-few-blocks")
    envelope = golden.compared(
        comparison=None, base_figures=None, new_figures=None, cases=(), controls=(), gate=gate, enough_s=31.0
    )
    work = Workload(cases=(Case(name="default", inputs=()),))
    flat = flat_text(msgspec.structs.replace(envelope, workload=work))
    assert "wrong" not in flat
    assert "--threshold 5% --undecided fail --budget 40s" in flat


def test_a_rerun_of_an_open_question_has_one_budget_and_the_tolerance_of_the_user() -> None:
    made = golden.comparison(
        ratio=0.97, ratio_low=0.68, ratio_high=1.25, n_blocks=6, verdict="inconclusive", more_s=7000.0,
        more_blocks=500,
    )  # fmt: skip
    accepted = OutputDifference(ok=True, relative_l2=0.02, tolerance=0.02)
    envelope = golden.compared(
        comparison=made, controls=(), gate=None, enough_s=130.0, elapsed_s=70.0, outputs=accepted
    )
    work = Workload(cases=(Case(name="default", inputs=()),))
    envelope = msgspec.structs.replace(envelope, workload=work)
    flat = flat_text(envelope)
    # 70 s and the "2 h more" of the headline are 7070 s.
    facts(flat, "2 h more may settle it")
    assert re.findall(r"--budget \S+", flat) == ["--budget 118m"]
    assert "--tolerance 0.02 --budget 118m" in flat
    assert "controls not run" in flat
    judged = OutputDifference(ok=True, asked="metric>=99%", judged_by="accuracy", metric_base=1.0, metric=1.0)
    result = msgspec.structs.replace(envelope.result, outputs=judged)
    again = flat_text(msgspec.structs.replace(envelope, result=result))
    assert "--metric accuracy --tolerance 'metric>=99%' --budget 118m" in again


def test_a_claim_without_controls_says_so_and_passes_no_gate() -> None:
    gate = Gate(
        threshold_ratio=0.05, answer="no-answer", undecided_counts_as="pass", reason="controls-not-run"
    )
    envelope = golden.compared(controls=(), gate=gate, enough_s=31.0)
    flat = flat_text(envelope)
    facts(flat, "24 blocks", "not run", "--budget 40s")
    facts(flat, "gate: NO ANSWER at 5.0 %", "controls not run")
    page = pages.render(envelope)
    assert "Faster; controls not run" in page
    assert compare.exit_code(envelope) == 3


def test_an_inconclusive_answer_comes_with_what_would_have_been_seen() -> None:
    made = golden.comparison(
        ratio=0.997, ratio_low=0.9, ratio_high=None, verdict="inconclusive", more_blocks=80, more_s=372.0
    )
    text = compare_headline.headline(golden.compared(comparison=made).result)
    assert text.startswith("inconclusive: -0.3 % in p50 (95 % interval -10.0 % or more, 24 blocks)")
    assert "-10.0 % or more" in text
    facts(text, "2.1 %", "6 min")


def test_unused_time_is_named_where_controls_were_not_run() -> None:
    envelope = golden.compared(controls=(), gate=None, enough_s=150.0, budget_s=120.0, elapsed_s=91.0)
    text = compare_headline.headline(envelope.result)
    facts(text, "controls not run", "estimated to take longer than the 30 s left", "rerun with --budget 180s")
    spent = golden.compared(controls=(), gate=None, enough_s=150.0, budget_s=120.0, elapsed_s=119.0)
    assert "unused" not in compare_headline.headline(spent.result)


def test_a_longer_time_exceeds_the_given_budget() -> None:
    made = golden.comparison(
        ratio=0.997, ratio_low=0.9, ratio_high=1.1, verdict="inconclusive", more_blocks=2, more_s=5.0
    )
    envelope = golden.compared(comparison=made, gate=None, enough_s=None, budget_s=120.0, elapsed_s=91.0)
    work = Workload(cases=(Case(name="default", inputs=()),))
    assert "--budget 130s" in flat_text(msgspec.structs.replace(envelope, workload=work))


@pytest.mark.parametrize("favours", [False, True])
def test_too_few_blocks_on_a_busy_machine_ask_for_time_and_quiet_everywhere(favours: bool) -> None:
    others = OtherPrograms(
        used_cpus=1.6, cpus=2, waited_ratio=0.8, explains=False, favours=favours, hides=True
    )
    made = golden.comparison(
        ratio=0.5, ratio_low=0.0, ratio_high=None, smallest_effect_ratio=None, n_blocks=5, more_blocks=1,
        verdict="inconclusive", others=others,
    )  # fmt: skip
    envelope = golden.compared(comparison=worded(made), controls=(), gate=None, enough_s=31.0)
    text = compare_headline.headline(envelope.result)
    facts(text, "B looks 2x faster" if "2x" in text else "B looks 2.00x faster")
    assert text.endswith("rerun with --budget 40s --wait-quiet 10m")
    work = Workload(cases=(Case(name="default", inputs=()),))
    envelope = msgspec.structs.replace(envelope, workload=work)
    flat = flat_text(envelope)
    facts(flat, "more time alone may not settle it", "--wait-quiet 10m", "--budget 40s --wait-quiet 10m")
    for shown in (text, flat, pages.render(envelope), msgspec.json.encode(envelope).decode()):
        assert ("fewer threads win by nature" in shown) == favours


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.3, "1 s"), (38, "40 s"), (372, "6 min"), (5000, "83 min"), (9000, "2 h")]
)
def test_a_forecast_is_as_rough_as_it_is_known(seconds: float, said: str) -> None:
    made = golden.comparison(verdict="inconclusive", more_blocks=80, more_s=seconds)
    assert compare_headline.detectable_effect(made).endswith(f" (about {said} more may settle it)")


def test_nothing_is_forecast_where_nothing_is_known_of_the_time() -> None:
    assert compare_headline.detectable_effect(
        golden.comparison(verdict="inconclusive", more_blocks=3048)
    ).startswith("minimum detectable effect")


def test_too_few_blocks_have_no_interval_and_say_so() -> None:
    made = golden.comparison(
        ratio=0.7,
        ratio_low=0.0,
        ratio_high=None,
        smallest_effect_ratio=None,
        n_blocks=1,
        verdict="inconclusive",
    )
    text = compare_headline.headline(golden.compared(comparison=made).result)
    facts(text, "inconclusive", "1 block", "cannot confirm a change in p50")
    assert "1.43x" not in text and "-30.0 %" not in flat_text(golden.compared(comparison=made))
