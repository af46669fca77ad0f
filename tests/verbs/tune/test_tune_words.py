"""The answer of a tuning as a sentence: what was measured, how sure, and never more than that."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
import golden_tune
from facts import facts
from golden_tune_parts import WINNER, confirmed
from ortune.records import Envelope, Guard, Plan, ProviderSpec
from ortune.show import github, markdown, numbers
from ortune.show import headline as heads
from ortune.show.checks import guard_state
from ortune.show.html import pages
from ortune.verbs._shared import tune_facts, tune_headline, tuned_words
from ortune.verbs.report import brief
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune import why_words
from ortune.verbs.tune import words as tune_words
from pages import Page


def said(kind: str) -> str:
    return tune_headline.headline(golden_tune.KINDS[kind].result)


def test_winner() -> None:
    facts(
        said("winner"),
        "faster: 1.11x in p50 (95 % interval 1.09-1.13x",
        "16 fresh blocks",
        "11.0 ms -> 9.90 ms",
        "with allow_spinning=0",
        "3e-7",
    )


@pytest.mark.parametrize("kind", [kind for kind in golden_tune.KINDS if not kind.startswith("hostile")])
def test_a_headline_has_two_lines_at_most_and_is_the_same_everywhere(kind: str) -> None:
    envelope = golden_tune.KINDS[kind]
    text = said(kind)
    assert len(text) <= 200 and text.split(":")[0] in {*heads.WORDS.values(), "less memory"}
    document = tune_words.document(envelope)
    assert text in " ".join(golden.printed(document, 100).split())
    assert text in github.render(document).replace("%25", "%")
    assert text in Page(pages.render(envelope)).text
    assert heads.word(tune_facts.verdict(envelope.result), envelope.result.statistic) == text.split(":")[0]


@pytest.mark.parametrize("kind", ["winner", "default-best", "exploratory", "current-best"])
def test_the_page_names_the_commands_of_the_terminal(kind: str) -> None:
    envelope = golden_tune.KINDS[kind]
    printed = golden.printed(tune_words.document(envelope), 200)
    on_page = re.findall(r"<code>(ortune .*)\n</code>", pages.render(envelope))
    assert on_page and on_page[: len(tune_words.next_commands(envelope))] == tune_words.next_commands(
        envelope
    )
    assert all(command in printed for command in tune_words.next_commands(envelope))


def test_default_is_best() -> None:
    text = said("default-best")
    facts(text, "inconclusive: no gain confirmed", "7 configurations", "keep the default", "1.5 %")
    assert "faster" not in text


def test_where_a_browsers_default_is_best_no_profile_of_a_process_is_named() -> None:
    page = Plan(providers=(ProviderSpec(name="wasm"),))
    known = {"workload": golden_tune.workload(), "store": ""}
    lines = [
        tune_words.next_commands(msgspec.structs.replace(golden_tune.default_best(**plans), **known))
        for plans in ({}, {"default": page, "winner": page})
    ]
    assert [any(line.startswith("ortune profile") for line in each) for each in lines] == [True, False]


def test_current() -> None:
    facts(
        said("with-current"),
        "faster: 1.17x",
        "1.14-1.21x",
        "16 fresh blocks",
        "current 12.1 ms -> 10.3 ms",
        "the default takes 178 ms",
    )


def test_current_is_already_the_best() -> None:
    text = said("current-best")
    facts(
        text, "7 configurations", "keep the current configuration (p50 12.1 ms)", "default", "178 ms", "1.5 %"
    )
    assert "faster" not in text


def test_an_easy_opponent_is_named_below_the_ratio_in_every_format() -> None:
    envelope = golden_tune.tuned(caution="64 threads on 4 CPUs")
    assert tune_headline.limits(envelope.result) == ["64 threads on 4 CPUs"]
    document = tune_words.document(envelope)
    for text in (golden.printed(document, 100), markdown.render(document), github.render(document)):
        facts(text, "faster: 1.11x in p50", "64 threads on 4 CPUs")
    facts(pages.render(envelope), "faster: 1.11x in p50", "64 threads on 4 CPUs")


def test_a_shape_that_the_winner_loses_stands_in_the_headline() -> None:
    result = golden_tune.KINDS["mixed"].result
    assert "SLOWER" not in tune_headline.headline(result)
    lost = msgspec.structs.replace(result.cases[0], ratio=1.05, ratio_low=1.02, ratio_high=1.08)
    text = tune_headline.headline(msgspec.structs.replace(result, cases=(lost, *result.cases[1:])))
    facts(text, "SLOWER", "seq=16", "+5.0 %", "+2.0 %", "+8.0 %")


def test_a_leader_that_failed_while_it_was_confirmed_is_not_told_as_a_default_that_is_best() -> None:
    fell = "intra_op_num_threads=2 failed 2 times during confirmation: crash: killed by SIGSEGV"
    text = tune_headline.headline(golden_tune.default_best(failed_leader=fell).result)
    assert f"the leader failed: {fell}" in text
    assert "keep" not in text


def test_a_challenger_stopped_by_a_guard_names_the_guard_and_the_way_out() -> None:
    memory = Guard(figure="memory", ratio=1.3, ratio_low=1.2, ratio_high=1.4, limit_ratio=1.1, failed=True)
    found = golden_tune.default_best(
        refused=golden_tune.refused(confirmed(0.8, 0.78, 0.82, guards=(memory,)))
    )
    text = tune_headline.headline(found.result)
    facts(text, "1.25x", "faster", "p50", "1.22-1.28", "+30.0 %", "--allow memory")
    assert "(--allow memory)" in text
    assert text.startswith("inconclusive: no change proposed, after 7 configurations")
    commands = tune_words.next_commands(found)
    assert any("--allow memory" in line for line in commands)
    assert not any("--allow numerics" in line for line in commands)


def test_what_was_far_ahead_and_not_allowed_stands_in_the_answer_itself() -> None:
    """Of a speech model OpenVINO took 59 % less and twice the memory, which only the long form told."""
    aside = "OpenVINO was faster than the default (-59 % in 2 blocks) but was rejected: --allow memory"
    found = golden_tune.default_best(rejected=aside)
    assert aside in " ".join(golden.printed(tune_words.document(found), 100).split())
    assert aside not in golden.printed(tune_words.document(golden_tune.default_best()), 100)
    assert "59 %" in pages.render(found)


def formats(envelope: Envelope) -> list[str]:
    """The document as text, as Markdown and as a page, words only."""
    document = tune_words.document(envelope)
    texts = [golden.printed(document, 140), markdown.render(document), Page(pages.render(envelope)).text]
    return [" ".join(text.replace("|", " ").replace("\\", "").split()) for text in texts]


def test_a_wrong_default_shows_its_time_beside_the_claim() -> None:
    terminal, marked, page = formats(golden_tune.wrong_default())
    for text in (terminal, marked, page):
        facts(text, "faster: 1.11x in p50", "16 fresh blocks", "wrong default", "correct default", "winner")
        facts(text, "the default's outputs are wrong (p50 8.80 ms, -20.0 % against the correct default")
        facts(text, "-22.0 % to -17.0 %, exploratory: 9 blocks); those of graph_optimization_level=basic are")
    assert "vs correct default" in terminal and "vs correct default" in marked
    assert "1.25x (1.20-1.28) 9 search blocks; wrong output" in page
    once = golden_tune.wrong_default(wrong_against_default=None)
    assert all("wrong (p50 8.80 ms, a single observation)" in text for text in formats(once))
    never = golden_tune.wrong_default(wrong_against_default=None, wrong_default_figures=None)
    assert all("outputs are wrong (not timed)" in text for text in formats(never))


@pytest.mark.parametrize("tested", [True, False])
def test_where_nothing_beats_the_right_level_that_level_is_to_be_set(tested: bool) -> None:
    """Keeping the default would keep its wrong outputs."""
    changes = golden_tune.WRONG | ({} if tested else {"candidates": ()})
    envelope = golden_tune.default_best(**changes, winner=golden_tune.BASIC, code=golden_tune.BASIC_CODE)
    for text in formats(envelope):
        facts(text, "set graph_optimization_level=basic")
        facts(text, "ORT_ENABLE_BASIC")
        assert "8.80 ms" in text
        assert "eep the default" not in text and "eep the current" not in text
        assert "you already run" not in text
    made = brief.make(envelope, {}, spins=lambda plan: False)
    assert made is not None
    assert made.answer == "the default's outputs are wrong: set graph_optimization_level=basic"


def test_a_gain_that_is_proven_and_not_worth_a_change_is_called_what_it_is() -> None:
    small = golden_tune.refused(confirmed(0.985, 0.98, 0.99))
    text = tune_headline.headline(golden_tune.default_best(refused=small, worth_ratio=0.03).result)
    facts(text, "1.02x", "faster", "p50", "1.01-1.02", "3.0 %")
    assert "keep" not in text
    today = golden_tune.with_current(
        winner=golden_tune.CURRENT, against_current=None, winner_figures=None, settings=(), refused=small,
        worth_ratio=0.03,
    )  # fmt: skip
    facts(
        tune_headline.headline(today.result),
        "no change proposed, after 7 configurations",
        "the current configuration takes 12.1 ms in p50",
    )


def test_going_back_to_the_default_is_an_answer() -> None:
    result = golden_tune.with_current(
        winner=Plan(),
        winner_figures=None,
        default_figures=golden.figures(10.3e6),
        against_default=None,
        settings=(),
    ).result
    text = tune_headline.headline(result)
    facts(text, "faster: 1.17x", "1.14-1.21x", "current 12.1 ms -> 10.3 ms", "with the untouched default")


def test_no_gain_over_today_is_not_called_one() -> None:
    result = golden_tune.with_current(against_current=confirmed(0.99, 0.97, 1.01)).result
    text = tune_headline.headline(result)
    facts(text, "inconclusive: -1.0 %", "-3.0 %", "+1.0 %", "16 fresh", "1.5 %")
    assert "faster" not in text and "confirmed" not in text


def test_race_figures_never_call_themselves_confirmed() -> None:
    text = tune_headline.headline(
        golden_tune.tuned(against_default=confirmed(0.9, 0.88, 0.92, phase="race")).result
    )
    assert "exploratory, 16 search blocks" in text and "confirmed" not in text


@pytest.mark.parametrize(
    ("statistic", "part"),
    [
        ("peak memory", "less memory: 1.11x in peak memory (95 % interval 1.09-1.13x"),
        ("CPU time per run", "less CPU time: 1.11x in CPU time per run (95 % interval 1.09-1.13x"),
        ("cold start (load and first run)", "faster: 1.11x in cold start (95 % interval 1.09-1.13x"),
        ("p95 latency", "faster: 1.11x in p95 (95 % interval 1.09-1.13x"),
        ("p10 latency (of all runs of a block)", "faster: 1.11x in p10 (95 % interval 1.09-1.13x"),
    ],
)
def test_the_gain_is_named_after_what_was_compared(statistic: str, part: str) -> None:
    found = confirmed(0.9, 0.885, 0.917, statistic=statistic)
    assert tune_headline.headline(
        golden_tune.tuned(statistic=statistic, against_default=found).result
    ).startswith(part)


@pytest.mark.parametrize(
    ("low", "high", "failed", "state"),
    [
        (0.9, 0.97, False, "better"),
        (0.99, 1.04, False, "no worse"),
        (1.01, 1.04, False, "worse, within the limit"),
        (0.9, 1.2, False, "undecided"),
        (0.9, None, False, "undecided"),
        (1.1, 1.2, True, "WORSE than allowed"),
    ],
)
def test_a_guard_says_what_its_interval_shows(
    low: float, high: float | None, failed: bool, state: str
) -> None:
    item = Guard(figure="p95", ratio=1.0, ratio_low=low, ratio_high=high, limit_ratio=1.05, failed=failed)
    assert guard_state(item) == state
    assert tune_details.guard(item).endswith(state)


def test_unknown_guard() -> None:
    item = Guard(figure="p95", limit_ratio=1.05, known=False, note="too few requests")
    assert tune_details.guard(item) == "p95 not known"


def test_rewrites_are_not_called_settings() -> None:
    setting_ = golden_tune.usual().settings[0]
    rewrite = msgspec.structs.replace(setting_, name="hard-swish", value="", shown=False, without_ratio=None)
    assert tune_details.settings_summary((rewrite, rewrite)) == "2 rewrites, not measured one by one"
    assert (
        tune_details.settings_summary((rewrite, setting_)) == "1 rewrite and 1 setting, gain of 1 confirmed"
    )
    assert tune_details.settings_summary((rewrite,)) == "1 rewrite"


def test_settings_that_were_not_shown_to_pay_are_not_said_to() -> None:
    settings = golden_tune.usual().settings
    weak = msgspec.structs.replace(settings[1], shown=False)
    assert tune_details.settings_summary((settings[0], weak)) == "2 settings, gain of 1 confirmed"
    assert tune_details.settings_summary((weak,)) == "1 setting"
    assert tune_details.settings_summary((weak, weak)) == "2 settings, no single gain confirmed"
    assert tune_details.settings_summary(()) == ""


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(0.5, 0.8, "1.25-2.00"), (0.0, 0.8, "1.25 or more"), (0.5, None, "up to 2.00"), (0.0, None, "no bound")],
)
def test_open_intervals_are_said_in_words(low: float, high: float | None, text: str) -> None:
    assert numbers.factors(low, high) == text


@pytest.mark.parametrize(
    ("left_s", "next_s", "confirmed", "parts"),
    [
        (
            76.0,
            90.0,
            True,
            ("76 s of the 180 s", "the next one, spin=0, takes 90 s", "--budget 290s is enough"),
        ),
        (76.0, 60.0, True, ("reserved for the confirmation", "the next one, spin=0, takes 60 s")),
        (76.0, 60.0, False, ("the search had ended", "the next one, spin=0, takes 60 s")),
        (76.0, 0.0, True, ("76 s of the 180 s", "every configuration was tested")),
    ],
)
def test_an_unused_budget_has_its_reason_and_what_would_be_next(
    left_s: float, next_s: float, confirmed: bool, parts: tuple[str, ...]
) -> None:
    text = tuned_words.unspent(left_s, 180.0, next_s, "spin=0", confirmed=confirmed, enough_s=290.0)
    facts(text, *parts)
    result = golden_tune.usual()
    budget = msgspec.structs.replace(result.budget, left_s=left_s, unspent=text)
    envelope = golden_tune.tuned(budget=budget)
    assert text in " ".join(golden.printed(tune_words.document(envelope), 100).split())
    assert text in Page(pages.render(envelope)).text
    assert f"{left_s:.0f} s left" in tune_details.spent(envelope.result)


def test_a_budget_that_was_used_needs_no_reason() -> None:
    assert tuned_words.unspent(8.0, 180.0, 90.0, "spin=0", confirmed=True, enough_s=0.0) == ""


def test_the_winner_has_the_same_values_in_both_tables() -> None:
    result = golden_tune.tuned().result
    sides = tune_words.figures_table(result)
    row = next(row for row in result.trade if row.confirmed)
    # Its own median is of other moments than the default's.
    drifted = msgspec.structs.replace(row, peak_bytes=9 * row.peak_bytes)
    trade = tune_details.trade_rows(msgspec.structs.replace(result, trade=(drifted,)), sides)
    at = [column.head for column in sides.columns].index("winner")
    assert trade[0][4] == {cells[0].text: cells[at].text for cells in sides.rows}["peak memory"]


def test_several_changes_are_one_subject() -> None:
    both = "allow_spinning=0, intra_op_num_threads=2"
    assert tuned_words.subject(both) == f"the combination {both}"
    assert tuned_words.subject("allow_spinning=0") == "allow_spinning=0"
    result = golden_tune.exploratory().result
    best = msgspec.structs.replace(result.candidates[0], plan=WINNER)
    text = tune_headline.headline(msgspec.structs.replace(result, candidates=(best,)))
    assert f"the combination {both} looks 1.11x faster" in text


def test_configurations_in_a_list_have_a_line_each() -> None:
    untried = golden_tune.candidates()[-1]
    rows = [
        msgspec.structs.replace(untried, plan=Plan(settings={"intra_op_num_threads": n, "allow_spinning": 0}))
        for n in range(2, 11)
    ]
    found = msgspec.structs.replace(golden_tune.KINDS["not-confirmed"].result, candidates=tuple(rows))
    assert untried.status == "not-tried" and untried.reason == "budget"
    names = [*(f"allow_spinning=0, intra_op_num_threads={n}" for n in range(2, 8)), "and 3 more"]
    listed = tune_details.details(found)
    at = [name for name, _ in listed].index("not tested")
    assert listed[at : at + 7] == [("not tested", names[0]), *(("", name) for name in names[1:])]
    assert why_words.untested(found) == names


def test_the_leader_of_a_search_has_its_name() -> None:
    found = golden_tune.KINDS["not-confirmed"].result
    long = Plan(
        settings={"intra_op_num_threads": 2, "allow_spinning": 0, "graph_optimization_level": "extended"}
    )
    refused = msgspec.structs.replace(found.refused, plan=long)
    text = tune_headline.headline(msgspec.structs.replace(found, refused=refused))
    assert "the leader" not in text and "allow_spinning=0, graph_optimization_level=" in text


def test_a_bundle_without_gain_is_said_to_contain_the_default() -> None:
    envelope = golden_tune.default_best(bundle="m.ortune")
    text = " ".join(golden.printed(tune_words.document(envelope), 140).split())
    facts(text, "m.ortune", "no change is proposed", "contains the default configuration")
