"""``ortune bench app.workload``: measures the recorded calls of an application on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from ortune.errors import Interrupted, MeasurementError
from ortune.inputs.played import ReplayPart
from ortune.measuring.application import RECORDED, Application, Variant
from ortune.measuring.opening import Experiment
from ortune.measuring.play_totals import PlayTrial
from ortune.measuring.watcher import Watcher
from ortune.records import Envelope, Recording, TrialError
from ortune.stats.arrivals import RecordedArrivals, median_load, verdict
from ortune.verbs._app_bench import words
from ortune.verbs._app_bench.result import AppBenchResult, AppModelRow, PlayedPart
from ortune.verbs._shared.applications import application_of, require_applicable
from ortune.verbs._shared.arrival_options import arrivals_of
from ortune.verbs._shared.estimates import tail, typical
from ortune.verbs._shared.session import experiment, store_result
from ortune.verbs._shared.spelling import command
from ortune.verbs.bench.options import Options

PLAYS = 4
"""Number of plays that should fit in the budget, which limits the part of the recording that is played."""
MOST_PLAYS = 100
TAILS = (0.9, 0.95, 0.99)
LEAST_NS = 100_000_000
"""Minimum duration of the played part, whatever the budget has left."""
LONGER = 1.3
"""Factor by which the played part is extended, repeatedly, until it contains enough calls."""

T = TypeVar("T")


def bench(options: Options, recording: Recording, watch: Watcher) -> Envelope[AppBenchResult]:
    """Play a recording several times and return the result document.

    Raises:
        OrtuneError: An option does not apply to a recording, or nothing could be measured.
    """
    require_applicable(options, {"arrival", "rate", "processes"})
    where = Path(options.model)
    with experiment("app-bench", options, watch) as opened:
        arrivals = arrivals_of(options.rate, options.arrival)
        application = application_of(opened, options, recording, arrivals=arrivals)
        with opened.measuring(where.name, str(where.resolve()), names={"model": where.name}):
            application.find_inputs()
            run = _Run(options, opened, application)
            envelope = run.go()
        return store_result(opened, options, envelope)


def extended(
    application: Application,
    most_ns: float,
    whole: ReplayPart,
    is_enough: Callable[[ReplayPart], bool],
    *,
    repeated: bool = False,
) -> ReplayPart:
    """Return a part of a recording that plays in ``most_ns``, extended until ``is_enough`` or until no call is left.

    Args:
        application: The application.
        most_ns: Preferred duration of the part, in nanoseconds; at least ``LEAST_NS`` are played.
        whole: The whole recording as one part.
        is_enough: Callback that decides whether a part is long enough.
        repeated: Whether a short recording is repeated at a given rate.
    """
    most_ns = max(LEAST_NS, most_ns)
    while True:
        played = application.script(most_ns, repeated=repeated)
        if is_enough(played) or played.calls == whole.calls:
            return played
        most_ns *= LONGER


class _Run:
    """The plays of one recording, and the figures from them."""

    def __init__(self, options: Options, opened: Experiment, application: Application) -> None:
        self.options, self.opened, self.application = options, opened, application

    def go(self) -> Envelope[AppBenchResult]:
        """Play the recording until the budget is spent or ``--processes`` plays are done, and return the result."""
        opened, watch = self.opened, self.opened.watch
        application = self.application
        most_ns = 1e9 * opened.budget.left_s / PLAYS
        whole = application.script(math.inf, repeated=True)
        # The first creation alone may take as long.
        played = extended(application, most_ns, whole, lambda part: part.calls > 0, repeated=True)
        if not played.calls:
            raise MeasurementError(
                "no call can be played", where=str(self.options.model), do="record it for longer"
            )
        arrival = application.arrivals.kind if application.arrivals is not None else ""
        watch.say(words.plan(part(played, application.arrivals), arrival, played.rate_per_s))
        trials, stopped, longest_s = list[PlayTrial](), False, 0.0
        most = self.options.processes or MOST_PLAYS
        while len(trials) < most and (
            not trials or self.options.processes or longest_s < opened.budget.left_s
        ):
            began_s = opened.elapsed_s
            watch.progress(f"play {len(trials) + 1}", opened.budget.spent_s, opened.budget.total_s)
            trial = application.play(application.timed(played, len(trials)), Variant(name=RECORDED))
            if trial is None:
                stopped = True
                break
            trials.append(required(trial, str(self.options.model)))
            opened.log.add("play", trials[-1].play)
            opened.replay.record_other_work()
            longest_s = max(longest_s, opened.elapsed_s - began_s)
        if not trials:
            raise Interrupted(words.STOPPED)
        result = made(application, played, trials)
        result = msgspec.structs.replace(
            result,
            label=Path(self.options.model).name,
            reproduce=command("bench", self.options),
            session=opened.log.id,
            elapsed_s=opened.elapsed_s,
        )
        result = msgspec.structs.replace(result, headline=words.headline(result))
        return opened.document(result, status="interrupted" if stopped else "ok", verdict=result.verdict)


def required(trial: T | TrialError, where: str) -> T:
    """Return `trial` if it succeeded.

    Raises:
        MeasurementError: The trial failed.
    """
    if isinstance(trial, TrialError):
        raise MeasurementError(
            f"the recorded calls cannot be played: {trial.what}", where=where, code=trial.reason
        )
    return trial


def part(played: ReplayPart, arrivals: RecordedArrivals | None = None) -> PlayedPart:
    """Return the counts and durations of the part of a recording that is played."""
    return PlayedPart(
        processes=len(played.scripts),
        sessions=sum(len(script.sessions) for script in played.scripts),
        calls=sum(step.do == "call" for script in played.scripts for step in script.steps),
        of_calls=played.of_calls,
        span_ns=played.span_ns,
        cut_ns=played.cut_ns,
        open_loop=arrivals is not None,
    )


def made(application: Application, played: ReplayPart, trials: Sequence[PlayTrial]) -> AppBenchResult:
    """Return the result over several plays; the caller adds the label, the headline and the session."""
    plays = [trial.play for trial in trials]
    peaks = [play.peak_bytes for play in plays if play.peak_bytes is not None]
    n_steps = sum(len(script.steps) for script in played.scripts)
    late_ns = float(np.median([play.late_ns for play in plays]))
    step_ns = float(np.median([play.in_ort_ns / max(1, n_steps) for play in plays]))
    arrivals, loads = application.arrivals, [trial.details.load for trial in trials]
    load = median_load([each for each in loads if each is not None]) if all(loads) else None
    called = [np.concatenate([*trial.details.called_ns.values()]) for trial in trials] if load else []
    return AppBenchResult(
        label="",
        runtime=application.runtime,
        played=part(played, arrivals),
        in_ort_ns=typical([float(play.in_ort_ns) for play in plays]),
        creating_ns=typical([float(max(1, play.creating_ns)) for play in plays]),
        wall_ns=typical([float(play.wall_ns) for play in plays]),
        cpu_ns=typical([float(play.cpu_ns) for play in plays]),
        peak_bytes=typical([float(peak) for peak in peaks]) if len(peaks) == len(plays) else None,
        most_threads=max((play.most_threads for play in plays if play.most_threads), default=None),
        late_ns=late_ns,
        late_share=late_ns / (late_ns + step_ns) if late_ns else 0.0,
        own_cpu_share=float(np.median([play.own_cpu_ns / play.cpu_ns for play in plays])),
        arrival=arrivals.kind if arrivals is not None else "",
        rate_per_s=played.rate_per_s,
        load=load,
        latency_ns=typical([float(np.median(each)) for each in called]) if called else None,
        tails=tuple(tail(called, quantile) for quantile in TAILS) if called else (),
        verdict="measured"
        if load is None
        else verdict(late_share=load.late_share, offered_share=load.offered_share),
        rows=tuple(_row(application, index, trials) for index in sorted(application.bases)),
        plays=tuple(plays),
        notes=(
            *words.missing(application.missing),
            *words.left_out(played),
            *words.played_by(application.recording, application.runtime),
            *words.few(len(trials)),
        ),
    )


def _row(application: Application, index: int, trials: Sequence[PlayTrial]) -> AppModelRow:
    created = [trial.details.created_ns.get(index, []) for trial in trials]
    called = [trial.details.called_ns.get(index, []) for trial in trials]
    model = application.recording.models[index]
    return AppModelRow(
        model=application.paths[index].name,
        sha256=model.sha256,
        sessions=len(created[0]),
        calls=len(called[0]),
        create_ns=typical([float(np.median(each)) for each in created]) if all(created) else None,
        call_ns=typical([float(np.median(each)) for each in called]) if all(called) else None,
        call_p95_ns=typical([float(np.quantile(each, 0.95)) for each in called]) if all(called) else None,
    )
