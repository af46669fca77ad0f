"""``ortune profile``: the time of a run by category, operator and node, from a model or an existing trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from ortune import monotonic, rules, targets
from ortune.engines.profiling.compiled import compiled_graph
from ortune.engines.profiling.deliver import Deliverables, deliver
from ortune.engines.profiling.nodes import NodeOrigins, find_origins
from ortune.engines.profiling.peaks import measure_peak, peak_s
from ortune.engines.profiling.processes import (
    FEWEST_RUNS,
    ProfiledProcess,
    affordable,
    profile_once,
    profiled_arm,
)
from ortune.engines.profiling.result import difference_of, result_of, side_times
from ortune.engines.profiling.stored_peaks import load_peak, not_measured
from ortune.engines.profiling.why import difference_between
from ortune.errors import Interrupted, OrtuneError, UsageError
from ortune.measuring.document import document
from ortune.measuring.first_run import find_checked_inputs
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide, SideText
from ortune.measuring.watcher import Watcher
from ortune.outputs import pairing
from ortune.records import (
    Envelope,
    MachinePeak,
    Measured,
    ProfileResult,
    Timeline,
    messages,
)
from ortune.search.blocks import BASE
from ortune.search.phases import LEAST_CHECKS_S, LEAST_LOAD_S
from ortune.show import headroom_words
from ortune.show.difference_words import worded
from ortune.show.finding_words import measurable
from ortune.show.message_words import texts
from ortune.trace import export
from ortune.trace.roofline import below_floor
from ortune.trace.undisturbed import as_profile
from ortune.verbs._shared.one_caller import one_caller
from ortune.verbs._shared.session import begin_or_resume, experiment
from ortune.verbs._shared.spelling import named, path, words
from ortune.verbs._shared.watching import with_words
from ortune.verbs.look import words as look_words
from ortune.verbs.profile import compiled_words
from ortune.verbs.profile import note_words as profile_notes
from ortune.verbs.profile.branches import with_distinct_names
from ortune.verbs.profile.options import Options
from ortune.verbs.profile.subjects import RecordedTrace, about_traces, read_recorded

PROCESSES = 5
"""Profiled processes per side of a comparison; with three or more, a node's change has an interval."""


