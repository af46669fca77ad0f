"""The brief: the decision, figures that agree with each other, risks that are not hidden, a page without a script."""

from __future__ import annotations

import re

import msgspec
import pytest

import golden
import golden_tune
from briefs import SAFETY, made, risks, session, with_guards
from facts import facts
from golden_tune_parts import confirmed
from ortune.catalogue.spinning import spins
from ortune.records import (
    Control,
    Guard,
    OutputDifference,
    Plan,
    ProviderSpec,
    ReadBack,
    RewriteSpec,
)
from ortune.show.html import pages
from ortune.verbs.compare import headline as compare_headline
from ortune.verbs.report import brief, brief_words
from ortune.verbs.report.brief_page import render
from ortune.verbs.tune import words as tune_words
from ortune.verbs.tune.sections import _points as points

DENORMAL = Plan(settings={"set_denormal_as_zero": True})
FIXED = Plan(rewrites=(RewriteSpec(name="fixed-dimensions"),))
KINDS = sorted(golden_tune.KINDS)
CPU = Guard(figure="cpu", ratio=0.5, ratio_low=0.4, ratio_high=0.6, limit_ratio=1.1)


@pytest.mark.parametrize(
    ("kind", "decision"),
    [
        ("winner", "ship"),
        ("default-best", "keep"),
        ("current-best", "keep"),
        ("with-current", "ship"),
        ("bare", "unproven"),
        ("exploratory", "unproven"),
    ],
)
def test_decision_of_a_tuning(kind: str, decision: str) -> None:
    assert made(golden_tune.KINDS[kind]).decision == decision


@pytest.mark.parametrize(
    ("verdict", "decision"),
    [
        ("faster", "ship"),
        ("slower", "keep"),
        ("equivalent", "keep"),
        ("inconclusive", "unproven"),
        ("invalid", "unproven"),
    ],
)
def test_decision_of_a_comparison(verdict: str, decision: str) -> None:
    found = golden.compared(comparison=golden.comparison(verdict=verdict, guards=()))
    assert made(found).decision == decision


def test_wrong_outputs_and_failed_guards_stop() -> None:
    wrong = OutputDifference(ok=False, relative_l2=0.4, what="output y differs by 40 %")
    found = made(golden.compared(comparison=None, outputs=wrong, base_figures=None, new_figures=None))
    assert found.decision == "stop"
    assert risks(found)["outputs"] == ("stop", "WRONG: output y differs by 40 %")
    assert found.figures == () and found.cpus is None
    failed = made(golden.compared())  # its memory guard failed
    assert failed.decision == "stop" and "guard" in failed.answer
    assert risks(failed)["guard: peak memory"][0] == "stop"


def test_a_load_that_the_cpus_do_not_hold_is_named() -> None:
    found = msgspec.structs.replace(made(with_guards(CPU), 200.0), cpus_there=2)
    said = brief_words.cpu_words(found)
    facts(said, "3.30 CPUs", "overloaded", "1.65", "1.32", "1.98")
    assert "overloaded" not in brief_words.cpu_words(msgspec.structs.replace(found, cpus_there=4))


def test_race_data_is_no_proof() -> None:
    found = made(golden_tune.tuned(against_default=confirmed(0.9, 0.88, 0.92, phase="race")))
    assert found.decision == "unproven"
    assert risks(found)["proof"][0] == "look"
    assert "change over" not in found.answer


def test_cpus_are_cpu_seconds_a_run_times_the_load() -> None:
    found = made(with_guards(CPU), 200.0)
    assert found.cpus is not None
    assert found.cpus.today == pytest.approx(1.5 * 11e-3 * 200)
    assert found.cpus.tuned == pytest.approx(found.cpus.today / 2)
    assert brief.bounds(found.cpus) == "1.32 to 1.98"
    assert brief.saving(found.cpus) == "saves 1.65 (1.32 to 1.98)"
    facts(brief_words.cpu_words(found), "200 requests/s", "3.30 CPUs")
    example = brief_words.cpu_words(made(with_guards(CPU)))
    facts(example, "100 requests/s", "--load")


