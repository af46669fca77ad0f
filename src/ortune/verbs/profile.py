"""``ortune profile``: where every millisecond of a run goes, from a model or from a trace that is there already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from ortune import rules, targets
from ortune.errors import InputError, OrtuneError, UsageError
from ortune.experiment.baseline import Baseline
from ortune.experiment.document import document
from ortune.experiment.opening import Experiment
from ortune.experiment.watcher import Watcher
from ortune.inputs import feed_files
from ortune.profiling.deliver import Deliverables, deliver
from ortune.profiling.nodes import Origins, counterparts_of, origins
from ortune.profiling.peaks import NOT_MEASURED, load_peak, measure_peak
from ortune.profiling.processes import FEWEST_RUNS, Process, base_arm, profile, runs_within, slowdown
from ortune.profiling.result import difference_of, result_of, side_times
from ortune.profiling.subjects import about_traces
from ortune.records import (
    Envelope,
    MachinePeak,
    Measured,
    PageSeen,
    ProfileDifference,
    ProfileResult,
    Timeline,
    Workload,
)
from ortune.report import headroom_words, profile_words
from ortune.report.answer_commands import IN_A_POD
from ortune.report.difference_words import worded
from ortune.report.finding_words import measurable, sentence
from ortune.search.figures import figure
from ortune.search.phases import LEAST_LOAD_S
from ortune.targets.machine import Machine
from ortune.trace import export
from ortune.trace.attribution import Attribution, attribute, countable
from ortune.trace.lost import whole_runs
from ortune.trace.read import read_trace
from ortune.trace.roofline import below_floor
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Trace, as_one_run
from ortune.trials import pairing
from ortune.trials.input_options import InputOptions
from ortune.trials.sides import Resolved, SideText
from ortune.verbs._first_run import settle
from ortune.verbs._options import (
    MODEL,
    OUT,
    RUN,
    AnyPath,
    Argument,
    Cpus,
    Kept,
    Memory,
    OnePlan,
    Option,
    Pairs,
    Rewrites,
    named,
    option_fields,
    path,
    words,
)
from ortune.verbs._session import experiment

PROCESSES = 5
"""Profiled processes a side of a difference: from three on a node's change has an interval."""


USUAL_BUDGET_S = 30.0


FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""


@dataclass(frozen=True, kw_only=True)
class Options(Kept, OnePlan):
    """Where does every millisecond of a run go?

    Runs a model under ONNX Runtime's profiler, or reads a profile that is there already, and divides the run among
    nodes, operators, layers, thread wait, copies, casts and what lies between: the parts sum to the whole.
    """

    subject: Annotated[
        AnyPath,
        Argument(
            "MODEL|TRACE",
            "model.onnx, model.ort, NAME.ortune or model.onnx@revision, which is run; or a profile to read.",
        ),
    ]
    against: Annotated[
        AnyPath | None,
        Option(
            "--against",
            "B",
            "Another model, a plan for the same, or another trace: where the time went, B minus the first.",
            MODEL,
        ),
    ] = None
    rewrite: Rewrites = ()
    b_set: Annotated[
        Pairs,
        Option(
            "--b-set",
            "KNOB=VALUE",
            "A setting of B alone; without --against B is the same model. Repeatable.",
            MODEL,
        ),
    ] = ()
    b_rewrite: Annotated[
        Sequence[str], Option("--b-rewrite", "NAME[:k=v]", "A rewrite of B alone. Repeatable.", MODEL)
    ] = ()
    b_runtime: Annotated[
        AnyPath | None,
        Option("--b-runtime", "PATH|NAME", "The onnxruntime of B alone.", MODEL, also="--b-python"),
    ] = None
    processes: Annotated[
        int | None,
        Option("--processes", "N", "Profiled processes a side. Default: 1, or 5 with --against.", RUN),
    ] = None
    no_peak: Annotated[
        bool,
        Option(
            "--no-peak",
            "",
            "Do not measure what this machine can do at most, where it is not known yet.",
            RUN,
        ),
    ] = False
    keep: Annotated[
        AnyPath | None,
        Option("--keep", "FILE", "Where ONNX Runtime's own profile is kept.", OUT, again=False, writes=True),
    ] = None
    export: Annotated[
        Sequence[str],
        Option(
            "--export",
            "KIND=FILE",
            "chrome, speedscope, csv, nodes-csv, columns or model-explorer. Repeatable.",
            OUT,
            again=False,
        ),
    ] = ()
    cpus: Cpus = None
    memory: Memory = None
    budget: Annotated[str | float, Option("--budget", "30s", "Time for all measuring.", RUN)] = "30s"
    timeline: bool = False

    @property
    def of_models(self) -> dict[str, bool]:
        """What was asked for that goes with models alone, by option."""
        of_both = {"subject", "against", "no_peak", "keep", "export", "report", "no_wait", "store"}
        return {
            each.spelling.flag: each.given(self)
            for each in option_fields(Options)
            if isinstance(each.spelling, Option) and each.name not in of_both
        }