OWN = ("against", "b_set", "b_runtime", "processes", "no_peak", "keep", "export", "report", "budget")
"""Options that other verbs lack or use in a different sense."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[ProfileResult]:
    """Profile a model, read a trace, or compare two models or traces.

    Raises:
        OrtuneError: Nothing could be profiled or read.
    """
    watch = with_words(watcher)
    wanted = Deliverables(
        exports=export.parse(options.export),
        page=path(options.report),
        keep=path(options.keep),
        timeline=options.timeline,
    )
    if options.processes is not None and options.processes < 1:
        raise UsageError("at least one process is required", where="--processes", do="e.g. --processes 5")
    traces = about_traces(str(options.subject), named(options.against), options.of_models)
    if not traces and options.against is None and (options.b_set or options.b_rewrite or options.b_runtime):
        options = replace(options, against=options.subject)
    with experiment("profile", options, watch) as opened:
        return _traces(options, opened, wanted) if traces else _Models(options, opened, wanted).go()


def _page(envelope: Envelope[ProfileResult], timeline: Timeline) -> str:
    from ortune.show.html import pages

    result = msgspec.structs.replace(envelope.result, timeline=timeline)
    return pages.render(msgspec.structs.replace(envelope, result=result))


def _with_findings(result: ProfileResult, facts: rules.Facts, again: Sequence[str] = ()) -> ProfileResult:
    """Return the result with its findings, and with the possible gain as a sentence.

    Args:
        result: Result of the profile.
        facts: Facts about the model and its inputs.
        again: Arguments that pass the model and its inputs on a command line.
    """
    # Findings on the machine are left to ``ortune doctor``.
    findings = measurable(rules.findings(replace(facts, profile=as_profile(result)), without=("ENV",)), again)
    return msgspec.structs.replace(
        result,
        stands_out=findings,
        findings=tuple(finding.sentence() for finding in findings),
        headroom=result.headroom and headroom_words.worded(result.headroom),
    )


# --- traces that others made


def _traces(options: Options, opened: Experiment, wanted: Deliverables) -> Envelope[ProfileResult]:
    subject = str(options.subject)
    recorded, result = _trace(subject, opened.watch)
    if options.against:
        other, other_result = _trace(str(options.against), opened.watch)
        a, b = (
            side_times(str(name), [(side.trace, side.steady)], NodeOrigins())
            for name, side in ((options.subject, recorded), (options.against, other))
        )
        of_b = [f"B: {text}" for text in (*profile_notes.trace_notes(other_result), *other_result.notes)]
        against = msgspec.structs.replace(worded(difference_of(a, b)), b_trace=other_result.trace)
        result = msgspec.structs.replace(result, against=against, notes=(*result.notes, *of_b))
    # Without a machine: where a trace was taken is not in it.
    log = opened.begin(subject, {"model": subject}, here=False)
    result = msgspec.structs.replace(result, session=log.id, elapsed_s=opened.watch.clock.spent_s)
    envelope = document("profile", result, store=str(options.folder or ""))
    return deliver(envelope, recorded.trace, Path(subject), wanted, log, _page)


def _trace(text: str, watch: Watcher) -> tuple[RecordedTrace, ProfileResult]:
    watch.line(f"reading {text}")
    recorded = read_recorded(Path(text))
    steady = recorded.steady
    result = result_of(text, recorded.trace, steady, recorded.warmup, NodeOrigins())
    result = _with_findings(result, rules.Facts())
    if recorded.n_whole > len(steady.runs):
        note = profile_notes.too_many_runs(recorded.n_whole, len(steady.runs))
        result = msgspec.structs.replace(result, notes=(*result.notes, note))
    return recorded, result


# --- models, run here


class _Models:
    """A running profile of one or two models."""

    def __init__(self, options: Options, opened: Experiment, wanted: Deliverables) -> None:
        self.options, self.experiment, self.wanted = options, opened, wanted
        self.watch, self.scratch, self.budget = opened.watch, opened.scratch, opened.budget
        self.no_peak = not_measured(options.folder)

    def go(self) -> Envelope[ProfileResult]:
        o, opened = self.options, self.experiment
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
        with opened.measuring(sides[0].label):
            begin_or_resume(opened, o, sides, o.resume, model=sides[0].label)
            shown, result = self._measured(sides)
        result = msgspec.structs.replace(
            result,
            session=opened.log.id,
            elapsed_s=opened.elapsed_s,
            notes=(*result.notes, *texts(opened.notes)),
        )
        envelope = opened.document(result)
        envelope = deliver(envelope, shown.trace, shown.path, self.wanted, opened.log, _page)
        opened.report_storage_failures()
        return envelope

    def _measured(self, sides: Sequence[ResolvedSide]) -> tuple[ProfiledProcess, ProfileResult]:
        """Profile all sides and return the process that is reported in full, and the result over all processes."""
        for number, side in enumerate(sides):
            self._run_first(number, side, "AB"[number] if len(sides) > 1 else "")
        baselines, machine = self.experiment.baselines, self.experiment.machine
        sides = [with_distinct_names(b.side, self.scratch / f"branches-{n}") for n, b in enumerate(baselines)]
        base = baselines[0]
        last = base.executor.last
        page = last.done.page if isinstance(last, Measured) else None
        emulated = targets.target_of(sides[0].plan).emulated(last) if isinstance(last, Measured) else ""
        software = replace(base.facts(), page=page, emulated=emulated).in_software
        # The times of an emulated GPU are not compared with a peak.
        peak = None if software else self._stored_peak(sides[0])
        missing = peak is None and not software and not self.options.no_peak
        self.experiment.replay.record_other_work()
        processes = self._processes(baselines, sides, keep_s=self._peak_s() if missing else 0.0)
        # Of several processes, the one with the middle time is shown in full; node names may differ between profiles.
        order = sorted(processes[0], key=lambda p: p.attribution.mean_wall_ns)
        shown = order.pop(len(order) // 2)
        processes[0] = [shown, *order]
        map_s = self.experiment.pace().left_s
        graphs = [
            # That is work of the answer's kind, and takes about as long.
            find_origins(side, baseline.work, self.scratch, mine[0].trace, mine[0].graph)
            if map_s > self.experiment.answer_s
            else NodeOrigins(trouble=profile_notes.NOT_MAPPED)
            for side, baseline, mine in zip(sides, baselines, processes, strict=True)
        ]

        if missing:
            peak = self._peak(sides[0])

        def held_against(peak: MachinePeak | None) -> ProfileResult:
            return result_of(
                "", shown.trace, shown.attribution, shown.warmup, graphs[0], peak, sides[0],
                slowdown=shown.slowdown, cpus=machine.trial_host.effective_cpus, state=shown.state,
                resident=shown.resident, no_peak=self.no_peak if peak is None else "", gpu_run=shown.gpu_run,
            )  # fmt: skip

        result = held_against(peak)
        if peak is not None and not peak.agreed and below_floor(result.nodes):
            result = held_against(self._peak(sides[0], peak))
        if software:  # the times of an emulated device are not worth shortening
            result = msgspec.structs.replace(result, headroom=None, software=True)
        pace = self.experiment.pace(least_s=LEAST_CHECKS_S)
        facts = replace(base.facts(), page=page, emulated=emulated, begins=pace.begins)
        trouble = [graph.trouble for graph in graphs]
        seen = sides[0].placed_record([last] if isinstance(last, Measured) else ())
        compiled, no_layers = (
            compiled_graph(sides[0], seen.placement, base.refs, base.work.custom_ops, self.scratch)
            if self.experiment.pace().left_s > self.experiment.answer_s
            else (None, "")
        )
        of_sides = [f"{name}: {text}" for name, text in zip("AB", trouble, strict=False) if text]
        result = _with_findings(result, facts, words(self.options, without=OWN))
        result = msgspec.structs.replace(
            result,
            side=seen,
            compiled=compiled,
            notes=(
                *compiled_words.missing(sides[0].plan, no_layers),
                *texts(note for note in base.notes if isinstance(note, messages.InAPod)),
                *(text for text in base.work.notes if text.startswith(look_words.ONE_CALLER)),
                *(of_sides if len(sides) > 1 else filter(None, trouble)),
                *profile_notes.untraced(shown.untraced),
                *texts(self.experiment.skipped(pace)),
            ),
        )
        if len(sides) > 1:
            against = worded(difference_between(sides, processes, graphs))
            result = msgspec.structs.replace(result, against=against)
        return shown, result

    def _run_first(self, number: int, side: ResolvedSide, name: str) -> None:
        """Run a side for the first time. Side B gets the input values of A if their inputs are compatible."""
        opened, feeds = self.experiment, self.options.feeds
        folder = self.scratch / f"side-{number}"
        folder.mkdir()
        first = opened.baselines[0] if opened.baselines else None
        if first and feeds.inputs is None and side.model.info.sha256 != first.side.model.info.sha256:
            inputs = pairing.write_inputs_for(
                first.side.model.ir, first.refs, side.model.ir, folder, folder / "as-A.npz"
            )
            feeds = replace(feeds, inputs=inputs, shapes={}, dims={}) if inputs else feeds
        baseline = opened.base_measuring(side, feeds=feeds, scratch=folder, load=one_caller)
        find_checked_inputs(baseline, self.budget, name)
        if baseline.executor.last is not None:
            least_s = max(LEAST_LOAD_S, self.options.budget_s)
            baseline.limits.expect(baseline.executor.last.elapsed_ns, least_s=least_s)

    def _stored_peak(self, side: ResolvedSide) -> MachinePeak | None:
        return load_peak(self.experiment.machine.host, self.options.folder, side.runtime.ort_version)

    def _peak_s(self) -> float:
        """Return the minimum time for measuring this machine's peak, in seconds."""
        last = self.experiment.baselines[0].executor.last
        start_s = 1e-9 * last.elapsed_ns if last is not None else 0.0
        return peak_s(self.experiment.machine, start_s)

    def _peak(self, side: ResolvedSide, doubted: MachinePeak | None = None) -> MachinePeak | None:
        """Measure the machine's peak in the remaining time; return ``doubted`` if the time is too short or it fails.

        Args:
            side: Side whose ONNX Runtime is measured.
            doubted: The stored peak, if nodes exceeded it; else None.
        """
        again = doubted is not None
        if again and self.options.no_peak:
            return doubted
        needed_s, left_s = self._peak_s(), self.experiment.pace().left_s
        if needed_s > left_s:
            self.no_peak = profile_notes.no_time_for_peak(needed_s)
            self.watch.say(profile_notes.no_peak(self.no_peak, again=again))
            return doubted
        self.watch.say(profile_notes.PEAK_DOUBTED if again else profile_notes.MEASURING_PEAK)
        ends_s = monotonic.now_s() + left_s
        try:
            return measure_peak(
                side.runtime,
                self.scratch,
                self.options.folder,
                self.experiment.machine,
                stop=lambda: monotonic.now_s() + needed_s / 2 > ends_s,
            )
        except OrtuneError as error:
            ended = isinstance(error, Interrupted)
            self.no_peak = profile_notes.no_time_for_peak(needed_s) if ended else error.what
            self.watch.say(profile_notes.no_peak(self.no_peak, again=again))
            return doubted

    def _processes(
        self, baselines: Sequence[Measuring], sides: Sequence[ResolvedSide], keep_s: float
    ) -> list[list[ProfiledProcess]]:
        """Run profiled processes of every side in turns, so that drift affects all sides alike.

        The number of processes and runs depends on the remaining time; at least one process runs, for the fewest runs.

        Args:
            baselines: The measurement of each side, after its first run.
            sides: The sides to profile.
            keep_s: Seconds to reserve for measuring the machine's peak, provided that the number of processes
                stays the same and at least half of the runs remain.
        """
        replay, asked = self.experiment.replay, self.options.processes
        wanted = asked or (PROCESSES if len(baselines) > 1 else 1)
        # What is left once the traces are read and their nodes found, and the answer written.
        left_s = self.budget.left_s - (1 + len(baselines)) * self.experiment.answer_s

        def affordable_runs() -> tuple[int, int]:
            n, runs = affordable(baselines, left_s * 1e9, wanted, fixed=asked is not None)
            fewer = affordable(baselines, (left_s - keep_s) * 1e9, wanted, fixed=asked is not None)
            # The peak costs some runs, never a process, and never more than half of the runs.
            return fewer if fewer[0] == n and 2 * fewer[1] >= runs else (n, runs)

        n, runs = replay.once("affordable", tuple[int, int], affordable_runs)
        if not runs:
            self.watch.say(profile_notes.OVER_BUDGET)
            runs = FEWEST_RUNS
        arms = [
            profiled_arm(baseline, baseline.arm(BASE, side=side))
            for baseline, side in zip(baselines, sides, strict=True)
        ]
        processes: list[list[ProfiledProcess]] = [[] for _ in baselines]
        for turn in range(n):
            self.watch.line(f"profiling, process {turn + 1} of {n}")
            places = [self.scratch / f"trace-{number}-{turn}.json" for number in range(len(arms))]
            of_turn = profile_once(baselines[0], replay, turn, arms, runs, places)
            for mine, process in zip(processes, of_turn, strict=True):
                mine.append(process)
        return processes
