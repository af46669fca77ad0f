"""``ortune bench``: the latency of one plan on this machine, from several fresh processes per shape.

A benchmark does not compare, so it has no controls. It uses several processes, because two processes of the same plan
differ more than the requests within a process.
"""

from __future__ import annotations

import contextlib
import math
import random
import shlex
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np

from ortune.catalogue import knobs
from ortune.catalogue.named import ARENA_EXTEND_STRATEGY as ARENA
from ortune.catalogue.named import GLOBAL_THREAD_POOL as POOL
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.measuring import base_checks, failures, memory_in_turn
from ortune.measuring.executor import Timing
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.opening import Experiment
from ortune.measuring.pilot import PILOT_RUNS, first_trial_runs, run_ns
from ortune.measuring.right_outputs import check_against_float64, evaluation_limit_s
from ortune.measuring.sides import ResolvedSide, SideText, require_unchanged
from ortune.measuring.timing import timing_for
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Failed, FeedRef, Measured, Outcome, Plan, Value
from ortune.runtimes import runtimes
from ortune.search.blocks import BASE
from ortune.search.phases import LOOK_SHARE
from ortune.stats.arrivals import RECORDED
from ortune.stats.processes import LEAST_PROCESSES
from ortune.targets.browser.remote import browser_name, heat
from ortune.targets.machine import Machine
from ortune.verbs._shared.applications import recording_of, require_no_models
from ortune.verbs._shared.groups import OneBenchOptions
from ortune.verbs._shared.session import begin_or_resume, experiment, store_result
from ortune.verbs._shared.spelling import command, named
from ortune.verbs._shared.steps_words import PLANNING
from ortune.verbs._shared.watching import with_words
from ortune.verbs.bench import note_words
from ortune.verbs.bench import words as bench_words
from ortune.verbs.bench.arrival import ArrivalProcess, arrival_of, in_one, load_of
from ortune.verbs.bench.figures import CaseTrial, make_result
from ortune.verbs.bench.options import Options
from ortune.verbs.bench.result import BenchResult

GOOD_PROCESSES = 8  # enough for an interval; further time may go to the requests that a p99 needs
TAIL_REQUESTS = 1000  # per shape: a p99 needs 662, and more where processes differ
OPEN_PROCESSES = 4  # for an open loop
MOST_PROCESSES = 100  # per shape by default: more raw samples would only fill the document
FAILURES = 2  # consecutive failures after which a shape is given up


def run(options: Options, watcher: Watcher | None = None) -> Envelope[BenchResult]:
    """Measure one plan and return the whole document; for a recording, the document of ``verbs/_app_bench``.

    Raises:
        OrtuneError: Nothing could be measured; the exit code is the error's.
    """
    watch = with_words(watcher)
    recording = recording_of(options.model)
    if recording is not None:
        from ortune.verbs._app_bench.run import bench

        application: Envelope[Any] = bench(options, recording, watch)
        return application
    require_no_models(options.models)
    check("bench", options)
    starts = (options.rate, options.arrival)
    return measured(
        "bench", options, watch, pool=options.shared_pool, arena=options.shared_arena, starts=starts
    )


def check(verb: str, options: OneBenchOptions) -> None:
    """Raise UsageError for a model or an option that cannot be measured."""
    model = str(options.model)
    if model.endswith(".json"):
        raise UsageError(
            "is a plan, which contains no model",
            where=model,
            do=shlex.join(["ortune", verb, "model.onnx", "--plan", model]),
        )
    if options.processes is not None and options.processes < LEAST_PROCESSES:
        raise UsageError(
            f"{options.processes} processes are too few for an interval",
            where="--processes",
            do=f"{LEAST_PROCESSES} or more",
        )
    if options.runs is not None and options.runs < 1:
        raise UsageError("a process must make at least one request", where="--runs", do="1 or more")


