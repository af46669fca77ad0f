"""``ortune MODEL``: a first look at a model, in about ten seconds."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec

from ortune import errors, rules, targets
from ortune.analysis import regions
from ortune.analysis.ort_files import inspect
from ortune.bundle import format as bundle_format
from ortune.errors import OrtuneError, RuntimeNotFound, UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.bench_result import load_words
from ortune.experiment.clock import Stopwatch
from ortune.experiment.first_run import settle
from ortune.experiment.opening import Experiment
from ortune.experiment.watcher import Watcher
from ortune.inputs import workload
from ortune.inputs.run_cost import run_cost
from ortune.model import from_git
from ortune.model.graphs import parameters, stored_bytes, type_name
from ortune.model.open import OpenModel, open_model
from ortune.profiling.look_nodes import explained, saving_s
from ortune.profiling.processes import ENOUGH_RUNS, beside_plain, seen, turns_of
from ortune.records import (
    Envelope,
    ErrorInfo,
    FeedRef,
    Finding,
    Headroom,
    LookResult,
    LookTiming,
    Measured,
    OperatorProfile,
    Plan,
    RepeatedRegion,
    Workload,
)
from ortune.report import headroom_words, look_words
from ortune.report.finding_words import as_facts, measurable
from ortune.search.blocks import BASE
from ortune.search.figures import figure
from ortune.trace.operators import by_node, by_operator, kept_runs, run_time_ns
from ortune.trace.ort_profile import read_profile
from ortune.trials.executor import Arm, Timing
from ortune.trials.failures import describe
from ortune.trials.sides import Resolved, SideText
from ortune.verbs._options import (
    RUN,
    AnyPath,
    Argument,
    Kept,
    OnePlan,
    Option,
    Rewrites,
    named,
    seconds,
    words,
)
from ortune.verbs._session import experiment, keep

TIMED_NS = 1_000_000_000  # of timed runs; a first look needs no more
PROFILED_EVENTS = 60_000
TOP_NODES = 5
MOST_REGIONS = 8
LEAST_RUNS = 6  # of a timed process: the first, two that warm up, three that are timed


FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""


@dataclass(frozen=True, kw_only=True)
class Options(Kept, OnePlan):
    """A first look at a model in ten seconds; short form: ortune MODEL.

    Shows what the file contains, the chosen inputs, the latency with default settings (a single observation), the most
    expensive operators, findings, and what to do next.
    """

    model: Annotated[AnyPath, Argument("MODEL", "model.onnx, model.ort, NAME.ortune or model.onnx@revision.")]
    rewrite: Rewrites = ()
    budget: Annotated[
        str | float, Option("--budget", "8s", "Total time; steps that take longer are skipped.", RUN)
    ] = "8s"

    @cached_property
    def budget_s(self) -> float:
        """All measuring together; 0 leaves the first run alone, and says what was left out."""
        return seconds(self.budget, "--budget")


def run(options: Options, watcher: Watcher | None = None) -> Envelope[LookResult]:
    """Looks at a model.

    Where the model can be opened and not run, the document holds what the file says, and ``error``.

    Raises:
        OrtuneError: The model cannot be opened, or an option cannot be used.
    """
    # The budget of a look is of its runs: what it leaves out must not follow from how long Python takes to start.
    watch = watcher or Watcher()
    watch = replace(watch, clock=Stopwatch())
    with experiment("look", options, watch) as opened:
        try:
            text = SideText(
                text=str(options.model),
                settings=tuple(options.set),
                rewrites=options.rewrite,
                runtime=named(options.runtime),
            )
            side = opened.resolve(text)
        except RuntimeNotFound as error:
            return _Look(options, opened, _unrun(str(options.model), opened.scratch), None).envelope(error)
        return _Look(options, opened, side.model, side).go()


def _unrun(text: str, scratch: Path) -> OpenModel:
    """The model where no runtime is there to run it."""
    git = from_git.split(text)
    if git:
        return open_model(from_git.checkout(*git, scratch / "git"), called=text)
    path = Path(text)
    return open_model(path / bundle_format.read(path).model if bundle_format.is_bundle(path) else path)


def exit_code(envelope: Envelope[LookResult]) -> int:
    """0, or that of the error for which the model was not run."""
    if envelope.error is None:
        return 0
    kinds = (
        errors.UsageError, errors.ModelError, errors.InputError, errors.RuntimeNotFound, errors.BusyError,
        errors.StoreError,
    )  # fmt: skip
    usage = {kind.default_code: kind.exit_code for kind in kinds}
    return usage.get(envelope.error.code, errors.MeasurementError.exit_code)


def contents(model: OpenModel) -> LookResult:
    """Everything that is known without running the model and without input shapes."""
    sizes: Counter[str] = Counter()
    count = 0
    for tensor in parameters(model.ir):
        count += tensor.size
        sizes[type_name(tensor.dtype)] += stored_bytes(tensor)
    return LookResult(
        model=model.info,
        parameters=count,
        parameter_bytes=sizes.total(),
        weight_types=dict(sizes.most_common()),
        operators=dict(sorted(model.op_counts.items(), key=lambda item: (-item[1], item[0]))),
        ort_file=inspect(model),
    )


def _with_work(result: LookResult, model: OpenModel, work: Workload) -> LookResult:
    """The result with the inputs in words and the floating-point operations of one run."""
    result = msgspec.structs.replace(result, inputs=workload.describe(work))
    if not work.cases:
        return result
    flops, cost = run_cost(model.ir, work)
    complete = not look_words.uncounted(cost)
    return msgspec.structs.replace(
        result,
        flops=flops if flops or complete else None,
        flops_complete=complete,
        flops_note=look_words.flops_note(cost),
    )


def _regions(
    model: OpenModel, times: Mapping[str, float], work: Workload | None
) -> tuple[RepeatedRegion, ...]:
    """What comes again and again, by its share of the time where that is known, else of the estimated operations."""
    every = regions.regions(model.ir) if model.info.format == "onnx" else []
    weights = dict(times)
    if every and not weights and work is not None and work.cases:
        _, cost = run_cost(model.ir, work)
        weights = {node.called: float(node.flops * node.times) for node in cost.nodes}
    rows = [
        RepeatedRegion(
            copies=region.copies,
            n_nodes=region.n_nodes,
            first=region.nodes[0],
            operators=region.operators,
            share_ratio=regions.share(region, weights) if weights else None,
            share_from="profile" if times else "cost",
        )
        for region in every
    ]
    return tuple(
        sorted(rows, key=lambda row: (-(row.share_ratio or 0.0), -row.copies * row.n_nodes))[:MOST_REGIONS]
    )


def _one_caller(work: Workload) -> Workload:
    """A first look is no load test, whatever a workload file says: one caller, back to back."""
    if (work.sessions, work.callers, work.gap_ns) == (1, 1, 0):
        return work
    note = look_words.one_caller(load_words(work))
    return msgspec.structs.replace(work, sessions=1, callers=1, gap_ns=0, notes=(*work.notes, note))


class _Look:
    """One look while it is taken."""

    def __init__(
        self,
        options: Options,
        opened: Experiment,
        model: OpenModel,
        side: Resolved | None,
    ) -> None:
        self.options, self.experiment, self.model, self.side = options, opened, model, side
        self.watch, self.scratch, self.machine = opened.watch, opened.scratch, opened.machine
        self.left_out: list[str] = []
        self.needed_s = 0.0  # of a budget that holds what was left out for want of time
        self.work: Workload | None = None
        self.baseline: Baseline | None = None
        self.timing: LookTiming | None = None
        self.profile: OperatorProfile | None = None
        self.headroom: Headroom | None = None
        self.busy = ""
        self.times: dict[str, float] = {}
        self.watch.line("reading the model")
        self.result = contents(model)

    def go(self) -> Envelope[LookResult]:
        """The whole look; what keeps the model from running ends up in the document."""
        assert self.side is not None
        opened, label = self.experiment, self.side.label
        failure: OrtuneError | None = None
        try:
            log = opened.begin(f"{self.result.model.sha256} {self.side.plan.id}", {"model": label})
            try:
                with opened.measuring(label):
                    self._run(self.side)
            except errors.Interrupted:
                raise
            except OrtuneError as error:
                failure = error
            self.result = msgspec.structs.replace(self.result, session=log.id)
            return keep(opened, self.options, self.envelope(failure))
        except errors.StoreError as error:
            return self.envelope(error)

    def _run(self, side: Resolved) -> None:
        baseline = self.baseline = self.experiment.base(side, say=self.watch.line, load=_one_caller)
        self._count(baseline.work)
        self.watch.line("running the model")
        n_notes = len(baseline.notes)
        settle(baseline, self.options.budget_s, self._left_s, self.watch.line)
        self.left_out += baseline.notes[n_notes:]
        self._count(baseline.work)
        first = baseline.executor.last
        assert isinstance(first, Measured)
        self._measure(baseline, first)

    def _count(self, work: Workload) -> None:
        if work is not self.work:
            self.work, self.result = work, _with_work(self.result, self.model, work)

    def _measure(self, baseline: Baseline, first: Measured) -> None:
        """One timed process and one profiled one, as far as the time allows."""
        base = baseline.arm(BASE)
        self.timing = self._timing(first)
        run_ns = self.timing.latency_ns * len(first.done.cases)
        trial_s = (first.elapsed_ns + (LEAST_RUNS - 1) * run_ns) / 1e9
        profile_s = 2 * trial_s  # one process with the profiler and one without
        self.busy = seen(first).busy
        left_s = self._left_s()
        # Where time is short, the plain process beside the profiled one is timed in the place of one of its own; it
        # runs one shape alone.
        both = (
            1.5 * trial_s + profile_s <= left_s
        )  # a timed process may well take longer than the least that it does
        if trial_s > left_s:
            self.needed_s = self._spent_s() + trial_s + profile_s
            self.left_out += [
                look_words.no_time_for(look_words.LATENCY, trial_s),
                look_words.no_time_for(look_words.PROFILE, profile_s),
            ]
        elif both or profile_s > left_s or len(first.done.cases) > 1:
            baseline.executor.timing = _timing(run_ns, left_s - trial_s - (profile_s if both else 0.0))
            timed = baseline.require_measured(base, baseline.executor.trial(base))
            self.busy = seen(timed).busy or self.busy
            self.timing = self._timing(timed)
            if profile_s > self._left_s():
                self.needed_s = self._spent_s() + profile_s
                self.left_out.append(look_words.no_time_for(look_words.PROFILE, profile_s))
            else:
                self._profile(baseline, base, self.timing.latency_ns)
        else:
            self._profile(baseline, base, self.timing.latency_ns)

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

    def _profile(self, baseline: Baseline, base: Arm, latency_ns: float) -> None:
        """Profiles the first shape alone: a profile does not say which shape a run had."""
        self.watch.line("profiling")
        feeds = tuple(FeedRef(name=ref.name, path=ref.path) for ref in base.feeds[:1])
        arm = Arm(name="profiled", plan=base.plan, model=base.model, runtime=base.runtime, feeds=feeds)
        fits = PROFILED_EVENTS // max(1, self.result.model.n_nodes)
        # No more than the time allows, in two processes that take turns.
        time_ns = min(TIMED_NS, max(0.0, self._left_s()) * 1e9 / 4)
        runs = max(3, min(ENOUGH_RUNS, fits, int(time_ns / latency_ns)))
        # Beside a process without the profiler, turn by turn: what the machine does is not the profiler's cost.
        outcome, plain = baseline.executor.profiled([arm], turns_of(runs))[0]
        if not isinstance(outcome, Measured):
            self.left_out.append(look_words.no_profile(f"failed ({describe(outcome).splitlines()[0]})"))
            return
        self.busy = seen(outcome).busy or self.busy
        assert self.timing is not None
        if not self.timing.warmed_up and isinstance(plain, Measured):
            self.timing = self._timing(plain)
        path = Path(outcome.done.profile)
        # ONNX Runtime answers with the path that it was given, which the worker's own folder may be the start of.
        try:
            trace = read_profile(path if path.is_absolute() else self.scratch / path)
        except UsageError as error:
            self.left_out.append(look_words.no_profile(error.what))
            return
        warm = 1 + outcome.done.cases[0].warmup_runs
        if not kept_runs(trace, warm):
            self.left_out.append(look_words.no_profile("holds no whole run"))
            return
        profiled_ns = run_time_ns(trace, warm)
        self.profile = OperatorProfile(
            n_runs=len(kept_runs(trace, warm)),
            run_ns=profiled_ns,
            slowdown_ratio=beside_plain(outcome, plain),
            operators=by_operator(trace, warm),
            nodes=by_node(trace, warm)[:TOP_NODES],
            complete=trace.complete,
        )
        assert self.side is not None and self.work is not None and self.timing is not None
        needed = saving_s(self.timing.load_ns)
        hurried = self._left_s() < needed
        if hurried:
            self.needed_s = self._spent_s() + needed
            self.left_out.append(look_words.no_time_for(look_words.NAMES, needed))
        self.profile, self.headroom, self.times = explained(
            self.side, self.work, trace, warm, self.profile,
            host=self.machine.host, state=seen(outcome), store=self.options.folder, scratch=self.scratch,
            hurried=hurried,
        )  # fmt: skip

    def _left_s(self) -> float:
        return self.options.budget_s - self._spent_s()

    def _spent_s(self) -> float:
        return self.watch.clock.spent_s

    def envelope(self, error: OrtuneError | None) -> Envelope[LookResult]:
        """The document with what is known so far."""
        side = self.side
        findings = measurable(self._findings(), words(self.options, without=("budget",)))
        result = msgspec.structs.replace(
            self.result,
            runtime=side.runtime if side else None,
            plan=side.plan if side else Plan(),
            timing=self.timing,
            profile=self.profile,
            regions=_regions(self.model, self.times, self.work),
            headroom=self.headroom and headroom_words.worded(self.headroom),
            findings=findings,
            facts=as_facts(findings),
            left_out=tuple(self.left_out),
            busy=self.busy,
            next_commands=tuple(self._next(error, {finding.name for finding in findings})),
            elapsed_s=self._spent_s(),
        )
        return self.experiment.document(
            result,
            model=self.model.ref,
            workload=self.work,
            status="error" if error else "ok",
            error=ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
            if error
            else None,
        )

    def _findings(self) -> tuple[Finding, ...]:
        """What stands out in the model and its run; what the machine is like is doctor's to say."""
        facts = rules.Facts(
            model=self.model,
            work=self.work,
            plan=self.side.plan if self.side else Plan(),
            target=targets.of(self.side.plan).name if self.side else self.options.target,
            ort_version=self.side.runtime.ort_version if self.side else "",
            operators=self.profile,
            host=self.machine.host,
            environment=os.environ,
        )
        return rules.findings(facts, without=("ENV",))

    def _next(self, error: OrtuneError | None, names: set[str]) -> list[str]:
        if error is not None:
            return ["ortune doctor"] if error.code == RuntimeNotFound.default_code else []
        # A bundle is tuned already; alone, compare proves it again. The search is for the CPU.
        bundle = bundle_format.is_bundle(Path(str(self.options.model)))
        verb = (
            "compare" if bundle else "tune" if targets.find(self.options.target).provider.ships else "profile"
        )
        again = words(self.options, without=("budget",))
        commands = [shlex.join(["ortune", verb, *again])]
        if self.needed_s:
            commands.append(shlex.join(["ortune", *again, "--budget", _budget(self.needed_s)]))
        if "too-many-threads" in names:
            commands.append("ortune doctor")
        return commands


def _budget(needed_s: float) -> str:
    """A budget that holds what took so long: a fifth more, since no run takes as long as the last, rounded up."""
    seconds = 1.2 * needed_s + 2 * TIMED_NS / 1e9  # more time is more timed runs and a longer warm-up
    return f"{math.ceil(seconds / 10) * 10}s" if seconds <= 120 else f"{math.ceil(seconds / 60)}m"


def _timing(run_ns: float, spare_s: float) -> Timing:
    """Timed runs for about a second, fewer where the budget ends first; at least three."""
    slow = run_ns > 200_000_000
    time_ns = min(TIMED_NS, max(0.0, spare_s * 1e9 / 2))
    runs = max(3, min(200, int(time_ns / max(run_ns, 1))))
    return Timing(
        runs=runs,
        warmup_runs=1 if slow else 3,
        warmup_ns=0 if slow else 30_000_000,
        warmup_cap_ns=0 if slow else 400_000_000,
    )
