"""Other programs while a comparison was measured: their words stand beside the figure in every format."""

from __future__ import annotations

import msgspec
import pytest

import golden
import golden_tune
from briefs import made, risks
from facts import facts
from ortune.records import Comparison, Envelope, Finding, Gate, Guard, OtherPrograms, Plan, QuietRounds
from ortune.show import github, markdown, others_words
from ortune.show.html import pages
from ortune.verbs._shared import tune_headline
from ortune.verbs._shared.other_programs import worded
from ortune.verbs.compare import words as compare_words
from ortune.verbs.diagnose import words as diagnose_words
from ortune.verbs.diagnose.result import DiagnoseResult, TriedFix
from ortune.verbs.tune import words as tune_words

USED = (
    "other programs used 1.6 of 2 CPUs",
    "fewer threads win",
    "confirm on a quiet machine",
    "--wait-quiet",
)


def others(**changes: object) -> OtherPrograms:
    usual = OtherPrograms(used_cpus=1.61, cpus=2, waited_ratio=0.8, explains=True, favours=True)
    return msgspec.structs.replace(usual, **changes)


def under(comparison: Comparison | None, found: OtherPrograms) -> Comparison:
    assert comparison is not None
    guards = tuple(msgspec.structs.replace(g, failed=False) for g in comparison.guards)
    told = worded(msgspec.structs.replace(comparison, others=found, guards=guards))
    assert told is not None
    return told


def compared(found: OtherPrograms) -> Envelope:
    return golden.compared(comparison=under(golden.compared().result.comparison, found))


def refused() -> Envelope:
    """A tuning whose fastest configuration is known under load alone."""
    claim = under(golden_tune.tuned().result.against_default, others())
    return golden_tune.default_best(refused=golden_tune.refused(claim))


def every_format(envelope: Envelope, words: object) -> list[str]:
    document = words.document(envelope)  # type: ignore[attr-defined]
    return [
        " ".join(golden.printed(document, 100).split()),
        " ".join(markdown.render(document).replace("\\", "").split()),
        github.render(document),
        " ".join(pages.render(envelope).split()),
        msgspec.json.encode(envelope).decode(),
    ]


@pytest.mark.parametrize("format_", range(5))
def test_a_comparison_says_it_in_every_format(format_: int) -> None:
    facts(every_format(compared(others()), compare_words)[format_], *USED)


@pytest.mark.parametrize("format_", range(5))
def test_a_tuning_that_keeps_the_default_says_it_in_every_format(format_: int) -> None:
    facts(every_format(refused(), tune_words)[format_], *USED)


def test_the_gate_says_it_on_its_own_line() -> None:
    gate = Gate(threshold_ratio=0.05, answer="fail", undecided_counts_as="pass")
    slower = msgspec.structs.replace(
        under(golden.compared().result.comparison, others()), verdict="slower", ratio=1.4
    )
    text = golden.printed(compare_words.document(golden.compared(comparison=slower, gate=gate)), 400)
    line = next(line for line in text.splitlines() if line.startswith("gate"))
    facts(line, "FAIL", *USED)


def test_what_is_known_under_load_alone_keeps_its_figure_and_names_the_option_that_ships_it() -> None:
    text = " ".join(golden.printed(tune_words.document(refused()), 140).split())
    facts(text, "no change proposed", "x faster in p50", "under load", "--allow busy")
    assert "--wait-quiet 10m" in text.split("next")[-1]


def test_a_guard_that_fell_too_is_named_first() -> None:
    claim = under(golden_tune.tuned().result.against_default, others())
    fell = Guard(figure="memory", ratio=1.3, ratio_low=1.2, ratio_high=1.4, limit_ratio=1.1, failed=True)
    envelope = golden_tune.default_best(
        refused=golden_tune.refused(msgspec.structs.replace(claim, guards=(fell,)))
    )
    facts(tune_headline.headline(envelope.result), "peak memory", "--allow memory --allow busy")


def test_a_difference_that_holds_in_quiet_rounds_is_plain_and_says_so() -> None:
    quiet = QuietRounds(
        n_rounds=212, of_rounds=480, n_blocks=20, ratio=0.88, ratio_low=0.85, ratio_high=0.91,
        verdict="faster",
    )  # fmt: skip
    envelope = compared(others(explains=False, quiet=quiet))
    text = every_format(envelope, compare_words)[0]
    facts(text, "faster", "1.6 of 2 CPUs", "holds in the 212 of 480 rounds", "-12.0 %", "-15.0 % to -9.0 %")
    assert "--wait-quiet" not in text


def test_programs_that_ran_during_a_few_trials_have_no_figure_of_zero() -> None:
    text = every_format(compared(others(explains=False, used_cpus=0.02)), compare_words)[0]
    facts(text, "other programs used CPUs at times", "larger than all waiting")
    assert "0.0 of 2 CPUs" not in text


def test_a_difference_larger_than_all_waiting_is_plain_and_says_so() -> None:
    text = every_format(compared(others(explains=False)), compare_words)[0]
    facts(text, "faster", "larger than all waiting")
    assert "--wait-quiet" not in text