def test_a_saving_is_claimed_only_where_the_interval_shows_one() -> None:
    unsure = msgspec.structs.replace(CPU, ratio_high=1.02)
    costs = msgspec.structs.replace(CPU, ratio=1.2, ratio_low=1.1, ratio_high=1.3)
    for guards, words in (
        ((unsure,), "inconclusive"),
        ((costs,), "costs "),
        ((), "unknown: medians without an interval"),
    ):
        found = made(with_guards(*guards), 100.0)
        assert found.cpus is not None
        assert brief.saving(found.cpus).startswith(words)


BACK_TO_BACK = msgspec.structs.replace(golden_tune.workload(), gap_ns=0)
ASLEEP: dict[str, bool | int] = {"allow_spinning": False}


@pytest.mark.parametrize(
    ("change", "settings", "load", "gap"),
    [
        ({}, ({}, ASLEEP), 50.0, "9ms"),  # 20 ms apart, 11 ms of them at work
        ({"callers": 2}, (ASLEEP, {}), 100.0, "9ms"),
        ({}, ({}, {}), 0.1, "100ms"),
        ({}, ({}, ASLEEP), 100.0, ""),  # asked for again before it is through
        ({"gap_ns": 10_000_000}, ({}, ASLEEP), 50.0, ""),
        ({}, (ASLEEP, {"intra_op_num_threads": 1}), 50.0, ""),
        ({}, ({"spin_duration_us": 0}, {"force_spinning_stop": True}), 50.0, ""),
        ({}, ({"global_thread_pool": 1}, {"execution_mode": "parallel"}), 50.0, "9ms"),
    ],
)
def test_no_saving_is_claimed_of_pauses_that_were_not_measured(
    change: dict[str, int], settings: tuple[dict[str, bool | int], ...], load: float, gap: str
) -> None:
    base, new = (golden.side("a.onnx", **each) for each in settings)
    envelope = golden.compared(
        base=base,
        new=new,
        base_figures=golden.figures(11e6),
        new_figures=golden.figures(11e6),
        comparison=golden.comparison(verdict="faster", guards=(CPU,)),
    )
    envelope = msgspec.structs.replace(envelope, workload=msgspec.structs.replace(BACK_TO_BACK, **change))
    found = made(envelope, load)
    words, page = brief_words.cpu_words(found), render(found, session(envelope))
    advice = f"rerun with --gap {gap}"
    assert (advice in words) == (advice in page) == bool(gap)
    assert (": the change saves" in words) == ("<dd>saves" in page) == (not gap)
    assert ("at least" in words) == ("at least" in page) == bool(gap)
    assert found.cpus is not None and (found.cpus.ratio_low is None) == bool(gap)


def test_what_is_busy_today_is_the_least_where_nothing_is_better() -> None:
    envelope = msgspec.structs.replace(golden_tune.KINDS["default-best"], workload=BACK_TO_BACK)
    words = brief_words.cpu_words(made(envelope, 1.0))
    assert "keeps at least" in words and "the runs had no pauses" in words and "change" not in words


def test_figures_agree_with_the_claim() -> None:
    latency = made(golden_tune.tuned()).figures[0]
    assert (latency.name, latency.today, latency.ratio) == ("p50 latency", 11e6, 0.9)
    assert latency.tuned == pytest.approx(9.9e6)
    assert brief.bounds(latency) == "9.73 ms to 10.1 ms"
    memory = made(golden_tune.KINDS["memory"]).figures[0]
    assert (memory.name, memory.unit, memory.tuned) == ("peak memory", "bytes", pytest.approx(2.8e8))
    assert made(golden_tune.KINDS["with-current"]).figures[0].today == 12.1e6


