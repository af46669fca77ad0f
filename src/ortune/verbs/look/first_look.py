"""Runs a model for a first look: one timed and one profiled process, as far as the budget allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from ortune import targets
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.providers import find
from ortune.engines.profiling.processes import (
    ENOUGH_RUNS,
    SPLIT_RUNS,
    machine_load,
    profiled_to_plain_ratio,
    turns_of,
    wall_times,
)
from ortune.errors import MeasurementError, UsageError
from ortune.graph.cost import CountingStopped
from ortune.graph.model.extent import written_nodes
from ortune.graph.model.open import OpenModel
from ortune.measuring import memory_in_turn, output_check
from ortune.measuring.budget import Budget
from ortune.measuring.executor import Arm, Timing
from ortune.measuring.failures import describe
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.reported import reported_file
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.row_check import check_base
from ortune.measuring.sides import ResolvedSide
from ortune.records import (
    ClippedActivation,
    FeedRef,
    Headroom,
    LevelCheck,
    Measured,
    ModelCost,
    OperatorProfile,
    Outcome,
    RowCheck,
    Workload,
)
from ortune.search.blocks import BASE
from ortune.search.figures import figure
from ortune.search.phases import LEAST_CHECKS_S, LOOK_EXACT_S, OVERRUN_SHARE
from ortune.show.message_words import texts
from ortune.trace.operators import by_node, by_operator, kept_runs, run_time_ns
from ortune.trace.ort_profile import read_profile
from ortune.verbs._shared.one_caller import one_caller
from ortune.verbs.look import words as look_words
from ortune.verbs.look.contents import contents, with_inputs, with_work
from ortune.verbs.look.nodes import explained, saving_s
from ortune.verbs.look.result import LookTiming

TIMED_NS = 1_000_000_000  # of timed runs; a first look needs no more
PROFILED_EVENTS = 60_000
TOP_NODES = 5
LEAST_COUNT_S = 0.5  # for counting operations, however little time is left
LEAST_RUNS = 6  # per process: the first run, two warm-up runs, three timed runs


class FirstLook:
    """Results of a first look at a model: facts about its file and, after ``run``, about its runs.

    Attributes:
        result: Result for the file and its inputs.
        side: The side that ran, possibly at a lower optimisation level; None before the first run.
        work: Inputs of the model; None until they are determined.
        cost: Operations of a run by node, for the first shapes; None if there was no time to count them.
        timing, profile, headroom: Results of the processes; None if skipped for lack of budget.
        busy: Load by other programs during the measurement, in words; "" for none.
        wrong_when_optimised: Whether the level is limited because the fully optimised model is wrong or does not run.
        level_check: Comparison of the outputs with those of the model without optimisation; None if not compared.
        clipped: Activations that exceed the range of their quantization.
        row_check: Comparison of one row alone and in a batch, and with and without padding; None if not compared.
        emulated: The provider that ran on an emulated device, so that nothing is timed; "" for real devices.
        times: Maps nodes of the user's model to nanoseconds.
        left_out: Notes on steps that failed or were skipped for lack of budget.
        needed_s: Budget in seconds that is enough for the skipped steps; 0 if none was skipped.
    """

    def __init__(self, opened: Experiment, model: OpenModel, store: Path | None) -> None:
        """Determine the facts about the file.

        Args:
            opened: The open experiment, with its budget.
            model: The model.
            store: Folder with the machine's stored peaks.
        """
        self.experiment, self.model, self.store = opened, model, store
        self.side: ResolvedSide | None = None
        self.watch = opened.watch
        # The budget of a first look runs from the start of the process, since no part of it is repeated.
        self._whole = replace(opened.budget, spent_ns=lambda: 1e9 * opened.watch.clock.spent_s)
        self.work: Workload | None = None
        self.cost: ModelCost | None = None
        self.timing: LookTiming | None = None
        self._timed: Measured | None = None
        self.profile: OperatorProfile | None = None
        self.headroom: Headroom | None = None
        self.busy = ""
        self.wrong_when_optimised = False
        self.row_check: RowCheck | None = None
        self.level_check: LevelCheck | None = None
        self.clipped: tuple[ClippedActivation, ...] = ()
        self.emulated = ""
        self.times: dict[str, float] = {}
        self.left_out: list[str] = []
        self._noted: tuple[str, ...] = ()
        self.needed_s = 0.0
        self.watch.line("reading the model")
        self.result = contents(model)

    @property
    def budget(self) -> Budget:
        """Budget after reserving time for the rules and the result."""
        return self._whole.reserve(self.experiment.answer_s + LEAST_CHECKS_S)

    @property
    def _late_s(self) -> float:
        """Seconds by which the table of operators can exceed the budget, because it is the main part of the result."""
        return OVERRUN_SHARE * self._whole.total_s

    def run(self, side: ResolvedSide) -> None:
        """Run the model, then time and profile it within the budget.

        Raises:
            OrtuneError: The model does not run.
        """
        baseline = self.experiment.base_measuring(side, say=self.watch.line, load=one_caller)
        self._count(baseline.work)
        self.watch.line("running the model")
        self._noted = tuple(texts(baseline.notes))
        find_checked_inputs(baseline, self.budget)
        self.side = side = baseline.side
        self._take_notes(baseline)
        self._count(baseline.work)
        first = baseline.executor.last
        assert isinstance(first, Measured)
        self.emulated = targets.target_of(side.plan).emulated(first)
        if self.emulated:
            self._take(first)
            return
        self._measure(baseline, side, first)
        self.wrong_when_optimised = baseline.lowered is not None or output_check.wrong_at(
            baseline, LEVEL.default, self.budget.left_ns
        )
        limit_s = min(LOOK_EXACT_S, evaluation_limit_s(self.budget))
        check_against_float64(baseline, limit_s)
        self._take_notes(baseline)
        self.level_check, self.clipped = baseline.check.level_check, baseline.check.clipped
        self.row_check = check_base(baseline, self._spare_ns())
        assert self.timing is not None and self._timed is not None
        self.watch.line("measuring memory")
        baseline.peak_in_turn = memory_in_turn.peak(baseline, self._timed, self._spare_ns)
        self.timing = msgspec.structs.replace(self.timing, peak_in_turn=baseline.peak_in_turn)

    def _take_notes(self, baseline: Measuring) -> None:
        """Add the baseline's new notes to ``left_out``, and remove the notes that the baseline has withdrawn."""
        notes = texts(baseline.notes)
        self.left_out = [note for note in self.left_out if note in notes or note not in self._noted]
        self.left_out += [note for note in notes if note not in self._noted]
        self._noted = tuple(notes)

    def _count(self, work: Workload) -> None:
        """Count the operations of a run in at most half of the remaining time, so that the run still fits."""
        if work is self.work:
            return
        self.work, self.cost = work, None
        began_s, left_s = self.budget.spent_s, self.budget.left_s
        try:
            self.result, self.cost = with_work(
                self.result,
                self.model,
                work,
                lambda: self.budget.spent_s - began_s > max(LEAST_COUNT_S, left_s / 2),
            )
        except CountingStopped:
            note = look_words.not_counted(self._whole.total_s)
            self.result = msgspec.structs.replace(
                with_inputs(self.result, work), flops=None, flops_complete=False, flops_note=note
            )

    def _spare_ns(self) -> float:
        """Return half of the remaining time, because rules may need more than the time reserved for them."""
        return self.budget.left_ns / 2

    def _measure(self, baseline: Measuring, side: ResolvedSide, first: Measured) -> None:
        """Run one timed and one profiled process if there is enough time; add a note on each skipped process."""
        base = baseline.arm(BASE)
        self._take(first)
        assert self.timing is not None
        run_ns = self.timing.latency_ns * len(first.done.cases)
        # The trial so far had one run of each shape.
        trial_s = (first.elapsed_ns + (LEAST_RUNS - 1) * run_ns) / 1e9
        # One process with the profiler and one without, which splits off transfers where there are any.
        split = SPLIT_RUNS if find(side.plan.provider_names[0]).memory else 0
        profile_s = 2 * trial_s + split * run_ns / 1e9
        self.busy = machine_load(first).busy
        left_s = self.budget.left_s
        # If time is short, the unprofiled process of the profile is timed instead of a separate process; it runs only
        # one shape. A timed process may take longer than its least number of runs.
        both = 1.5 * trial_s + profile_s <= left_s
        if trial_s > left_s:
            self.needed_s = self.budget.needed_s(1, 1e9 * (trial_s + profile_s))
            self.left_out += [
                look_words.no_time_for(look_words.LATENCY, trial_s, self.busy),
                look_words.no_time_for(look_words.PROFILE, profile_s, self.busy),
            ]
        elif both or profile_s > left_s + self._late_s or len(first.done.cases) > 1:
            baseline.executor.timing = _timing(run_ns, left_s - trial_s - (profile_s if both else 0.0))
            timed = baseline.require_measured(base, baseline.executor.trial(base))
            self.busy = machine_load(timed).busy or self.busy
            self._take(timed)
            if profile_s > self.budget.left_s + self._late_s:
                self.needed_s = self.budget.needed_s(1, 1e9 * profile_s)
                self.left_out.append(look_words.no_time_for(look_words.PROFILE, profile_s, self.busy))
            else:
                self._profile(baseline, side)
        else:
            self._profile(baseline, side)

    def _take(self, trial: Measured) -> None:
        self._timed, self.timing = trial, self._timing(trial)

    def _timing(self, trial: Measured) -> LookTiming:
        latency = figure(trial, "median")
        first = [case.first_ns for case in trial.done.cases]
        first_ns = sum(first) / len(first)
        typical = first_ns if latency is None else latency
        # A count that leaves nodes out, or takes the more expensive branch for the one taken, gives no rate.
        flops = self.result.flops if not self.result.flops_note else None
        return LookTiming(
            latency_ns=typical,
            n_runs=0 if latency is None else trial.done.n_runs,
            warmed_up=all(case.warmup_runs for case in trial.done.cases),
            first_run_ns=first_ns,
            load_ns=trial.done.load_ns,
            peak_bytes=trial.done.peak_bytes,
            flops_per_s=flops / (typical / 1e9) if flops else None,
            placement=trial.done.placement,
        )

    def _profile(self, baseline: Measuring, side: ResolvedSide) -> None:
        """Profile the first shape only, because a profile does not record the shape of a run."""
        assert self.timing is not None
        self.watch.line("profiling")
        base = baseline.arm(BASE)
        feeds = tuple(FeedRef(name=ref.name, path=ref.path) for ref in base.feeds[:1])
        arm = Arm(name="profiled", plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)
        fits = PROFILED_EVENTS // max(1, written_nodes(self.model.ir))
        # No more than the time allows, in two processes that take turns.
        time_ns = min(TIMED_NS, max(0.0, self.budget.left_s) * 1e9 / 4)
        runs = max(3, min(ENOUGH_RUNS, fits, int(time_ns / self.timing.latency_ns)))
        # In alternation with a process without the profiler, so that noise is not taken for the profiler's cost.
        outcome, plain = baseline.executor.profiled([arm], turns_of(runs))[0]
        if not isinstance(outcome, Measured):
            self.left_out.append(look_words.profile_failed(describe(outcome)))
            return
        self.busy = machine_load(outcome).busy or self.busy
        if not self.timing.warmed_up and isinstance(plain, Measured):
            self._take(plain)
        if isinstance(plain, Measured):
            self.timing = msgspec.structs.replace(self.timing, gpu_run=plain.done.gpu_run)
        self._read(side, outcome, plain)

    def _read(self, side: ResolvedSide, outcome: Measured, plain: Outcome | None) -> None:
        """Read the trace of a profiled process; ``plain`` is the unprofiled process that alternated with it."""
        try:
            trace = read_profile(reported_file(outcome.done.profile, self.experiment.scratch))
        except (UsageError, MeasurementError) as error:
            self.left_out.append(look_words.no_profile(error.what))
            return
        warm = 1 + outcome.done.cases[0].warmup_runs
        if not kept_runs(trace, warm):
            self.left_out.append(look_words.no_profile(look_words.NO_COMPLETE_RUN))
            return
        wall_ns = wall_times(outcome, trace, warm)
        operators = by_operator(trace, warm)
        self.profile = OperatorProfile(
            n_runs=len(kept_runs(trace, warm)),
            # On a busy machine, the median of whole runs may be less than the sum of the operators' times.
            run_ns=max(
                run_time_ns(trace, warm) if wall_ns is None else float(np.median(wall_ns)),
                sum(operator.time_ns for operator in operators),
            ),
            slowdown_ratio=profiled_to_plain_ratio(outcome, plain),
            operators=operators,
            nodes=by_node(trace, warm)[:TOP_NODES],
            complete=trace.complete,
        )
        assert self.work is not None and self.timing is not None
        # Mapping the nodes takes about as long as the answer, in addition to the time for saving the graph.
        needed = saving_s(self.timing.load_ns) + self.experiment.answer_s
        hurried = self.budget.left_s < needed
        if hurried:
            self.needed_s = self.budget.needed_s(1, 1e9 * needed)
            self.left_out.append(look_words.no_time_for(look_words.NAMES, needed, self.busy))
        self.profile, self.headroom, self.times = explained(
            side, self.work, trace, warm, wall_ns, self.profile,
            host=self.experiment.machine.host, state=machine_load(outcome), store=self.store,
            scratch=self.experiment.scratch, hurried=hurried,
        )  # fmt: skip


def _timing(run_ns: float, spare_s: float) -> Timing:
    """Return a timing of about one second, or less if the budget ends before, with at least three runs."""
    slow = run_ns > 200_000_000
    time_ns = min(TIMED_NS, max(0.0, spare_s * 1e9 / 2))
    runs = max(3, min(200, int(time_ns / max(run_ns, 1))))
    return Timing(
        runs=runs,
        warmup_runs=1 if slow else 3,
        warmup_ns=0 if slow else 30_000_000,
        warmup_cap_ns=0 if slow else 400_000_000,
    )
