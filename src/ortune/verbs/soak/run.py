"""``ortune soak``: tests whether memory grows over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.inputs.fresh import fresh_inputs
from ortune.measuring import failures, soak_experiments
from ortune.measuring.budget import Budget
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import ResolvedSide, SideText
from ortune.measuring.soaking import ModelSoak, Schedule, SoakedProcess, as_is
from ortune.measuring.watcher import Watcher
from ortune.records import ArrivalSchedule, Envelope, FreshInput, NodeMemory, SoakExperiment
from ortune.runtimes import runtimes
from ortune.search.phases import SOAK_SHARE
from ortune.show.message_words import texts
from ortune.stats import arrivals
from ortune.verbs._shared import soak_progress
from ortune.verbs._shared.applications import recording_of, require_no_models
from ortune.verbs._shared.quantities import per_second
from ortune.verbs._shared.session import experiment, store_result
from ortune.verbs._shared.spelling import named
from ortune.verbs._shared.watching import with_words
from ortune.verbs.soak import app, judging, words
from ortune.verbs.soak.causes import findings_of
from ortune.verbs.soak.changes import LEAST_ALIVE, soak_changes
from ortune.verbs.soak.judging import killed, made
from ortune.verbs.soak.options import Options
from ortune.verbs.soak.result import PointRow, SoakResult

PROCESSES = 3
"""Number of processes of the unchanged model, so that the verdict does not depend on a single process."""
NODES_S = 1.0
"""Duration in seconds of the process that records the memory of each node."""
MOST_NODES = 10
FIRST_SHARE = 0.3
"""Maximum fraction of the remaining time for the first run of the model."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[SoakResult]:
    """Soak a model or a recorded application and return the document.

    Raises:
        OrtuneError: Nothing could be measured.
    """
    watch = with_words(watcher)
    recording = recording_of(options.model)
    if recording is not None:
        return app.soak(options, recording, watch)
    require_no_models(options.models)
    with experiment("soak", options, watch) as opened:
        text = SideText(
            text=str(options.model),
            settings=tuple(options.set),
            rewrites=options.rewrite,
            runtime=named(options.runtime),
        )
        side = opened.resolve(text)
        _require_here(side)
        watch.say(f"measuring with {runtimes.describe(side.runtime)}")
        with opened.measuring(side.label, side.label, names={"model": side.label}):
            envelope = _Run(options, opened, side).go()
        return store_result(opened, options, envelope)


def exit_code(envelope: Envelope[SoakResult]) -> int:
    """Return 1 if the verdict is one of ``--fail-on``, or else 0."""
    return int(envelope.result.failed)


def _require_here(side: ResolvedSide) -> None:
    """Raise UsageError for a side whose memory cannot be observed, such as a side on another machine or in Node.js."""
    if side.runtime.host is not None or side.runtime.source is not None or side.plan.is_node:
        raise UsageError(
            "its memory cannot be followed over time",
            where=side.label,
            do="soak an ONNX model with an onnxruntime or a browser of this machine",
        )


