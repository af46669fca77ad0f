"""The core's messages in words."""

from __future__ import annotations

from typing import get_args

import pytest

from facts import facts
from ortune.measuring.watcher import Watcher
from ortune.records import ExactCheck, messages
from ortune.records.messages import Message
from ortune.show import message_words
from ortune.step import Step
from ortune.verbs._shared.watching import with_words

MESSAGES: list[tuple[Message, tuple[str, ...]]] = [
    *((messages.Remark(code=code), ()) for code in get_args(messages.RemarkCode)),
    (messages.Reading(side="m.onnx"), ("reading m.onnx",)),
    (messages.Reading(side=None), ("the same model",)),
    (messages.FirstRun(side="m.onnx"), ("running m.onnx for the first time",)),
    (messages.InAPod(how="2 CPUs"), ("in an emulated container: 2 CPUs",)),
    (messages.Unmet(setting="a=1", missing=("b=2", "c=3")), ("a=1 needs b=2 and c=3",)),
    (messages.SkippedChecks(checks=("ABC001", "ABC002"), enough_s=90.0), ("2 checks were", "--budget 90s")),
    (messages.LongStart(start_s=20.0, budget_s=30.0), ("20 s", "budget 30 s")),
    (messages.Resumed(n_trials=7), ("7 trials reused",)),
    (messages.NotStored(where="/full", what="cannot be written"), ("not stored: /full cannot be written",)),
    (
        messages.Quiet(state="waiting", seconds=60.0, used_cpus=1.5, cpus=4),
        ("waiting for", "60 s at most", "1.5 of 4 CPUs"),
    ),
    (messages.Quiet(state="quiet", seconds=8.0, used_cpus=0.1, cpus=4), ("waited 8 s", "0.1 of 4 CPUs")),
    (messages.Quiet(state="busy", seconds=8.0, used_cpus=2.0, cpus=4), ("waited 8 s", "still busy")),
    (messages.FailedInputs(what="too large\nat x"), ("inputs failed (too large); trying others",)),
    (messages.SizesInTurn(sizes=("n=1", "n=8")), ("2 sizes are fed in turn: n=1; n=8",)),
    (
        messages.NotEvaluated(exact=ExactCheck(not_evaluated="operators"), limit_s=9.0, side="B"),
        ("B: outputs were not compared", "all operators"),
    ),
    (messages.LevelsNotCompared(needed_s=12.0), ("were not compared (about 12 s more)",)),
    (messages.NotLocated(kind="wrong", side="B", needed_s=12.0), ("first wrong node of B's outputs", "12 s")),
    (messages.NotLocated(kind="non-finite", side="", needed_s=12.0), ("non-finite values in outputs:",)),
    (messages.VaryingOutputs(operators=("RandomNormal",)), ("from run to run (RandomNormal), so only",)),
    (messages.VaryingOutputs(operators=()), ("from run to run, so only",)),
    (messages.SensitiveOutputs(moved_l2=0.012, accepted_l2=0.05), ("change by 0.012", "up to 0.05 are")),
    (messages.ExcludedOutputs(names=("y", "z")), ("not compared: y, z",)),
    (messages.Download(n_bytes=1 << 20, n_ns=2_000_000_000), ("1 MiB", "4.19 Mbit/s", "takes 2 s")),
    (messages.PlannedBlocks(n_blocks=9, n_arms=3, trial_s=1.5), ("9 blocks of 3 trials of 1.50 s",)),
    (messages.CalibrationBlock(number=2), ("calibrating, block 2 of nine",)),
    (messages.ComparisonBlock(number=2, most=20), ("comparing, block 2 of 20",)),
    (messages.AwakeTrials(share_ratio=0.3), ("kept 30 % of a CPU busy",)),
    (
        messages.RaceForecast(
            plans=5, wanted=9, left_ns=60e9, trial_ns=2e9, load_ns=5e8, confirmed_ratio=0.02, enough_s=120
        ),
        ("takes 2.00 s (0.50 s to load)", "30 trials", "5 of 9", "±2 %", "all 9: --budget 120s"),
    ),
    (
        messages.RaceForecast(
            plans=9, wanted=9, left_ns=60e9, trial_ns=2e9, load_ns=5e8, confirmed_ratio=0.02, enough_s=0
        ),
        ("9 of 9 configurations", "on a quiet machine"),
    ),
    (
        messages.BudgetTooShort(trial_ns=2e9, budget_s=10.0, enough_s=60),
        ("10 s is too short", "2.0 s", "--budget 60s"),
    ),
    (
        messages.ExplorationForecast(plans=2, wanted=9, left_ns=2e10, needed_ns=2e11, enough_s=270),
        ("20 s are left", "200 s", "at most 2 of 9 configurations are", "--budget 270s"),
    ),
    (messages.FailedControls(plans=9, dropped=0, beyond_ns=0.0, enough_s=0), ("both are repeated",)),
    (messages.FailedControls(plans=9, dropped=2, beyond_ns=0.0, enough_s=0), ("time for 7 of 9",)),
    (messages.FailedControls(plans=9, dropped=0, beyond_ns=3e9, enough_s=60), ("by 3 s", "--budget 60s")),
    (messages.RaceBlock(ranked=0, plans=9), ("comparing 9 configurations",)),
    (messages.RaceBlock(ranked=4, plans=9), ("comparing 4 of 9 configurations",)),
    (
        messages.Leader(speed_up=1.03, low=1.01, high=1.05, n_blocks=6, plan="intra_op_num_threads=4"),
        ("1.03x (1.01-1.05x, 6 blocks) intra_op_num_threads=4",),
    ),
    (messages.Leader(speed_up=1.03, low=0.0, high=0.0, n_blocks=1, plan="a=1"), ("1.03x (1 block) a=1",)),
    (messages.ConfirmingBest(seconds=30.0), ("nine blocks, about 30 s",)),
    (messages.Confirming(n_blocks=16, plan="a=1"), ("confirming on 16 fresh blocks: a=1",)),
    (
        messages.ObservingValues(side="A", moved=True, part=2, n_parts=3),
        ("values of A, with inputs perturbed", "part 2 of 3"),
    ),
    (messages.ObservingValues(side="A", moved=False, part=2, n_parts=3), ("values of A: part 2 of 3",)),
    (messages.CountingKernels(side="B"), ("counting the kernels of B",)),
    (messages.ProfilingProcess(number=1, most=5), ("profiling, process 1 of 5",)),
    (
        messages.MeasuringPeaks(threads=(1, 2), usual_s=12.0, most_s=36.0),
        ("1 and 2 threads: about 12 s, up to 36 s",),
    ),
    (messages.PeaksNotStored(path="", why=""), ("home folder is unknown",)),
    (messages.PeaksNotStored(path="/p", why="No space"), ("/p cannot be written (No space)",)),
    (messages.SkippedInputs(n_skipped=1, n_sets=4, first="x is empty"), ("1 of 4", "was skipped: x is",)),
    (messages.SkippedInputs(n_skipped=2, n_sets=4, first="x is empty"), ("2 of 4", "were skipped: x is",)),
    (messages.TestingModels(n_models=3), ("testing 3 lower-precision models",)),
]  # fmt: skip


@pytest.mark.parametrize(("message", "parts"), MESSAGES, ids=lambda value: type(value).__name__)
def test_a_message_has_its_figures_in_words(message: Message, parts: tuple[str, ...]) -> None:
    said = message_words.text(message)
    assert said
    facts(said, *parts)


def test_every_message_has_words() -> None:
    assert {type(message) for message, _ in MESSAGES} == {*Message.__subclasses__()}


def test_a_text_is_as_it_is() -> None:
    assert message_words.texts(["a text", messages.Resumed(n_trials=7)])[0] == "a text"


def test_the_callbacks_of_a_verb_receive_words() -> None:
    said: list[str] = []
    steps: list[Step] = []
    watch = with_words(Watcher(say=said.append, step=steps.append))
    watch.tell(messages.FirstRun(side="m.onnx"))
    watch.line(messages.CalibrationBlock(number=1))
    watch.progress("text of a verb", 1.0, 2.0, [messages.Remark(code="fastest-so-far")])
    assert said == ["running m.onnx for the first time"]
    assert [step.what for step in steps] == ["calibrating, block 1 of nine", "text of a verb"]
    assert steps[1].ranking == ("fastest so far, not confirmed:",)
