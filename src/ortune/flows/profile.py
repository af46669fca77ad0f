"""``ortune profile``: where every millisecond of a run goes, from a model or from a trace that is there already."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from ortune import __version__, knobs, platform
from ortune.bundle import format as bundle_format
from ortune.errors import OrtuneError, UsageError
from ortune.flows.compare import open_store, session_header
from ortune.flows.compare_options import Watcher
from ortune.flows.ground import Ground, InputOptions
from ortune.flows.peaks import load_peak, measure_peak
from ortune.flows.profile_nodes import Origins, origins
from ortune.flows.profile_result import quantile, result_of, side_times
from ortune.flows.profile_words import notes
from ortune.flows.profiling import Process, base_arm, plain_latency_ns, profile, runs_for, side_of
from ortune.flows.sides import Resolved, SideText, merge, read_plan, resolve, target_providers
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
from ortune.store.db import SessionLog
from ortune.store.lock import measuring
from ortune.trace import export
from ortune.trace.attribution import Attribution, attribute
from ortune.trace.difference import difference
from ortune.trace.read import read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Trace
from ortune.trace.timeline import timeline_data
from ortune.trials.scratch import scratch_folder

PROCESSES = 5
"""Profiled processes a side of a difference: from three on a node's change has an interval."""

MODELS = (".onnx", ".ort")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``profile`` can be asked.

    Attributes:
        subject: A SIDE (model, bundle, model of a git revision), or a trace.
        against: Another of the same kind; the difference is this one minus ``subject``.
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
    budget_s: float = 30.0
    peak: bool = True
    keep: Path | None = None
    exports: Sequence[str] = ()
    report: Path | None = None
    store: Path | None = None
    wait: bool = True


def run(options: Options, watcher: Watcher | None = None) -> Envelope:
    """Profiles a model, reads a trace, or compares two of a kind; ``result`` is a ProfileResult.

    Raises:
        OrtuneError: Nothing could be profiled or read.
    """
    watch, start = watcher or Watcher(), time.monotonic()
    wanted = export.parse(options.exports)
    if options.processes is not None and options.processes < 1:
        raise UsageError("at least one process is profiled", where="--processes", do="e.g. --processes 5")
    traces = [text for text in (options.subject, options.against) if text and is_trace(text)]
    both = [text for text in (options.subject, options.against) if text]
    if traces and len(traces) < len(both):
        raise UsageError("a trace and a model cannot be compared", where=traces[0], do="give two of a kind")
    if not traces and options.against is None and (options.against_settings or options.against_python):
        options = replace(options, against=options.subject)
    with scratch_folder() as scratch:
        flow = _Traces if traces else _Models
        return flow(options, watch, scratch, start, wanted).go()