def measured(
    verb: str,
    options: OneBenchOptions,
    watch: Watcher,
    machine: Machine | None = None,
    *,
    pool: bool = False,
    arena: bool = False,
    starts: tuple[str | float | None, str | None] = (None, None),
) -> Envelope[BenchResult]:
    """Measure one plan for a verb, on a given machine or on this one.

    Args:
        verb: The verb.
        options: Options of the verb.
        watch: Progress and cancellation callbacks.
        machine: The machine; None for this one.
        pool: Whether all sessions share one thread pool.
        arena: Whether all sessions share one memory arena.
        starts: Values of ``--rate`` and ``--arrival``.

    Raises:
        OrtuneError: Nothing could be measured; the exit code is the error's.
    """
    with experiment(verb, options, watch) as opened:
        text = SideText(
            text=str(options.model),
            settings=tuple(options.set),
            rewrites=options.rewrite,
            runtime=named(options.runtime),
        )
        side = opened.resolve(text)
        watch.say(f"measuring with {runtimes.describe(side.runtime)}")
        there = None if machine is None else contextlib.nullcontext(machine)
        with opened.measuring(side.label, machine=there):
            cpus = opened.machine.trial_host.effective_cpus
            side = replace(side, plan=shared(side.plan, pool=pool, arena=arena, cpus=cpus))
            arrival = arrival_of(*starts, side, options.feeds)
            begin_or_resume(opened, options, [side], options.resume, model=side.label)
            envelope = _Run(options, opened, side, arrival).go()
        return store_result(opened, options, envelope)


def shared(plan: Plan, *, pool: bool, arena: bool, cpus: int) -> Plan:
    """Return the plan with a thread pool or an arena that all sessions share.

    Raises:
        UsageError: A setting of per-session pools or arenas conflicts with the shared pool or arena.
    """
    settings = dict(plan.settings)
    if pool and POOL.name not in settings:
        # ONNX Runtime's own default for the pool is a guess about the whole machine; this number is recorded.
        threads = settings.pop(THREADS.name, cpus)
        _put(settings, POOL.name, threads, "--shared-pool")
    if arena and not any(knobs.find(name).channel == "env_allocator" for name in settings):
        # ONNX Runtime's default, for the arena of all sessions.
        _put(settings, ARENA.name, ARENA.default, "--shared-arena")
    return msgspec.structs.replace(plan, settings=settings)


