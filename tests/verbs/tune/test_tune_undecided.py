"""The answer of a tuning that confirmed nothing: what was seen, what was not tested, and the command that decides."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

import golden
import golden_tune
from facts import facts
from golden_tune_parts import confirmed
from ortune.records import (
    WORSENS,
    Control,
    Envelope,
    OutputDifference,
    Plan,
    ProviderSpec,
    TradeRow,
    UntestedTarget,
)
from ortune.search.halving import Entry
from ortune.search.reasons import ENDED, Reason
from ortune.search.tables import candidates
from ortune.show import markdown
from ortune.show.html import pages
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs._shared.tuned_words import reason
from ortune.verbs.report import brief
from ortune.verbs.report import several as history
from ortune.verbs.report.result import StoredSession
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune import page as tune_page
from ortune.verbs.tune import words as tune_words
from ortune.verbs.tune.across import unreached_targets


def test_plans_that_were_seen_and_not_confirmed_are_no_claim_and_one_budget_confirms_them() -> None:
    text = tune_headline.headline(golden_tune.KINDS["exploratory"].result)
    facts(
        text,
        "inconclusive: ",
        "looks 1.11x faster in p50",
        "exploratory: 2 blocks",
        "rerun with --budget 150s",
    )
    assert "no improvement" not in text and "best" not in text
    slower = tune_headline.headline(golden_tune.exploratory(1.02).result)
    facts(slower, "inconclusive: nothing looks faster", "unconfirmed", "--budget 150s")
    envelope = golden_tune.KINDS["exploratory"]
    rendered = pages.render(envelope)
    assert "<span>Inconclusive</span>" in rendered
    asked = "120s"  # stands where the page says how it was made
    for text in (rendered, markdown.render(tune_words.document(envelope))):
        assert {*re.findall(r"--budget (\w+)", text)} - {asked} == {"150s"}
    proposed = tune_words.next_commands(envelope)
    assert [line for line in proposed if "--budget" in line] == [
        "ortune tune model.onnx --dim seq=128 --budget 150s"
    ]


def test_what_was_seen_and_not_confirmed_is_a_table() -> None:
    (row,) = tune_words.explored(golden_tune.exploratory().result).rows
    assert [cell.text for cell in row][1:] == ["1.11x", "2", "exploratory, unconfirmed"]
    assert not tune_words.explored(golden_tune.default_best().result).rows
    found = golden_tune.exploratory().result
    for ratio in (None, 0.05):
        wrong = msgspec.structs.replace(found.candidates[1], status="wrong-output", ratio=ratio)
        both = msgspec.structs.replace(found, candidates=(found.candidates[0], wrong))
        shown = tune_words.explored(both)
        assert len(shown.rows) == 1 and shown.notes == ("1 more failed or had wrong outputs (-v lists them)",)
        assert "looks 1.11x faster" in tune_headline.headline(both)


def test_the_fastest_that_worsens_another_metric_is_rejected_in_the_table_and_no_headline() -> None:
    found = golden_tune.exploratory().result
    best, *others = found.candidates
    worse = msgspec.structs.replace(
        others[0],
        status="eliminated",
        ratio=0.5,
        n_blocks=2,
        reason="guard",
        why=f"{WORSENS}: peak memory +30 %, limit +26 %",
    )
    both = msgspec.structs.replace(found, candidates=(worse, best))
    rows = [[cell.text for cell in row][1:] for row in tune_words.explored(both).rows]
    assert rows == [
        ["2.00x", "2", "exploratory, rejected: peak memory +30 %, limit +26 %"],
        ["1.11x", "2", "exploratory, unconfirmed"],
    ]
    assert "looks 1.11x faster" in tune_headline.headline(both)
    alone = msgspec.structs.replace(found, candidates=(worse,))
    assert "nothing looks faster" in tune_headline.headline(alone)


def test_a_plan_that_ran_in_one_block_has_a_row_where_nothing_can_be_confirmed() -> None:
    entry = Entry(plan=Plan(settings={"allow_spinning": False}), origin="rule", ratios=[math.log(0.8)])
    search = SimpleNamespace(
        race=SimpleNamespace(entries={"a": entry}, with_current=False, timed_only=None),
        needs_package=lambda _: False,
        default=Plan(),
        current=None,
        winner=None,
        is_passed_over=lambda _: False,
    )
    (row,) = candidates(cast("Any", search), [], Plan(), None, worded=reason, exploring=True)
    assert row.ratio == pytest.approx(0.8) and (row.n_blocks, row.ratio_low) == (1, None)
    (claimed,) = candidates(cast("Any", search), [], Plan(), None, worded=reason)
    assert claimed.ratio is None and claimed.why == "observed but not confirmed"
    search.winner = Entry(plan=Plan(settings={"allow_spinning": True}), origin="rule")
    (beside,) = candidates(cast("Any", search), [], Plan(), None, worded=reason)
    # Its own ratio may be the better one: plans with few blocks are ranked lower.
    assert beside.why == "another configuration led the search"


def test_one_block_of_a_plan_is_told_without_a_factor_and_with_what_decides() -> None:
    """The budget ended before its second block: something was tested, and it claims nothing."""
    entry = Entry(plan=Plan(settings={"intra_op_num_threads": 1}), origin="knob", ratios=[math.log(0.08)])
    entry.eliminate("not-tried", ENDED)
    race = SimpleNamespace(entries={"a": entry}, with_current=False, timed_only=None)
    search = SimpleNamespace(race=race, default=Plan(), current=None, needs_package=lambda _: False)
    rows = candidates(cast("Any", search), [], Plan(), None, worded=reason, exploring=True)
    assert [(row.status, row.ratio, row.n_blocks) for row in rows] == [("eliminated", pytest.approx(0.08), 1)]
    envelope = golden_tune.exploratory(candidates=rows)
    text = tune_headline.headline(envelope.result)
    facts(text, "inconclusive: intra_op_num_threads=1 looks fastest", "1 block, unconfirmed")
    assert text.endswith("rerun with --budget 150s")
    shown = golden.printed(tune_words.document(envelope), 120)
    facts(shown, "intra_op_num_threads=1", "1", "exploratory, unconfirmed")
    assert "12.5x" not in text + shown


def test_a_challenger_that_does_not_confirm_is_told_and_claims_nothing() -> None:
    text = tune_headline.headline(golden_tune.KINDS["not-confirmed"].result)
    facts(text, "inconclusive: ", "-3.0 %", "+1.0 %", "intra_op_num_threads=2", "best of 7 configurations")
    assert "faster" not in text and "keep" not in text


def test_nothing_tried_claims_nothing() -> None:
    text = tune_headline.headline(golden_tune.KINDS["bare"].result)
    assert text == "nothing tested: nothing fits"
    assert not any(claim in text for claim in ("best", "faster", "confirmed", " %"))


def test_plans_that_the_budget_or_a_guard_left_out_are_known_by_a_code_not_by_their_words() -> None:
    waiting, ended, impossible, seen, larger = (
        Entry(plan=Plan(settings={"intra_op_num_threads": n}), origin="knob") for n in range(1, 6)
    )
    ended.eliminate("not-tried", ENDED)
    impossible.eliminate("not-tried", Reason(code="not-rewritten", text="over its budget of memory"))
    seen.ratios.append(0.0)
    seen.eliminate("not-tried", ENDED)
    larger.worsens = "peak memory +30 %, limit +26 %"
    larger.eliminate("eliminated", Reason(code="worsens", text=larger.worsens))
    race = SimpleNamespace(entries={}, with_current=False, timed_only=None)
    search = SimpleNamespace(race=race, default=Plan(), current=None, needs_package=lambda _: False)
    rows = candidates(
        cast("Any", search), [waiting, ended, impossible, seen, larger], Plan(), None, worded=reason
    )
    assert {row.plan.id: row.reason for row in rows} == {
        waiting.arm: "budget", ended.arm: "budget", impossible.arm: None, seen.arm: None, larger.arm: "guard",
    }  # fmt: skip
    assert {row.plan.id for row in tune_facts.untried_plans(rows)} == {waiting.arm, ended.arm}


def untested(kind: str = "default") -> Envelope:
    """A tuning whose time was over after calibrating."""
    left = tuple(
        msgspec.structs.replace(
            c, status="not-tried", why="not tested", reason="budget", ratio=None, n_blocks=0
        )
        for c in golden_tune.candidates()
        if c.status not in ("default", "current")
    )
    changes = {"candidates": left, "smallest_effect_ratio": None, "against_current": None}
    if kind == "default":
        return golden_tune.default_best(**changes)
    none = {"winner": golden_tune.CURRENT, "winner_figures": None, "settings": ()}
    return golden_tune.with_current(**changes, **none, against_default=None)


def test_a_target_that_was_asked_for_is_named_where_no_time_was_left_for_it() -> None:
    result = msgspec.structs.replace(untested().result, not_tried=())
    on = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    waiting = msgspec.structs.replace(result.candidates[-1], plan=on)
    asked = msgspec.structs.replace(result, candidates=(*result.candidates, waiting))
    (left,) = unreached_targets(asked, ["openvino"])
    assert left == UntestedTarget(target="openvino", reason="no-time", enough_s=360)
    facts(tune_details.untested_target(left), "openvino", "not tested", "no time", "--budget 360s")
    # Before anything was proposed, and where it was refused with a reason, which is told instead.
    assert unreached_targets(msgspec.structs.replace(result, candidates=()), ["openvino"]) == (left,)
    assert unreached_targets(result, ["openvino"]) == ()
    both = msgspec.structs.replace(asked, not_tried=("int8",), untested_targets=(left,))
    text = tune_words.untested(both)
    facts(text, "not tested", "1 not possible or allowed here (-v lists them)", "openvino", "--budget 360s")
    assert text.count("not tested") == 1
    alone = msgspec.structs.replace(result, candidates=(), untested_targets=(left,))
    assert tune_words.untested(alone) == tune_details.untested_target(left)


@pytest.mark.parametrize("accepting", [0.02, None])
def test_a_default_in_lower_precision_is_named_with_what_makes_it_exact(accepting: float | None) -> None:
    plan = Plan(providers=(ProviderSpec(name="OpenVINOExecutionProvider"),))
    difference = OutputDifference(ok=False, what="y is 1 % away", accepting_tolerance=accepting)
    lowered = UntestedTarget(
        target="openvino",
        reason="lower-precision",
        plan=plan,
        settings={"openvino_precision": "f32"},
        difference=difference,
    )
    result = msgspec.structs.replace(untested().result, not_tried=(), untested_targets=(lowered,))
    text = tune_words.untested(result)
    facts(text, plan.describe(), "lower precision", "y is 1 % away", "openvino_precision=f32")
    assert ("--tolerance 0.02" in text) == (accepting is not None)
    (row,) = [value for name, value in tune_details.details(result) if name == "not tried"]
    assert row == tune_details.untested_target(lowered)


@pytest.mark.parametrize("kind", ["default", "today"])
def test_nothing_tested_is_never_keep_the_default(kind: str) -> None:
    envelope = untested(kind)
    text = tune_headline.headline(envelope.result)
    facts(text, "nothing tested: the budget ran out before any other configuration ran", "--budget 360s")
    found = brief.make(envelope, {}, spins=lambda plan: True)
    assert found is not None
    assert found.decision == "unproven" and found.answer.startswith("nothing tested")
    enough = f"--budget {envelope.result.budget.enough_s or 600:.0f}s"
    assert any(enough in step for step in found.next_steps)
    large = tune_page.title(envelope.result)
    assert large == "Nothing tested"
    page_text = pages.render(envelope)
    for claim in (
        "Keep the default",
        "keep the default",
        "Keep the current configuration",
        "no gain confirmed",
    ):
        assert claim not in text + page_text
    session = StoredSession(id="x", verb="tune", state="done", document=envelope)
    assert "no better configuration found" not in history.rows([session])[0]


@pytest.mark.parametrize(("share", "best"), [(0.83, False), (0.2, False), (None, False), (0.05, True)])
def test_what_runs_is_the_best_only_where_a_gain_would_have_been_seen(
    share: float | None, best: bool
) -> None:
    for envelope in (
        golden_tune.default_best(smallest_effect_ratio=share),
        msgspec.structs.replace(
            golden_tune.KINDS["current-best"],
            result=msgspec.structs.replace(
                golden_tune.KINDS["current-best"].result, smallest_effect_ratio=share
            ),
        ),
    ):
        found = brief.make(envelope, {}, spins=lambda plan: True)
        assert found is not None
        text = tune_headline.headline(envelope.result)
        assert "no gain confirmed among" in text and ("keep " in text) == best
        assert tune_page.title(envelope.result).startswith("Keep " if best else "Inconclusive")
        assert found.decision == ("keep" if best else "unproven")


def test_configurations_that_all_failed_are_no_proof() -> None:
    failed = tuple(
        msgspec.structs.replace(c, status="failed", ratio=None, n_blocks=0)
        for c in golden_tune.candidates()
        if c.status not in ("default", "current", "not-tried")
    )
    text = tune_headline.headline(
        golden_tune.default_best(candidates=failed, smallest_effect_ratio=0.01).result
    )
    facts(text, "no gain confirmed", f"{len(failed)} configurations", "failed")


def test_what_would_have_been_seen_falls_back_on_the_known_wait() -> None:
    found = golden_tune.default_best(smallest_effect_ratio=None).result
    assert "an artificial +5.0 % slowdown was detected" in tune_headline.headline(found)
    missed = Control(name="spike-in", ok=True, n_blocks=9, expected_ratio=1.05, detected=False)
    quiet = msgspec.structs.replace(found, controls=(missed,))
    assert "the minimum detectable effect is not known" in tune_headline.headline(quiet)


def test_what_leads_is_what_the_first_command_confirms() -> None:
    best = golden_tune.exploratory().result.candidates[0]
    combination = msgspec.structs.replace(best, plan=Plan(settings={"intra_op_num_threads": 1}))
    envelope = golden_tune.exploratory(candidates=(combination,), reproduce="ortune tune m.onnx --budget 40s")
    assert tune_headline.leading(envelope.result) == combination
    first = tune_words.next_commands(envelope)[0]
    facts(first, "ortune compare m.onnx", "--b-set intra_op_num_threads=1")
    assert tune_headline.leading(golden_tune.exploratory(1.02).result) is None


def test_a_default_that_nothing_confirmed_is_not_called_the_fastest_above_a_faster_row() -> None:
    row = TradeRow(title="fastest", plan=Plan(), latency_ns=242e6, cpu_per_run_ns=4e8, kept=True)
    assert tune_details.trade_cells(row)[0] == "fastest confirmed"
    assert tune_details.trade_cells(msgspec.structs.replace(row, kept=False))[0] == "fastest"


def test_the_page_in_a_bundle_without_gain_says_what_the_bundle_contains() -> None:
    page = pages.render(golden_tune.default_best(bundle=tune_headline.HERE))
    facts(page, "No change is proposed", "This bundle contains the default configuration")
    assert "ready to ship" not in page


def test_without_a_test_there_is_no_fastest_plan_and_no_chart_to_read() -> None:
    rows = tuple(
        msgspec.structs.replace(row, confirmed=False, kept=row.title == "fastest", plan=Plan())
        for row in golden_tune.tuned().result.trade
    )
    envelope = untested()
    envelope = msgspec.structs.replace(envelope, result=msgspec.structs.replace(envelope.result, trade=rows))
    assert tune_facts.nothing_tested(envelope.result)
    tuned = golden_tune.tuned().result
    assert len(tune_details.trade_rows(tuned, tune_words.figures_table(tuned))) == len(rows) == 3
    shown = " ".join(markdown.render(tune_words.document(envelope)).split())
    page = pages.render(envelope)
    for text in (shown, page):
        assert "fastest confirmed" not in text and "least CPU time" not in text
    assert "dashed line" not in page
    assert "dashed line" in pages.render(golden_tune.tuned()), "beside the charts of the guards"


def test_the_minimum_detectable_effect_is_one_figure_on_a_page() -> None:
    leader = golden_tune.refused(confirmed(0.99, 0.95, 1.03, verdict="inconclusive"))
    seen = msgspec.structs.replace(leader.comparison, smallest_effect_ratio=0.179)
    envelope = golden_tune.default_best(
        refused=msgspec.structs.replace(leader, comparison=seen), smallest_effect_ratio=None
    )
    assert "minimum detectable effect 17.9 %" in tune_headline.headline(envelope.result)
    rows = dict(tune_page._sure(envelope.result, tune_facts.deciding(envelope.result)))
    assert rows["minimum detectable effect"] == "17.9 %"


def test_figures_of_the_search_are_not_confirmed_and_have_their_number_of_blocks() -> None:
    row = TradeRow(title="least CPU time", plan=Plan(), latency_ns=1e6, cpu_per_run_ns=1e6, n_blocks=2)
    assert tune_details.trade_cells(row)[-1] == "not confirmed, 2 search blocks"
    page = pages.render(golden_tune.tuned())
    assert "search blocks; not confirmed; eliminated" in page
    assert "search blocks; not confirmed; winner" not in page
