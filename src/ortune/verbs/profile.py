"""``ortune profile``: where every millisecond of a run goes, from a model or from a trace that is there already."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import __version__, knobs, platform
from ortune.errors import OrtuneError, UsageError
from ortune.profiling.nodes import Origins, counterparts_of, origins
from ortune.profiling.peaks import NOT_MEASURED, load_peak, measure_peak
from ortune.profiling.processes import Process, base_arm, profile, runs_for, side_of, slowdown
from ortune.profiling.result import difference_of, result_of, side_times
from ortune.profiling.words import notes
from ortune.records import (
    Envelope,
    MachinePeak,
    Measured,
    ModelRef,
    Plan,
    ProfileDifference,
    ProfileResult,
    Workload,
)
from ortune.search.figures import figure
from ortune.search.plan_edits import merge
from ortune.store.db import SessionLog
from ortune.store.lock import measuring
from ortune.trace import export
from ortune.trace.attribution import Attribution, attribute, countable
from ortune.trace.read import read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Trace, as_one_run
from ortune.trials.baseline import Ground, InputOptions
from ortune.trials.scratch import scratch_folder
from ortune.trials.sides import Resolved, SideText, read_plan, resolve, target_providers
from ortune.trials.watcher import Watcher
from ortune.verbs.compare import open_store, session_header
from ortune.verbs.profile_deliver import Wishes, deliver
from ortune.verbs.profile_subjects import about_traces

PROCESSES = 5
"""Profiled processes a side of a difference: from three on a node's change has an interval."""


