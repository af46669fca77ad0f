"""``ortune soak``: whether memory grows over time."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ortune.errors import Interrupted, MeasurementError, UsageError
from ortune.inputs.fresh import fresh_inputs
from ortune.measuring import failures
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.sides import Resolved, SideText
from ortune.measuring.soaking import Schedule, Soak, Soaked, as_is
from ortune.measuring.watcher import Watcher
from ortune.records import ArrivalSchedule, Envelope
from ortune.runtimes import runtimes
from ortune.show.numbers import memory
from ortune.stats import arrivals
from ortune.verbs._shared.quantities import per_second
from ortune.verbs._shared.session import experiment, keep
from ortune.verbs._shared.spelling import named
from ortune.verbs.soak import words
from ortune.verbs.soak.judging import killed, made
from ortune.verbs.soak.options import Options
from ortune.verbs.soak.result import SoakResult

PROCESSES = 3
"""Of the model as it is: what all of them do is no accident of one."""
FIRST_SHARE = 0.3
"""Of the time left, what the first run of the model may take."""


def run(options: Options, watcher: Watcher | None = None) -> Envelope[SoakResult]:
    """Soak a model and return the whole document.

    Raises:
        OrtuneError: Nothing could be measured.
    """
    watch = watcher or Watcher()
    if Path(options.model).suffix == ".workload":
        raise UsageError(
            "is a recording of an application, and one model is soaked",
            where=str(options.model),
            do=f"ortune soak MODEL --workload {options.model}",
        )
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
        return keep(opened, options, envelope)


def _require_here(side: Resolved) -> None:
    """Raise UsageError for a side whose processes are not on this machine."""
    if side.runtime.host is not None or side.runtime.source is not None or side.plan.is_web:
        raise UsageError(
            "its memory cannot be followed over time",
            where=side.label,
            do="soak an ONNX model with an onnxruntime of this machine",
        )


class _Run:
    """One soak."""

    def __init__(self, options: Options, opened: Experiment, side: Resolved) -> None:
        self.options, self.opened, self.side = options, opened, side
        self.baseline: Measuring = opened.base(side)

    def go(self) -> Envelope[SoakResult]:
        """Find inputs, soak, judge."""
        opened, baseline = self.opened, self.baseline
        baseline.settle(FIRST_SHARE * opened.budget.left_s)
        opened.replay.pass_on()
        fresh = fresh_inputs(baseline.work)
        n = max(1, min(PROCESSES, baseline.executor.most_alive))
        arms = as_is(baseline, fresh, n, self.options.recreate)
        budget = opened.budget.running.reserve(opened.answer_s)
        soak = Soak(opened, baseline, arms, budget.left_s, self._schedule())
        try:
            started = soak.start()
            going = started and soak.run(budget.end_s, self._progress)
        finally:
            soaked = soak.close()
        if not soak.calls and not any(process.failure for process in soaked):
            raise Interrupted(words.STOPPED)
        self._require_answer(soaked)
        result = made(self.options, opened, baseline, soak, rate_per_s=self._rate())
        return opened.document(result, status="ok" if going else "interrupted", verdict=result.verdict)

    def _progress(self, calls: int, held_bytes: float) -> None:
        budget = self.opened.budget.running
        self.opened.watch.progress(
            f"{calls:,} calls a process, {memory(held_bytes, 4)}", budget.spent_s, budget.total_s
        )

    def _rate(self) -> float | None:
        rate = self.options.rate
        return None if rate is None else per_second(rate, "--rate")

    def _schedule(self) -> Schedule | None:
        rate = self._rate()
        return None if rate is None else partial(_starts, self.options.arrival or "poisson", rate)

    def _require_answer(self, soaked: Sequence[Soaked]) -> None:
        """Raise the error of a process that failed for another reason than memory."""
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