@pytest.mark.parametrize(
    ("statistic", "name"),
    [("p95 latency", "p95 latency"), ("throughput (mean latency, back to back)", "time a run")],
)
def test_the_latency_stays_a_median_beside_what_was_compared(statistic: str, name: str) -> None:
    envelope = golden_tune.tuned(
        statistic=statistic,
        against_default=confirmed(0.5, 0.45, 0.55, statistic=statistic),
        default_figures=golden.figures(11e6, objective_ns=30e6),
        winner_figures=golden.figures(9.9e6, objective_ns=15e6),
    )
    compared, latency, *_ = made(envelope).figures
    assert (compared.name, compared.today, compared.tuned) == (name, 30e6, 15e6)
    assert (latency.name, latency.today, latency.tuned) == ("p50 latency", 11e6, pytest.approx(9.9e6))
    assert points.middle(envelope.result, "default")[0] == 30e6  # the blocks of a picture hold these


@pytest.mark.parametrize(
    ("change", "name", "part"),
    [
        ({"outputs": None}, "outputs", "not compared"),
        ({"outputs": OutputDifference(ok=True, compared_as="moments")}, "outputs", "not deterministic"),
        ({"hardware_bound": True}, "hardware", "specific to this CPU type"),
        ({"winner": DENORMAL}, "safety class", "set_denormal_as_zero: numerics"),
        ({"winner": FIXED}, "safety class", "fixed-dimensions: behaviour"),
        ({"winner": Plan(settings={"of-tomorrow": 1})}, "safety class", "of-tomorrow: unknown"),
    ],
)  # fmt: skip
def test_what_needs_a_look_is_marked(change: dict[str, object], name: str, part: str) -> None:
    classes = SAFETY | {"set_denormal_as_zero": "numerics", "fixed-dimensions": "behaviour"}
    found = brief.make(golden_tune.tuned(**change), classes, spins=spins)
    assert found is not None
    level, what = risks(found)[name]
    assert level == "look" and part in what


def test_settings_that_were_only_set_are_named() -> None:
    back = (ReadBack(knob="allow_spinning", level="none", ok=True), ReadBack(knob="x", level="echo", ok=True))
    assert risks(made(golden.compared(read_back=back)))["settings"] == (
        "look",
        "not verified: allow_spinning",
    )


MISSED = tuple(
    msgspec.structs.replace(c, detected=False) if c.name == "spike-in" else c for c in golden.CONTROLS
)


@pytest.mark.parametrize(
    ("controls", "level", "told"),
    [
        (golden.CONTROLS, "fine", "confirmed on 16 fresh blocks; controls passed"),
        (MISSED, "look", "too small to detect in 9 blocks"),
        ((), "look", "controls not run"),
    ],
)
def test_controls_passed_only_where_each_did(controls: tuple[Control, ...], level: str, told: str) -> None:
    found = risks(made(golden_tune.tuned(controls=controls)))["proof"]
    assert found[0] == level and told in found[1]
    assert ("passed" in found[1]) == (level == "fine")
    whole = made(golden.compared(controls=controls, comparison=golden.comparison(guards=()), gate=None))
    assert whole.decision == ("ship" if controls else "unproven")
    assert ("controls not run" in whole.answer) == (not controls)


def test_too_few_blocks_have_no_ends_and_claim_nothing() -> None:
    few = golden.comparison(
        ratio=1.73, ratio_low=0.0, ratio_high=None, n_blocks=1, verdict="inconclusive", guards=()
    )
    envelope = golden.compared(comparison=few, controls=(), gate=None)
    text = " ".join(golden.printed(brief_words.document(made(envelope), session(envelope)), 140).split())
    facts(text, "1 block cannot confirm a change in p50")
    assert "73.0 %" not in text
    for wrong in ("-100.0 %", "anything", "any ", "none shown", "no difference", "1 blocks"):
        assert wrong not in text