def test_a_change_that_is_not_of_threads_is_doubted_without_their_reason() -> None:
    text = every_format(compared(others(favours=False)), compare_words)[0]
    facts(text, "1.6 of 2 CPUs", "waiting for them may explain", "--wait-quiet")
    assert "fewer threads" not in text


def test_one_cpu_is_singular() -> None:
    assert "of 1 CPU," in others_words.words(others(cpus=1), 0.95)


def test_a_fix_that_is_known_under_load_alone_is_no_fix_to_apply() -> None:
    fix = TriedFix(
        codes=("THR001",),
        plan=Plan(settings={"intra_op_num_threads": 1}),
        figures=golden.figures(9.9e6),
        comparison=under(golden.compared().result.comparison, others()),
        command="ortune apply-it",
    )
    result = DiagnoseResult(
        side=golden.side(),
        statistic=golden.comparison().statistic,
        figures=golden.figures(11e6),
        findings=(Finding(code="THR001", what="more threads than CPUs", fix="set intra=1"),),
        tried=(fix,),
        reproduce="ortune diagnose a.onnx",
    )
    envelope = Envelope(schema="ortune/diagnose/1", ortune="0.1.0", status="ok", result=result)
    text = every_format(envelope, diagnose_words)[0]
    facts(text, *USED, "faster under load", "ortune diagnose a.onnx --wait-quiet 10m")
    assert "apply-it" not in text and "its fix helps" not in text
    longer = msgspec.structs.replace(envelope, result=msgspec.structs.replace(result, enough_s=80.0))
    lines = [line for line in every_format(longer, diagnose_words)[0].splitlines() if "--budget" in line]
    assert lines and all("--budget 80s" in line for line in lines), "one budget, wherever it is named"


def hidden(comparison: Comparison | None) -> Comparison:
    """An inconclusive comparison of a busy machine."""
    found = under(comparison, others(explains=False, favours=False, hides=True))
    return msgspec.structs.replace(found, verdict="inconclusive", ratio=1.71, ratio_low=0.8, ratio_high=2.9)


HIDDEN = ("1.6 of 2 CPUs", "more time alone may not settle it", "--wait-quiet")


@pytest.mark.parametrize("format_", range(5))
def test_an_inconclusive_comparison_names_the_busy_machine_and_no_longer_budget(format_: int) -> None:
    text = every_format(
        golden.compared(comparison=hidden(golden.compared().result.comparison)), compare_words
    )[format_]
    facts(text, *HIDDEN)
    assert "more may settle it" not in text and "--budget 10m" not in text


@pytest.mark.parametrize("format_", range(5))
def test_a_tuning_without_a_gain_names_the_busy_machine_and_no_best_of_what_is_slower(format_: int) -> None:
    claim = hidden(golden_tune.tuned().result.against_default)
    envelope = golden_tune.default_best(refused=golden_tune.refused(claim))
    text = every_format(envelope, tune_words)[format_]
    facts(text, *HIDDEN)
    assert "the best of" not in tune_headline.headline(envelope.result)


def test_a_brief_names_the_busy_machine_of_an_inconclusive_comparison() -> None:
    brief = made(golden.compared(comparison=hidden(golden.compared().result.comparison)))
    facts(" ".join(what for _, what in risks(brief).values()), *HIDDEN)


def test_a_search_without_a_leader_on_a_busy_machine_waits_for_a_quiet_one() -> None:
    envelope = golden_tune.exploratory(conditions="on a busy machine")
    assert any("--wait-quiet 10m" in line for line in tune_words.next_commands(envelope))
    assert not any("--wait-quiet" in line for line in tune_words.next_commands(golden_tune.exploratory()))


SEARCHED = [
    pytest.param(others(), USED, id="a leader with other threads"),
    pytest.param(
        others(favours=False), ("1.6 of 2 CPUs", "waiting for them may explain"), id="another leader"
    ),
    pytest.param(
        others(explains=False, hides=True), ("1.6 of 2 CPUs", "too long", "--wait-quiet"), id="no leader"
    ),
]


@pytest.mark.parametrize("format_", range(5))
@pytest.mark.parametrize(("load", "said"), SEARCHED)
def test_a_search_that_compared_nothing_names_the_busy_machine(
    load: OtherPrograms, said: tuple[str, ...], format_: int
) -> None:
    worded = msgspec.structs.replace(load, words=others_words.without_comparison(load))
    envelope = golden_tune.exploratory(others=worded)
    facts(every_format(envelope, tune_words)[format_], *said)
    assert any("--wait-quiet 10m" in line for line in tune_words.next_commands(envelope))
    brief = made(envelope)
    facts(" ".join(what for _, what in risks(brief).values()), said[0])
    facts(" ".join(brief.next_steps), "--wait-quiet 10m")


def test_a_brief_does_not_advise_to_ship_it() -> None:
    brief = made(compared(others()))
    assert brief.decision == "unproven"
    facts(" ".join(what for _, what in risks(brief).values()), *USED[:2])


def test_an_exploratory_gain_on_a_busy_machine_says_where() -> None:
    envelope = golden_tune.exploratory(conditions="on a busy machine")
    facts(tune_headline.headline(envelope.result), "looks", "on a busy machine", "exploratory")
    assert "busy" not in tune_headline.headline(golden_tune.exploratory().result)
