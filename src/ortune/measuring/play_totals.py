"""Adds up the measurements of all processes of a play."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.inputs.played import ReplayPart
from ortune.records import AppPlay, LoadFigures, PlayDone, RecordedSession
from ortune.stats import arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayTimes:
    """Times of one play: each session creation and each call, by the model's index.

    Attributes:
        called_ns: Times of the calls; from the intended start if calls start at given times.
        load: Load measures if calls start at given times; None otherwise, and if nothing was called.
    """

    created_ns: dict[int, list[int]]
    called_ns: dict[int, list[int]]
    load: LoadFigures | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayTrial:
    """The totals of one play, and its times by model."""

    play: AppPlay
    details: PlayTimes


def totals(
    name: str,
    played: ReplayPart,
    ended: Sequence[PlayDone],
    sessions: Sequence[RecordedSession],
    *,
    open_loop: bool,
) -> PlayTrial:
    """Return the totals of a play over all processes, and its times by model.

    Args:
        name: Name of the variant.
        played: The played part.
        ended: The measurements of each process.
        sessions: Sessions of the recording.
        open_loop: Whether calls started at given times.
    """
    created: dict[int, list[int]] = {}
    called: dict[int, list[int]] = {}
    in_ort_ns = creating_ns = 0
    late: list[int] = []
    for script, done in zip(played.scripts, ended, strict=True):
        for step, took_ns, waited_ns, late_ns in zip(
            script.steps, done.took_ns, done.waited_ns, done.late_ns, strict=True
        ):
            model = sessions[script.sessions[step.session]].model
            in_ort_ns += took_ns
            if step.do == "create":
                created.setdefault(model, []).append(took_ns)
                creating_ns += took_ns
            elif step.do == "call":
                # From the intended start, which exists in an open loop only: otherwise nothing waits for a late caller.
                called.setdefault(model, []).append(took_ns + waited_ns + late_ns * open_loop)
        late += done.late_ns
    load = _load(played, ended) if open_loop and called else None
    peaks = [done.peak_bytes for done in ended]
    threads = [done.most_threads for done in ended]
    return PlayTrial(
        play=AppPlay(
            variant=name,
            wall_ns=max(done.wall_ns for done in ended),
            in_ort_ns=in_ort_ns,
            creating_ns=creating_ns,
            cpu_ns=sum(done.cpu_ns for done in ended),
            own_cpu_ns=sum(done.own_cpu_ns for done in ended),
            late_ns=math.fsum(late) / len(late) if late else 0.0,
            peak_bytes=None if None in peaks else sum(peak or 0 for peak in peaks),
            most_threads=None if None in threads else sum(number or 0 for number in threads),
            latency_ns=None if load is None else sum(map(sum, called.values())),
            late_share=None if load is None else load.late_share,
            offered_share=None if load is None else load.offered_share,
        ),
        details=PlayTimes(created_ns=created, called_ns=called, load=load),
    )


def _load(played: ReplayPart, ended: Sequence[PlayDone]) -> LoadFigures:
    """Return the load of calls at given times; each thread is a caller, and the busiest one limits the rate."""
    latency_ns, waited_ns, late_ns = list[int](), list[int](), list[int]()
    busy_ns: Counter[tuple[int, int]] = Counter()
    for script, done in zip(played.scripts, ended, strict=True):
        for step, took, waited, late in zip(
            script.steps, done.took_ns, done.waited_ns, done.late_ns, strict=True
        ):
            busy_ns[script.process, step.thread] += took
            if step.do == "call":
                latency_ns.append(took + waited + late)
                waited_ns.append(waited)
                late_ns.append(late)
    # The rate is that of all calls, so the time of the busiest thread is divided by the number of all calls.
    return arrivals.load_of(
        latency_ns,
        waited_ns,
        late_ns,
        busy_ns=max(busy_ns.values()),
        own_cpu_ns=sum(done.own_cpu_ns for done in ended),
        wall_ns=max(done.wall_ns for done in ended),
        rate_per_s=played.rate_per_s or 0.0,
        callers=1,
    )