OWN = ("against", "b_set", "b_runtime", "processes", "no_peak", "keep", "export", "report", "budget")
"""Options that no other verb has in the same sense."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[ProfileResult]:
    """Profiles a model, reads a trace, or compares two of a kind.

    Raises:
        OrtuneError: Nothing could be profiled or read.
    """
    watch = watcher or Watcher()
    wanted = Deliverables(
        exports=export.parse(options.export),
        page=path(options.report),
        keep=path(options.keep),
        timeline=options.timeline,
    )
    if options.processes is not None and options.processes < 1:
        raise UsageError("at least one process is profiled", where="--processes", do="e.g. --processes 5")
    traces = about_traces(str(options.subject), named(options.against), options.of_models)
    if not traces and options.against is None and (options.b_set or options.b_rewrite or options.b_runtime):
        options = replace(options, against=options.subject)
    with experiment("profile", options, watch) as opened:
        flow = _Traces if traces else _Models
        return flow(options, opened, wanted).go()


def _page(envelope: Envelope[ProfileResult], timeline: Timeline) -> str:
    from ortune.report.html import pages

    result = msgspec.structs.replace(envelope.result, timeline=timeline)
    return pages.render(msgspec.structs.replace(envelope, result=result))


def _web_page(baseline: Baseline) -> PageSeen | None:
    """What was seen of the page that ran a side last; None of a process."""
    last = baseline.executor.last
    return last.done.page if isinstance(last, Measured) else None


def _told(
    result: ProfileResult, facts: rules.Facts | None = None, again: Sequence[str] = ()
) -> ProfileResult:
    """The result with what stands out, and in words what can be won.

    Args:
        result: Of the profile.
        facts: What else is known: the model, what it is fed.
        again: Words that name the model with its inputs on a command line.
    """
    # What the machine is like is doctor's to say.
    found = measurable(
        rules.findings(replace(facts or rules.Facts(), profile=result), without=("ENV",)), again
    )
    return msgspec.structs.replace(
        result,
        stands_out=found,
        findings=tuple(sentence(finding) for finding in found),
        headroom=result.headroom and headroom_words.worded(result.headroom),
    )


class _Traces:
    """Traces that others made."""

    def __init__(self, options: Options, opened: Experiment, wanted: Deliverables) -> None:
        self.options, self.experiment, self.watch, self.wanted = options, opened, opened.watch, wanted

    def go(self) -> Envelope[ProfileResult]:
        trace, found, result = self._one(str(self.options.subject))
        if self.options.against:
            other, other_found, other_result = self._one(str(self.options.against))
            a = side_times(str(self.options.subject), [(trace, found)], Origins())
            b = side_times(str(self.options.against), [(other, other_found)], Origins())
            told = [f"B: {text}" for text in (*profile_words.trace_notes(other_result), *other_result.notes)]
            against = msgspec.structs.replace(worded(difference_of(a, b)), b_trace=other_result.trace)
            result = msgspec.structs.replace(result, against=against, notes=(*result.notes, *told))
        subject = str(self.options.subject)
        # Without a machine: where a trace was taken is not in it.
        log = self.experiment.begin(subject, {"model": subject}, here=False)
        result = msgspec.structs.replace(result, session=log.id, elapsed_s=self.watch.clock.spent_s)
        envelope = document("profile", result, store=str(self.options.folder or ""))
        return deliver(envelope, trace, Path(subject), self.wanted, log, _page)

    def _one(self, text: str) -> tuple[Trace, Attribution, ProfileResult]:
        self.watch.line(f"reading {text}")
        trace = whole_runs(as_one_run(read_trace(Path(text))))
        warmup = warmup_runs(trace.run_ns)
        first = min(warmup, max(trace.n_runs - 1, 0))
        steady = countable(trace, first)
        found = attribute(trace, steady)
        result = _told(result_of(text, trace, found, warmup, Origins()))
        if steady.start > first:
            note = profile_words.too_many_runs(trace.n_runs - first, len(steady))
            result = msgspec.structs.replace(result, notes=(*result.notes, note))
        return trace, found, result


class _Models:
    """Models, run here."""

    def __init__(self, options: Options, opened: Experiment, wanted: Deliverables) -> None:
        self.options, self.experiment, self.wanted = options, opened, wanted
        self.watch, self.scratch, self.clock = opened.watch, opened.scratch, opened.clock
        self.work: Workload | None = None
        self.shown: Process | None = None
        self.no_peak = NOT_MEASURED

    def go(self) -> Envelope[ProfileResult]:
        o = self.options
        opened = self.experiment
        sides = [opened.resolve(SideText(text=str(o.subject), rewrites=o.rewrite, runtime=named(o.runtime)))]
        if o.against:
            text = SideText(
                text=str(o.against),
                settings=tuple(o.b_set),
                option="--b-set",
                rewrites=(*o.rewrite, *o.b_rewrite),
                runtime=named(o.b_runtime or o.runtime),
            )
            sides.append(opened.resolve(text, base_model=sides[0].model))
        key = " ".join(f"{s.model.info.sha256} {s.plan.id}" for s in sides)
        with opened.measuring(sides[0].label, key, names={"model": sides[0].label}):
            result = self._measured(sides)
        result = msgspec.structs.replace(result, session=opened.log.id, elapsed_s=self.watch.clock.spent_s)
        assert self.shown is not None
        shown = self.shown
        envelope = opened.document(result)
        envelope = deliver(envelope, shown.trace, shown.path, self.wanted, opened.log, _page)
        opened.say_trouble()
        return envelope

    def _measured(self, sides: Sequence[Resolved]) -> ProfileResult:
        baselines, machine = self.experiment.baselines, self.experiment.machine
        for number, side in enumerate(sides):
            folder = self.scratch / f"side-{number}"
            folder.mkdir()
            feeds = self._as_first(baselines[0], side, folder) if baselines else self.options.feeds
            baseline = self.experiment.base(side, feeds=feeds, scratch=folder)
            name = "AB"[number] if len(sides) > 1 else ""
            settle(baseline, self.options.budget_s, lambda: self.clock.left_s, self.watch.line, name)
            if baseline.executor.last is not None:
                baseline.limits.expect(
                    baseline.executor.last.elapsed_ns, least_s=max(LEAST_LOAD_S, self.options.budget_s)
                )
        self.work = baselines[0].work
        first = _web_page(baselines[0])
        software = first is not None and first.software
        # Once a machine, and so of no budget; what a GPU took that is software is held against no machine's peak.
        peak = None if software else self._peak(sides[0], machine)
        processes = self._processes(baselines)
        # Of several processes the middle one is told in full; names in the profile may differ between them.
        order = sorted(processes[0], key=lambda p: p.found.mean_wall_ns)
        shown = self.shown = order.pop(len(order) // 2)
        processes[0] = [shown, *order]
        known = [
            origins(s, g.work, self.scratch, mine[0].trace, mine[0].graph)
            for s, g, mine in zip(sides, baselines, processes, strict=True)
        ]

        def told(peak: MachinePeak | None) -> ProfileResult:
            return result_of(
                "", shown.trace, shown.found, shown.warmup, known[0], peak, sides[0],
                slowdown=shown.slowdown, cpus=machine.seen.effective_cpus, seen=shown.seen, resident=shown.resident,
                no_peak=self.no_peak if peak is None else "",
            )  # fmt: skip

        result = told(peak)
        if peak is not None and not peak.agreed and below_floor(result.nodes):
            result = told(self._peak_again(sides[0], machine, peak))
        last = baselines[0].executor.last
        trouble = [origins.trouble for origins in known]
        pod = [text for text in baselines[0].notes if text.startswith(IN_A_POD)]
        named = [f"{side}: {text}" for side, text in zip("AB", trouble, strict=False) if text]
        if software:  # nobody's times are left to be made shorter
            result = msgspec.structs.replace(result, headroom=None, software=True)
        result = msgspec.structs.replace(
            _told(
                result,
                rules.Facts(
                    model=sides[0].model,
                    work=self.work,
                    plan=sides[0].plan,
                    target=targets.of(sides[0].plan).name,
                    host=baselines[0].host,
                    page=_web_page(baselines[0]),
                ),
                words(self.options, without=OWN),
            ),
            side=sides[0].seen([last] if isinstance(last, Measured) else ()),
            gpu_run=shown.gpu_run,
            notes=(
                *pod,
                *(named if len(sides) > 1 else filter(None, trouble)),
                *profile_words.untraced(shown.untraced),
            ),
        )
        if len(sides) > 1:
            slow = [slowdown(mine) for mine in processes]
            against = self._difference(sides, processes, known, slow)
            result = msgspec.structs.replace(result, against=against)
        return result

    def _as_first(self, first: Baseline, side: Resolved, folder: Path) -> InputOptions:
        """B gets the values that A was seen to run with, where its inputs take them."""
        feeds = self.options.feeds
        if feeds.inputs is not None or side.model.info.sha256 == first.side.model.info.sha256:
            return feeds
        try:
            pairs = pairing.pair_inputs(first.side.model.ir, side.model.ir, {})
            (ref,) = pairing.feeds_for(first.refs[:1], side.model.ir, pairs, folder)
        except InputError:
            return feeds  # models of two kinds are fed each its own way
        values = feed_files.read_feeds(Path(ref.path))
        if not all(isinstance(v, np.ndarray) and v.dtype.kind in "biuf" for v in values.values()):
            return feeds  # what no file of the user's holds
        arrays: dict[str, Any] = dict(values)
        np.savez(folder / "as-A.npz", **arrays)
        return replace(feeds, inputs=folder / "as-A.npz", shapes={}, dims={})

    def _peak(self, side: Resolved, machine: Machine) -> MachinePeak | None:
        known = load_peak(machine.host, self.options.folder, side.runtime.ort_version)
        if known is not None or self.options.no_peak:
            return known
        self.watch.say("measuring what this machine can do at most, once: about ten seconds")
        try:
            with self.watch.clock.stopped():
                return measure_peak(side.runtime, self.scratch, self.options.folder, machine)
        except OrtuneError as error:
            self.watch.say(f"the machine's peak is not known: {error.what}")
            self.no_peak = error.what
            return None

    def _peak_again(self, side: Resolved, machine: Machine, known: MachinePeak) -> MachinePeak:
        """The peak that nodes were faster than, measured once more where the machine is quiet."""
        if self.options.no_peak:
            return known
        self.watch.say("nodes are faster than the stored peak of this machine allows: measuring it again")
        try:
            with self.watch.clock.stopped():
                return measure_peak(side.runtime, self.scratch, self.options.folder, machine)
        except OrtuneError as error:
            self.watch.say(f"the machine's peak was not measured again: {error.what}")
            return known

    def _processes(self, baselines: Sequence[Baseline]) -> list[list[Process]]:
        """Profiled processes of every side, turn by turn, so that drift hits all alike.

        As many, with as many runs, as the time that is left holds; one of the fewest runs in any case.
        """
        arms = [base_arm(baseline) for baseline in baselines]
        n = self.options.processes or (PROCESSES if len(baselines) > 1 else 1)
        latencies = []
        for baseline in baselines:
            first = baseline.executor.last
            assert isinstance(first, Measured)
            latencies.append(figure(first, "median") or first.done.cases[0].first_ns)

        def runs_of(processes: int) -> int:
            most_ns = self.clock.left_s * 1e9 / processes / len(baselines)
            sides = zip(baselines, latencies, strict=True)
            return min(runs_within(baseline, latency, most_ns) for baseline, latency in sides)

        while not (runs := runs_of(n)) and n > 1 and self.options.processes is None:
            n -= 1
        if not runs:
            self.watch.say("the shortest profile takes longer than the budget")
            runs = FEWEST_RUNS
        found: list[list[Process]] = [[] for _ in baselines]
        for turn in range(n):
            self.watch.line(f"profiling, process {turn + 1} of {n}")
            keep = [self.scratch / f"trace-{number}-{turn}.json" for number in range(len(arms))]
            for mine, process in zip(found, profile(baselines[0], arms, runs, keep), strict=True):
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
        same_nodes = counterparts_of(sides[0], sides[1])
        return worded(difference_of(times[0], times[1], slow, counterparts=same_nodes))