@pytest.mark.parametrize("level", [0.961, 0.9531, 0.975])
def test_an_interval_is_named_by_its_own_level(level: float) -> None:
    envelope = golden_tune.tuned(
        against_default=msgspec.structs.replace(confirmed(0.9, 0.885, 0.917), level=level)
    )
    for text in (
        made(envelope).evidence,
        pages.render(envelope),
        golden.printed(tune_words.document(envelope), 140, whole=True),
        compare_headline.headline(golden.compared(comparison=golden.comparison(level=level)).result),
    ):
        # 95 % is the column of the other figures, whose intervals have that level.
        own = f"{100 * level:.3g}"
        assert own in {*re.findall(r"(\d[\d.]*) % interval", text)} <= {own, "95"}


def test_an_early_stop_and_an_unquiet_machine_are_told() -> None:
    stopped = made(msgspec.structs.replace(golden_tune.tuned(), status="interrupted"))
    assert "stopped early" in risks(stopped)["measurement"][1]
    assert "MSR001" in risks(made(golden.compared()))["measurement"][1]


def test_what_compares_nothing_has_no_brief() -> None:
    assert brief.make(golden.diagnosed(), SAFETY, spins=spins) is None


def test_a_guard_that_was_let_through_is_a_look_and_no_stop() -> None:
    memory = Guard(figure="memory", ratio=1.3, ratio_low=1.2, ratio_high=1.4, limit_ratio=1.1, failed=True)
    shipped = confirmed(0.9, 0.885, 0.917, guards=(memory,))
    assert made(golden_tune.tuned(against_default=shipped)).decision == "stop"
    allowed = made(golden_tune.tuned(against_default=shipped, allowed=("memory",)))
    assert allowed.decision == "ship"
    level, what = risks(allowed)["guard: peak memory"]
    assert level == "look" and what.endswith("worse, but accepted")


@pytest.mark.parametrize(
    ("rewrite", "other_model", "level", "part"),
    [
        ("ort-optimized-model", False, "look", "specific to this CPU type"),
        ("fixed-dimensions", False, "fine", "the model file is not specific"),
        ("of-tomorrow", False, "look", "is unknown"),
        ("", True, "look", "is unknown"),
        ("", False, "fine", "the model file is not specific"),
    ],
)
def test_a_comparison_says_of_hardware_only_what_it_knows(
    rewrite: str, other_model: bool, level: str, part: str
) -> None:
    new = golden.side("a.onnx", allow_spinning=False)
    if rewrite:
        plan = Plan(rewrites=(RewriteSpec(name=rewrite),))
        new = msgspec.structs.replace(new, plan=plan)
    if other_model:
        new = msgspec.structs.replace(new, model=msgspec.structs.replace(new.model, sha256="1" * 64))
    envelope = golden.compared(base=golden.side("a.onnx"), new=new)
    classes = SAFETY | {"ort-optimized-model": "exact", "fixed-dimensions": "behaviour"}
    found = brief.make(envelope, classes, spins=spins, bound={"ort-optimized-model"})
    assert found is not None
    assert risks(found)["hardware"][0] == level and part in risks(found)["hardware"][1]
    assert "runs anywhere" not in risks(found)["hardware"][1]


def test_what_is_left_out_is_a_difference_too() -> None:
    classes = SAFETY | {"set_denormal_as_zero": "numerics", "fixed-dimensions": "behaviour"}
    base, new = golden.side("a.onnx", set_denormal_as_zero=True), golden.side("a.onnx")
    cuda = Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"),))
    for old, plan, part in (
        (base.plan, Plan(), "set_denormal_as_zero left out: numerics"),
        (FIXED, Plan(), "fixed-dimensions left out: behaviour"),
        (Plan(), cuda, "execution provider: numerics"),
    ):
        envelope = golden.compared(
            base=msgspec.structs.replace(base, plan=old), new=msgspec.structs.replace(new, plan=plan)
        )
        found = brief.make(envelope, classes, spins=spins)
        assert found is not None
        level, what = risks(found)["safety class"]
        assert level == "look" and part in what


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (2e-5, "under 0.001"),
        (0.0254, "0.025"),
        (3.3, "3.30"),
        (33.3, "33.3"),
        (1234.0, "1234"),
    ],
)
def test_cpus_are_written_without_false_precision(value: float, text: str) -> None:
    assert brief.cpus(value) == text