def _put(settings: dict[str, Value], name: str, value: Value, flag: str) -> None:
    """Add the setting of ``flag``; raise UsageError if it conflicts with another setting."""
    against = next((other for other in knobs.find(name).conflicts if other in settings), None)
    if against is not None:
        raise UsageError(f"cannot be combined with the setting {against}", where=flag, do="omit one of them")
    settings[name] = value


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A shape that gets a row in the result: its name and its input files, which are several for recorded calls."""

    name: str
    refs: tuple[FeedRef, ...]


class _Run:
    """A running benchmark."""

    def __init__(
        self, o: OneBenchOptions, opened: Experiment, side: ResolvedSide, arrival: ArrivalProcess | None
    ) -> None:
        self.options, self.experiment, self.side, self.arrival = o, opened, side, arrival
        self.watch, self.budget, self.log = opened.watch, opened.budget, opened.log
        self.baseline = opened.base_measuring(side)
        self.trials: list[CaseTrial] = []
        self.failed: list[tuple[str, Failed]] = []
        self.given_up: list[str] = []
        self.looks: list[Measured] = []  # the pilot's measurement of each shape
        self.shapes: list[Shape] = []

    def go(self) -> Envelope[BenchResult]:
        """Run the pilot and the processes, and return the document."""
        find_checked_inputs(self.baseline, self.budget)
        limit_s = evaluation_limit_s(self.budget)
        check_against_float64(self.baseline, limit_s)
        self.watch.line(PLANNING)
        timings, costs = self._pilot()
        self.experiment.replay.mark_no_block()
        stopped = self._measure(timings, costs)
        require_unchanged(self.side)
        if not self.trials:
            if self.failed:
                where, last = self.failed[-1]
                raise MeasurementError(
                    f"every process failed: {failures.describe(last)}",
                    where=f"{self.side.label} {where}",
                    do=failures.remedy(last, in_page=self.side.plan.is_web),
                    code=last.reason,
                )
            raise Interrupted("stopped before the first process was done; there is no result")
        result = make_result(
            self.baseline,
            self.trials,
            self.failed,
            [*self.given_up, *self._heat(), *self.experiment.notes],
            self.log.id,
            self.experiment.elapsed_s,
            command(self.experiment.verb, self.options),
            [shape.name for shape in self.shapes],
            self.arrival,
        )
        return self.experiment.document(result, status="interrupted" if stopped else "ok")

    def _left_ns(self) -> float:
        """Return the nanoseconds of the budget that remain after reserving time for the result."""
        return self.budget.reserve(self.experiment.answer_s).left_ns

    def _heat(self) -> list[str]:
        """Return a list with a note on how another device slowed down while it warmed up; empty on this machine."""
        remote = self.experiment.machine.remote
        if remote is None:
            return []
        name = remote.hello.agent if remote.hello else ""
        return [bench_words.warmed(browser_name(name), heat(remote.ran))]

    def _pilot(self) -> tuple[list[Timing], list[float]]:
        """Run a pilot process; return the timing, and the expected duration in ns, of a process of each shape."""
        baseline = self.baseline
        base = baseline.arm(BASE)
        runs = first_trial_runs(baseline.executor.last, LOOK_SHARE * self.budget.left_ns)
        warmup = 1 if runs == PILOT_RUNS else 0
        baseline.executor.timing = Timing(
            runs=runs, warmup_runs=warmup, warmup_ns=0, warmup_cap_ns=2_000_000_000
        )
        base_checks.run_natively(baseline)
        # A page's outputs are questioned: one that keeps them here spares another.
        first = baseline.require_measured(
            base, baseline.executor.trial(base, keep_outputs=baseline.side.plan.is_web)
        )
        baseline.executor.timing = timing_for(first)
        base_checks.compare_with_cpu(baseline, base, first)
        self.shapes = self._shapes()
        self.looks = [one_case(first, i, baseline.work.gap_ns) for i in range(len(self.shapes))]
        baseline.pilot.time_by(first, (warmup + runs) * run_ns(first), first.elapsed_ns)
        base_checks.alert_dependent_rows(baseline, self._left_ns())
        base_checks.time_input_kinds(baseline, base, LOOK_SHARE * self._left_ns())
        memory_in_turn.measure(self.experiment, baseline, first)
        left = max(0.0, self._left_ns()) / len(self.shapes)
        timings, costs, planned = [], [], list[tuple[str, str]]()
        for i, case in enumerate(self.shapes):
            alone = self.looks[i]
            timing = timing_for(alone)
            request_ns = alone.done.wall_ns / alone.done.n_runs
            process_ns = float(alone.elapsed_ns - alone.done.wall_ns)
            callers = baseline.work.callers * baseline.work.sessions
            if self.arrival is not None:
                # All callers together take the calls of one schedule.
                request_ns, callers = max(request_ns, 1e9 / self.arrival.rate_per_s), 1
                timing = replace(timing, runs=1)
            runs = self.options.runs or requests(timing.runs, left, process_ns, request_ns, callers)
            if self.arrival is not None and self.options.runs is None:
                # A queue needs time to build up: a few long processes show more of it than many short ones.
                runs = min(TAIL_REQUESTS, int((left / OPEN_PROCESSES - process_ns) / request_ns))
            if self.options.runs is None and self.options.processes is None:
                # As many processes as a verdict needs come first: no number of requests in one process makes
                # up for them.
                runs = max(1, min(runs, int((left / LEAST_PROCESSES - process_ns) / request_ns)))
            timings.append(replace(timing, runs=runs))
            costs.append(process_ns + runs * request_ns)
            fits = max(1, min(MOST_PROCESSES, int(left / costs[-1])))
            n, asked = self.options.processes or fits, bool(self.options.processes)
            planned.append((case.name, note_words.planned(n, runs, callers, asked=asked)))
        for sentence in note_words.plan(planned):
            self.watch.say(sentence)
        baseline.limits.expect(max(costs))
        needed_s = sum(costs) * (self.options.processes or LEAST_PROCESSES) / 1e9
        if needed_s > left * len(costs) / 1e9:
            asked = bool(self.options.processes or self.options.runs)
            n = self.options.processes or LEAST_PROCESSES
            self.watch.say(note_words.over_budget(n, needed_s, asked=asked))
        return timings, costs

    def _measure(self, timings: list[Timing], costs: list[float]) -> bool:
        """Run rounds of a process per shape, in random order against drift; return whether the user stopped."""
        order = random.Random(self.options.feeds.seed)
        cases = self.shapes
        live = list(range(len(cases)))
        asked = self.options.processes or self.options.runs
        if not asked and self.arrival is None and sum(costs) > self._left_ns():
            # What the pilot timed is all that the budget holds.
            self.trials = [CaseTrial(index=i, case=i, trial=trial) for i, trial in enumerate(self.looks)]
            return False
        in_a_row = [0] * len(cases)
        rounds = 0
        while live and rounds < (self.options.processes or MOST_PROCESSES):
            round_ns = sum(costs[i] for i in live)
            late = round_ns > self._left_ns()
            if self.options.processes is None and rounds and late:
                break
            rounds += 1
            for i in order.sample(live, len(live)):
                if self.watch.stop():
                    return True
                case = cases[i].name
                sentence = f"process {len(self.trials) + 1}, round {rounds}: {case}"
                self.watch.progress(sentence, self.budget.spent_s, self.budget.total_s)
                outcome = self._process(i, timings[i], rounds)
                costs[i] = float(outcome.elapsed_ns)
                in_a_row[i] = 0 if isinstance(outcome, Measured) else in_a_row[i] + 1
                if in_a_row[i] >= FAILURES:
                    live.remove(i)
                    self.given_up.append(self._gave_up(i))
        return False

    def _shapes(self) -> list[Shape]:
        """Return the shapes to measure, each in its own processes: one per case, or a single one for recorded calls."""
        cases, refs = self.baseline.work.cases, self.baseline.refs
        if self.arrival is not None and self.arrival.recorded is not None:
            return [Shape(name=RECORDED, refs=refs)]
        return [Shape(name=case.name, refs=(ref,)) for case, ref in zip(cases, refs, strict=True)]

    def _process(self, i: int, timing: Timing, rounds: int) -> Outcome:
        """Run one process of one shape and record it in the journal."""
        executor, case, schedule = self.baseline.executor, self.shapes[i].name, None
        executor.timing = timing
        if self.arrival is not None:
            schedule = self.arrival.schedule(timing.runs, (self.options.feeds.seed, i, rounds))
        executor.arrivals = schedule
        outcome = executor.trial(self.baseline.arm(BASE, refs=self.shapes[i].refs))
        if isinstance(outcome, Measured):
            load = (
                None
                if schedule is None or self.arrival is None
                else load_of(outcome, schedule, self.arrival.rate_of(schedule))
            )
            outcome = outcome if schedule is None else in_one(outcome, schedule)
            self.trials.append(CaseTrial(index=len(self.trials), case=i, trial=outcome, load=load))
        else:
            self.failed.append((case, outcome))
        if self.experiment.replay.live:
            self.log.add("block", {"index": rounds - 1, "phase": "bench", "order": [BASE], "case": case})
        return outcome

    def _gave_up(self, i: int) -> str:
        """Return a sentence that says that a shape was given up after several failures in a row."""
        cases = self.shapes
        good = sum(t.case == i for t in self.trials)
        name = cases[i].name if len(cases) > 1 else ""
        return bench_words.gave_up(name, good, self.options.processes, FAILURES)


def one_case(trial: Measured, i: int, gap_ns: int) -> Measured:
    """Reduce a trial of several shapes to a trial of the shape with index ``i`` and one caller."""
    done = trial.done
    times = done.cases[i]
    wall_ns = int(np.sum(times.latency_ns)) + gap_ns * len(times.latency_ns)
    overhead_ns = trial.elapsed_ns - done.wall_ns
    alone = msgspec.structs.replace(done, cases=(times,), n_runs=len(times.latency_ns), wall_ns=wall_ns)
    return msgspec.structs.replace(trial, done=alone, elapsed_ns=overhead_ns + wall_ns)


def requests(least: int, left_ns: float, process_ns: float, request_ns: float, callers: int) -> int:
    """Return the number of requests per process and caller; above ``least`` if eight processes then give a p99.

    Args:
        least: Optimal number, given the variance between processes and between requests.
        left_ns: Time for this shape.
        process_ns: Time of a process before its first timed request.
        request_ns: Time of a request, including the pause.
        callers: Number of callers of all sessions together.
    """
    # Example: a shape has 60 s, so each of 8 processes has 7.5 s: 2 s to start and 5.5 s for requests. 1,000 requests
    # per shape are 125 per process.
    affordable = int((left_ns / GOOD_PROCESSES - process_ns) / request_ns)
    wanted = math.ceil(TAIL_REQUESTS / GOOD_PROCESSES / callers)
    return max(least, min(affordable, wanted))