USUAL_BUDGET_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``profile`` can be asked.

    Attributes:
        subject: A SIDE (model, bundle, model of a git revision), or a trace.
        against: Another of the same kind, or a plan for the model; the difference is this one minus ``subject``.
        against_settings: Settings of that side alone.
        processes: Profiled processes a side; None is one, or ``PROCESSES`` with ``against``.
        peak: Measure this machine's peak where it is not known yet.
        keep: Where the trace is kept.
        exports: "kind=file" each.
        report: Where the page goes.
    """

    subject: str
    against: str | None = None
    settings: Sequence[str] = ()
    against_settings: Sequence[str] = ()
    plan: Path | None = None
    python: str | None = None
    against_python: str | None = None
    target: str = "cpu"
    inputs: InputOptions = field(default_factory=InputOptions)
    processes: int | None = None
    budget_s: float = USUAL_BUDGET_S
    peak: bool = True
    keep: Path | None = None
    exports: Sequence[str] = ()
    report: Path | None = None
    store: Path | None = None
    wait: bool = True

    @property
    def of_models(self) -> dict[str, bool]:
        """What was asked for that goes with models alone, by option."""
        given, usual = self.inputs, InputOptions()
        return {
            "--set": bool(self.settings),
            "--b-set": bool(self.against_settings),
            "--plan": self.plan is not None,
            "--python": self.python is not None,
            "--b-python": self.against_python is not None,
            "--target": self.target != "cpu",
            "--shape": given.shapes != usual.shapes,
            "--dim": given.dims != usual.dims,
            "--inputs": given.inputs is not None,
            "--workload": given.workload is not None,
            "--save-workload": given.save_workload is not None,
            "--custom-ops": bool(given.custom_ops),
            "--seed": given.seed != usual.seed,
            "--processes": self.processes is not None,
            "--budget": self.budget_s != USUAL_BUDGET_S,
        }


def run(options: Options, watcher: Watcher | None = None) -> Envelope:
    """Profiles a model, reads a trace, or compares two of a kind; ``result`` is a ProfileResult.

    Raises:
        OrtuneError: Nothing could be profiled or read.
    """
    watch, start = watcher or Watcher(), time.monotonic()
    wishes = Wishes(exports=export.parse(options.exports), page=options.report, keep=options.keep)
    if options.processes is not None and options.processes < 1:
        raise UsageError("at least one process is profiled", where="--processes", do="e.g. --processes 5")
    traces = about_traces(options.subject, options.against, options.of_models)
    if not traces and options.against is None and (options.against_settings or options.against_python):
        options = replace(options, against=options.subject)
    with scratch_folder() as scratch:
        flow = _Traces if traces else _Models
        return flow(options, watch, scratch, start, wishes).go()


class _Traces:
    """Traces that others made."""

    def __init__(self, options: Options, watch: Watcher, scratch: Path, start: float, wishes: Wishes) -> None:
        self.o, self.watch, self.start, self.wishes = options, watch, start, wishes

    def go(self) -> Envelope:
        trace, found, result = self._one(self.o.subject)
        if self.o.against:
            other, other_found, other_result = self._one(self.o.against)
            a = side_times(self.o.subject, [(trace, found)], Origins())
            b = side_times(self.o.against, [(other, other_found)], Origins())
            told = [f"B: {text}" for text in (*other_result.trace.missing, *other_result.notes)]
            result = msgspec.structs.replace(
                result, against=difference_of(a, b), notes=(*result.notes, *told)
            )
        store, _ = open_store(self.o.store)
        try:
            log = SessionLog(None, "")
            if store:
                # Without a machine: where a trace was taken is not in it.
                log = store.begin("profile", f"profile {self.o.subject}", {"model": self.o.subject})
            result = msgspec.structs.replace(result, session=log.id, elapsed_s=time.monotonic() - self.start)
            envelope = Envelope(schema="ortune/profile/1", ortune=__version__, status="ok", result=result)
            return deliver(envelope, trace, Path(self.o.subject), self.wishes, log)
        finally:
            if store:
                store.close()

    def _one(self, text: str) -> tuple[Trace, Attribution, ProfileResult]:
        self.watch.line(f"reading {text}")
        trace = as_one_run(read_trace(Path(text)))
        warmup = warmup_runs(trace.run_ns)
        first = min(warmup, max(trace.n_runs - 1, 0))
        steady = countable(trace, first)
        found = attribute(trace, steady)
        result = result_of(text, trace, found, warmup, Origins())
        if steady.start > first:
            note = (
                f"of {trace.n_runs - first:,} steady runs the last {len(steady):,} are told: all are too many"
            )
            result = msgspec.structs.replace(result, notes=(*result.notes, note))
        return trace, found, result


class _Models:
    """Models, run here."""

    def __init__(self, options: Options, watch: Watcher, scratch: Path, start: float, wishes: Wishes) -> None:
        self.o, self.watch, self.scratch, self.start, self.wishes = options, watch, scratch, start, wishes
        self.work: Workload | None = None
        self.shown: Process | None = None
        self.no_peak = NOT_MEASURED

    def go(self) -> Envelope:
        o = self.o
        common = Plan(settings=knobs.parse_settings(list(o.settings)), providers=target_providers(o.target))
        if o.plan:
            common = merge(read_plan(o.plan), common)
        text = SideText(text=o.subject, python=o.python)
        sides = [resolve(text, common=common, base_model=None, scratch=self.scratch)]
        if o.against:
            text = SideText(text=o.against, settings=o.against_settings, python=o.against_python or o.python)
            sides.append(resolve(text, common=common, base_model=sides[0].model, scratch=self.scratch))
        store, trouble = open_store(o.store)
        try:
            if trouble:
                self.watch.say(trouble)
            log = SessionLog(None, "")
            if store:
                key = " ".join(["profile", *(f"{s.model.info.sha256} {s.plan.id}" for s in sides)])
                log = store.begin("profile", key, session_header(model=sides[0].label))
            with measuring(f"profile {sides[0].label}", wait=o.wait, say=self.watch.say):
                result = self._measured(sides, log)
            result = msgspec.structs.replace(result, session=log.id, elapsed_s=time.monotonic() - self.start)
            envelope = Envelope(
                schema="ortune/profile/1",
                ortune=__version__,
                host=platform.host(),
                model=ModelRef(path=str(sides[0].model.path), sha256=sides[0].model.info.sha256),
                workload=self.work,
                status="ok",
                result=result,
            )
            assert self.shown is not None
            envelope = deliver(envelope, self.shown.trace, self.shown.path, self.wishes, log)
            if log.trouble:
                self.watch.say(log.trouble)
        finally:
            if store:
                store.close()
        return envelope

    def _measured(self, sides: Sequence[Resolved], log: SessionLog) -> ProfileResult:
        grounds: list[Ground] = []
        try:
            for number, side in enumerate(sides):
                folder = self.scratch / f"side-{number}"
                folder.mkdir()
                ground = Ground(side, self.o.inputs, folder, log, self.watch.say)
                grounds.append(ground)
                ground.settle(self.o.budget_s)
            self.work = grounds[0].work
            peak = self._peak(sides[0])
            processes = self._processes(grounds)
            # Of several processes the middle one is told in full; names in the profile may differ between them.
            order = sorted(processes[0], key=lambda p: p.found.mean_wall_ns)
            shown = self.shown = order.pop(len(order) // 2)
            processes[0] = [shown, *order]
            known = [
                origins(s, g.work, self.scratch, mine[0].trace)
                for s, g, mine in zip(sides, grounds, processes, strict=True)
            ]
            result = result_of(
                "", shown.trace, shown.found, shown.warmup, known[0], peak, sides[0],
                slowdown=shown.slowdown, seen=shown.seen, resident=shown.resident,
                no_peak=self.no_peak if peak is None else "",
            )  # fmt: skip
            result = msgspec.structs.replace(result, side=side_of(grounds[0]))
            result = msgspec.structs.replace(result, notes=(*result.notes, *notes(result, known)))
            if len(sides) > 1:
                slow = [slowdown(mine) for mine in processes]
                against = self._difference(sides, processes, known, slow)
                result = msgspec.structs.replace(result, against=against)
            return result
        finally:
            for ground in grounds:
                ground.close()

    def _peak(self, side: Resolved) -> MachinePeak | None:
        known = load_peak(platform.host(), self.o.store, side.runtime.ort_version)
        if known is not None or not self.o.peak:
            return known
        self.watch.say("measuring what this machine can do at most, once: about ten seconds")
        try:
            return measure_peak(side.runtime, self.scratch, self.o.store)
        except OrtuneError as error:
            self.watch.say(f"the machine's peak is not known: {error.what}")
            self.no_peak = error.what
            return None

    def _processes(self, grounds: Sequence[Ground]) -> list[list[Process]]:
        """Profiled processes of every side, turn by turn, so that drift hits all alike."""
        arms = [base_arm(ground) for ground in grounds]
        n = self.o.processes or (PROCESSES if len(grounds) > 1 else 1)
        runs = []
        for ground in grounds:
            first = ground.executor.last
            assert isinstance(first, Measured)
            latency = figure(first, "median") or first.done.cases[0].first_ns
            runs.append(runs_for(latency, ground.side.model.info.n_nodes))
        found: list[list[Process]] = [[] for _ in grounds]
        for turn in range(n):
            self.watch.line(f"profiling, process {turn + 1} of {n}")
            keep = [self.scratch / f"trace-{number}-{turn}.json" for number in range(len(arms))]
            for mine, process in zip(found, profile(grounds[0], arms, min(runs), keep), strict=True):
                mine.append(process)
        return found

    def _difference(
        self,
        sides: Sequence[Resolved],
        processes: Sequence[Sequence[Process]],
        known: Sequence[Origins],
        slow: Sequence[float | None],
    ) -> ProfileDifference:
        same = sides[0].label == sides[1].label
        labels = [f"{side.label} ({side.plan.describe()})" if same else side.label for side in sides]
        times = [
            side_times(label, [(p.trace, p.found) for p in mine], origin)
            for label, mine, origin in zip(labels, processes, known, strict=True)
        ]
        return difference_of(times[0], times[1], slow, counterparts=counterparts_of(sides[0], sides[1]))