def with_page(envelope: Envelope, trace: Trace, path: Path | None) -> Envelope:
    """Writes the page where one is asked for, and names it among the exports.

    Raises:
        UsageError: It cannot be written.
    """
    if path is None:
        return envelope
    from ortune.report.html.profile_page import render

    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(render(envelope, timeline_data(trace)), encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise UsageError(
            f"the page cannot be written: {error.strerror}", where=str(path), do="choose another --report"
        ) from error
    result = envelope.result
    assert isinstance(result, ProfileResult)
    named = msgspec.structs.replace(result, exports={**result.exports, "report": str(path)})
    return msgspec.structs.replace(envelope, result=named)


def is_trace(text: str) -> bool:
    """Whether a subject is a trace rather than a model: by what it is, and by its ending where it is not there."""
    path = Path(text)
    if path.suffix in MODELS or bundle_format.is_bundle(path) or not path.is_file():
        return path.suffix in (".json", ".log", ".txt") and not bundle_format.is_bundle(path)
    with path.open("rb") as file:
        head = file.read(64).lstrip()
    return head[:1] in (b"[", b"{") or path.suffix in (".json", ".log", ".txt")


class _Traces:
    """Traces that others made."""

    def __init__(
        self, options: Options, watch: Watcher, scratch: Path, start: float, wanted: export.Wanted
    ) -> None:
        self.o, self.watch, self.start, self.wanted = options, watch, start, wanted

    def go(self) -> Envelope:
        trace, found, result = self._one(self.o.subject)
        if self.o.against:
            other, other_found, other_result = self._one(self.o.against)
            sides = [
                side_times(label, [(t, f)], Origins())
                for label, t, f in (
                    (self.o.subject, trace, found),
                    (self.o.against, other, other_found),
                )
            ]
            against = difference(sides[0], sides[1], quantile)
            result = msgspec.structs.replace(
                result, against=against, notes=(*result.notes, *other_result.notes)
            )
        exports = export.write_all(self.wanted, trace, result)
        result = msgspec.structs.replace(result, exports=exports, elapsed_s=time.monotonic() - self.start)
        envelope = Envelope(schema="ortune/profile/1", ortune=__version__, status="ok", result=result)
        return with_page(envelope, trace, self.o.report)

    def _one(self, text: str) -> tuple[Trace, Attribution, ProfileResult]:
        self.watch.line(f"reading {text}")
        trace = read_trace(Path(text))
        warmup = warmup_runs(trace.run_ns)
        steady = range(min(warmup, max(trace.n_runs - 1, 0)), trace.n_runs)
        found = attribute(trace, steady)
        return trace, found, result_of(text, trace, found, warmup, Origins())


class _Models:
    """Models, run here."""

    def __init__(
        self, options: Options, watch: Watcher, scratch: Path, start: float, wanted: export.Wanted
    ) -> None:
        self.o, self.watch, self.scratch, self.start, self.wanted = options, watch, scratch, start, wanted
        self.work: Workload | None = None
        self.shown: Process | None = None

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
            envelope = with_page(envelope, self.shown.trace, self.o.report)
            log.add("result", envelope)
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
            known = [
                origins(s, g.work.cases[0], g.work.custom_ops, self.scratch, mine[0].trace)
                for s, g, mine in zip(sides, grounds, processes, strict=True)
            ]
            # Of several processes the middle one is told in full.
            order = sorted(processes[0], key=lambda p: p.found.mean_wall_ns)
            shown = self.shown = order[len(order) // 2]
            plain = plain_latency_ns(grounds[0], base_arm(grounds[0]), len(shown.found.wall_ns))
            result = result_of(
                self._kept(shown), shown.trace, shown.found, shown.warmup, known[0], peak, sides[0]
            )
            result = msgspec.structs.replace(
                result,
                side=side_of(grounds[0]),
                slowdown_ratio=shown.latency_ns / plain if plain else None,
            )
            result = msgspec.structs.replace(result, notes=(*result.notes, *notes(result, known[0].trouble)))
            if len(sides) > 1:
                result = msgspec.structs.replace(result, against=self._difference(sides, processes, known))
            return msgspec.structs.replace(result, exports=export.write_all(self.wanted, shown.trace, result))
        finally:
            for ground in grounds:
                ground.close()

    def _peak(self, side: Resolved) -> MachinePeak | None:
        known = load_peak(platform.host(), self.o.store)
        if known is not None or not self.o.peak:
            return known
        self.watch.say("measuring what this machine can do at most, once: about ten seconds")
        try:
            return measure_peak(side.runtime, self.scratch, self.o.store)
        except OrtuneError as error:
            self.watch.say(f"the machine's peak is not known: {error.what}")
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
            for number, (ground, arm) in enumerate(zip(grounds, arms, strict=True)):
                self.watch.line(f"profiling, process {turn + 1} of {n}")
                keep = self.scratch / f"trace-{number}-{turn}.json"
                found[number].append(profile(ground, arm, runs[number], keep))
        return found

    def _kept(self, shown: Process) -> str:
        """Where the trace lies after this; "" where it is not kept."""
        if self.o.keep is None:
            return ""
        try:
            shutil.copyfile(shown.path, self.o.keep)
        except OSError as error:
            raise UsageError(
                f"the trace cannot be kept: {error.strerror}",
                where=str(self.o.keep),
                do="choose another --keep",
            ) from error
        return str(self.o.keep)

    def _difference(
        self, sides: Sequence[Resolved], processes: Sequence[Sequence[Process]], known: Sequence[Origins]
    ) -> ProfileDifference:
        same = sides[0].label == sides[1].label
        labels = [f"{side.label} ({side.plan.describe()})" if same else side.label for side in sides]
        times = [
            side_times(label, [(p.trace, p.found) for p in mine], origin)
            for label, mine, origin in zip(labels, processes, known, strict=True)
        ]
        return difference(times[0], times[1], quantile)