class _Run:
    """A running soak of a model."""

    def __init__(self, options: Options, opened: Experiment, side: ResolvedSide) -> None:
        self.options, self.opened, self.side = options, opened, side
        self.baseline: Measuring = opened.base_measuring(side)

    def go(self) -> Envelope[SoakResult]:
        """Soak the model and judge its memory, test possible causes if memory rises, and return the document."""
        opened, baseline = self.opened, self.baseline
        baseline.find_inputs(FIRST_SHARE * opened.budget.left_s)
        opened.replay.record_other_work()
        fresh = fresh_inputs(baseline.work)
        n = max(1, min(PROCESSES, baseline.executor.most_alive))
        arms = as_is(baseline, fresh, n, self.options.recreate)
        budget = opened.budget.running.reserve(opened.answer_s)
        look_s = budget.spent_s + SOAK_SHARE * budget.left_s
        soak = ModelSoak(opened, baseline, arms, SOAK_SHARE * budget.left_s, self._schedule())
        progress = partial(soak_progress.show, opened, "process")
        try:
            going = soak.start() and soak.run(look_s, progress)
            # If memory is flat or undecided so far, the soak continues for the rest of the time.
            rises = going and soak.all_alive and judging.rises(soak.soaked)
            if going and not rises:
                going = soak.run(budget.end_s, progress)
        finally:
            soaked = soak.close()
        if not soak.repeats and not any(process.failure for process in soaked):
            raise Interrupted(words.STOPPED)
        self._require_answer(soaked)
        result = made(self.options, opened, baseline, soak, rate_per_s=self._rate())
        if rises and result.verdict in judging.RISES:
            found, points, going = self._causes(result, fresh, budget)
            result = msgspec.structs.replace(
                result,
                nodes=self._nodes(fresh, budget) if going and not self.side.plan.is_web else (),
                notes=(*baseline.work.notes, *texts(baseline.notes)),
                experiments=tuple(found),
                points=(*result.points, *points),
                findings=(*result.findings, *findings_of(baseline, found)),
                elapsed_s=opened.elapsed_s,
            )
        return opened.document(result, status="ok" if going else "interrupted", verdict=result.verdict)

    def _causes(
        self, result: SoakResult, fresh: tuple[FreshInput, ...], budget: Budget
    ) -> tuple[list[SoakExperiment], list[PointRow], bool]:
        """Soak the changes that may explain rising memory; return as ``soak_changes`` does."""
        opened, baseline = self.opened, self.baseline
        sizes = [size.size for size in result.sizes]
        largest = sizes.index(result.raised_by) if result.raised_by else 0
        wanted = soak_experiments.experiment_arms(baseline, fresh, self.options.recreate, largest)
        if baseline.executor.most_alive < LEAST_ALIVE:
            baseline.note(words.NO_EXPERIMENTS)
            return [], [], True
        parts = soak_experiments.groups(wanted, baseline.executor.most_alive)
        opened.watch.say(words.causes(len(wanted) - 1))
        return soak_changes(
            parts,
            budget,
            lambda arms, total_s: ModelSoak(opened, baseline, arms, total_s, self._schedule()),
            partial(soak_progress.show, opened, "process"),
            growing=result.verdict == "growing",
        )

    def _nodes(self, fresh: tuple[FreshInput, ...], budget: Budget) -> tuple[NodeMemory, ...]:
        """Record the memory of nodes in a short separate process; return the nodes that allocate most."""
        wanted = soak_experiments.recorded_nodes(self.baseline, fresh)
        soak = ModelSoak(self.opened, self.baseline, [wanted], NODES_S)
        try:
            # All sizes were called before, so this takes no longer than a turn.
            if soak.start():
                soak.run(budget.running.spent_s + NODES_S, lambda points: None)
        finally:
            (soaked,) = soak.close()
        return soaked.nodes[:MOST_NODES]

    def _rate(self) -> float | None:
        rate = self.options.rate
        return None if rate is None else per_second(rate, "--rate")

    def _schedule(self) -> Schedule | None:
        rate = self._rate()
        return None if rate is None else partial(_starts, self.options.arrival or "poisson", rate)

    def _require_answer(self, soaked: Sequence[SoakedProcess]) -> None:
        """Raise MeasurementError if a process failed for a reason other than memory, or its memory is unknown."""
        for process in soaked:
            failure = process.failure
            if failure is not None and not killed(failure):
                raise MeasurementError(
                    failures.describe(failure),
                    where=self.side.label,
                    do=failures.remedy(failure, in_page=False),
                    code=failure.reason,
                )
            if process.points and process.points[0].held_bytes is None:
                raise MeasurementError(
                    "this system does not report the memory of a process", where="ortune soak"
                )


def _starts(kind: str, rate_per_s: float, n: int, seed: Sequence[int]) -> ArrivalSchedule:
    return ArrivalSchedule(starts_ns=arrivals.schedule(kind, rate_per_s, n, seed))
