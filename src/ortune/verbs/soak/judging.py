"""Derives the verdict and the metrics of a soak from its processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.measuring.soaked import as_series, first_bytes, growth_figure, settled_call, was_called
from ortune.measuring.soaking import ModelSoak, ProcessMemory, SoakedProcess
from ortune.records import Failed, SoakPoint, TrialError
from ortune.show.message_words import texts
from ortune.stats import growth
from ortune.stats import soak as soaks
from ortune.verbs._shared.load_words import load_words
from ortune.verbs._shared.spelling import command
from ortune.verbs.soak.options import Options
from ortune.verbs.soak.result import (
    AppProcessRow,
    LimitForecast,
    PointRow,
    SizeRow,
    SoakKill,
    SoakProcess,
    SoakResult,
    SoakVerdict,
)

USUAL_LIMIT_BYTES = 2 << 30
"""Memory limit that a forecast assumes if no limit is set."""


def killed(failure: Failed | TrialError) -> bool:
    """Return whether a process ran out of memory or was ended by SIGKILL."""
    return failure.reason == "out-of-memory" or "SIGKILL" in failure.what


def process_row(
    own: Sequence[ProcessMemory],
    names: Sequence[str],
    baseline: Measuring,
    *,
    killed: bool,
    elapsed_s: float,
    process: int = 1,
    per_s: float | None = None,
    recreate: int = 0,
) -> AppProcessRow:
    """Return the figures of a process, with a verdict over all of its copies.

    Args:
        own: The copies.
        names: Name of each size.
        baseline: Measurement of the model, or of one of an application's models.
        killed: Whether a copy was killed.
        elapsed_s: Seconds since the start of the command.
        process: Number of the process in the recording, from 1.
        per_s: Calls per second of ``--rate``; None if each call follows the previous one.
        recreate: Number of calls after which sessions are created again; 0 to keep them.
    """
    soaked = [each for each in own if was_called(each)]
    judged = soaks.judge([as_series(each) for each in soaked], settled_call(soaked)) if soaked else None
    verdict: SoakVerdict = "killed" if killed else judged.verdict if judged else "undecided"
    sizes = sizes_of(soaked, names)
    calls_per_s = per_s or median([rate(each) for each in soaked]) or 0.0
    row = AppProcessRow(
        process=process,
        copies=len(own),
        verdict=verdict,
        calls=min((each.points[-1].calls for each in soaked), default=0),
        sessions=max((each.points[-1].sessions for each in soaked), default=0),
        calls_per_s=calls_per_s,
        first_bytes=median([float(first_bytes(each)) for each in soaked]) or 0.0,
        held_bytes=median([float(each.points[-1].held_bytes or 0) for each in soaked]) or 0.0,
        released_bytes=median_known([each.done.released_bytes if each.done else None for each in soaked]),
        raised_by=raised_by(sizes),
        sizes=sizes,
    )
    if judged is None:
        return row
    return msgspec.structs.replace(
        row,
        returned_bytes=judged.returned_bytes,
        growth=growth_figure(judged, recreate) if judged.growth.per_call is not None else None,
        forecast=forecast(judged, baseline, calls_per_s),
        enough_budget_s=judged.growth.longer * elapsed_s if verdict == "undecided" else None,
    )


def figures_of(row: AppProcessRow) -> dict[str, Any]:
    """Return the figures of a process that are also fields of the whole result."""
    names = set(AppProcessRow.__struct_fields__) & set(SoakResult.__struct_fields__)
    return {name: getattr(row, name) for name in names}


def made(
    options: Options, opened: Experiment, baseline: Measuring, soak: ModelSoak, rate_per_s: float | None
) -> SoakResult:
    """Return the result of soaking a model.

    Args:
        options: Options of the command.
        opened: The experiment.
        baseline: Measurement of the model.
        soak: The soak, after its processes have ended.
        rate_per_s: Calls per second of ``--rate``; None if each call follows the previous one.
    """
    soaked = [each for each in soak.soaked if was_called(each)]
    names = [case.name for case in baseline.work.cases]
    kill = _kill(soak.soaked, names, baseline)
    elapsed_s = opened.elapsed_s
    whole = process_row(
        soak.soaked,
        names,
        baseline,
        killed=kill is not None,
        elapsed_s=elapsed_s,
        per_s=rate_per_s,
        recreate=options.recreate,
    )
    arrival = "" if rate_per_s is None else f"{rate_per_s:.4g}/s, {options.arrival or 'poisson'} arrivals"
    return SoakResult(
        side=baseline.side.record,
        **figures_of(whole),
        children_bytes=median([float(each.points[-1].children_bytes) for each in soaked]) or 0.0,
        base_bytes=median_known([each.done.base_bytes if each.done else None for each in soaked]),
        killed=kill,
        fresh=tuple(each.name for each in soak.soaked[0].wanted.fresh),
        fixed=tuple(sorted({name for each in soaked if each.done for name in each.done.fixed})),
        recreate=options.recreate,
        load=load_words(baseline.work, arrival),
        findings=tuple(baseline.findings),
        processes=tuple(
            SoakProcess(arm=each.wanted.arm.name, done=each.done, failure=each.failure)
            for each in soak.soaked
        ),
        points=tuple(row(each.wanted.arm.name, point) for each in soak.soaked for point in each.points),
        notes=(*baseline.work.notes, *texts(baseline.notes)),
        failed=whole.verdict in options.failing,
        reproduce=command("soak", options),
        session=opened.log.id,
        elapsed_s=elapsed_s,
    )


RISES: tuple[SoakVerdict, ...] = ("growing", "bounded", "fragmented")
"""Verdicts on memory that rises, so that its cause is sought."""


def rises(soaked: Sequence[ProcessMemory]) -> bool:
    """Return whether memory rises, according to the verdict on the processes so far."""
    called = [each for each in soaked if was_called(each)]
    return bool(called) and soaks.judge([as_series(each) for each in called]).verdict in RISES


def rate(soaked: ProcessMemory) -> float:
    """Return a process's calls per second in the second half of its turns, after the warm-up; 0 without active time."""
    points = soaked.points
    middle, last = points[len(points) // 2], points[-1]
    if last.active_ns == middle.active_ns:
        middle = points[0]
    span_ns = last.active_ns - middle.active_ns
    return 1e9 * (last.calls - middle.calls) / span_ns if span_ns else 0.0


def median(values: Sequence[float]) -> float | None:
    """Return the median; None without values."""
    return float(np.median(values)) if values else None


def median_known(values: Sequence[int | None]) -> float | None:
    """Return the median; None if there are no values or a value is unknown."""
    known = [float(value) for value in values if value is not None]
    return median(known) if len(known) == len(values) else None


def forecast(judged: soaks.Judged, baseline: Measuring, per_s: float) -> LimitForecast | None:
    """Return a forecast of when growing memory passes a limit.

    The limit is the memory limit or 2 GiB, doubled until it exceeds the current size. None if the verdict is not
    "growing" or the time cannot be estimated.
    """
    limit = baseline.machine.trial_host.memory_limit_bytes or USUAL_LIMIT_BYTES
    while limit <= judged.held_bytes:
        limit *= 2
    if judged.verdict != "growing" or not per_s:
        return None
    found = growth.forecast(judged.growth, judged.held_bytes, limit)
    if found is None:
        return None
    return LimitForecast(
        limit_bytes=limit,
        after_s=found.after_calls / per_s,
        low_s=found.low / per_s,
        high_s=found.high / per_s if math.isfinite(found.high) else None,
    )


def _kill(soaked: Sequence[SoakedProcess], names: Sequence[str], baseline: Measuring) -> SoakKill | None:
    """Return when and how the first process was killed because of its memory; None if no process was."""
    for each in soaked:
        if each.failure is not None and killed(each.failure):
            calls, case = each.counted or (0, 0)
            return SoakKill(
                limit_bytes=baseline.machine.pod_bytes,
                calls=calls,
                size=names[case] if calls else "",
                what=each.failure.what,
            )
    return None


def sizes_of(soaked: Sequence[ProcessMemory], names: Sequence[str]) -> tuple[SizeRow, ...]:
    """Return a row for each size in ``names``, with the memory that the calls of this size added."""
    steps = [step for each in soaked if each.done for step in each.done.steps]
    rows = []
    for number, name in enumerate(names):
        mine = [step for step in steps if step.case == number]
        rows.append(
            SizeRow(
                size=name,
                calls=sum(step.calls for step in mine),
                raised_bytes=median([float(step.bytes) for step in mine]) or 0.0,
                last_step_call=max((step.last_step_call for step in mine), default=0),
            )
        )
    return tuple(rows)


def raised_by(sizes: Sequence[SizeRow]) -> str:
    """Return the name of the size that added the most memory; "" if no size added memory."""
    most = max(sizes, key=lambda row: row.raised_bytes, default=None)
    return most.size if most is not None and most.raised_bytes else ""


def row(arm: str, point: SoakPoint) -> PointRow:
    """Convert a point of a process's memory to a row of the result; ``arm`` is the name of the process."""
    return PointRow(
        arm=arm,
        calls=point.calls,
        sessions=point.sessions,
        active_ns=point.active_ns,
        latency_ns=point.latency_ns,
        held_bytes=point.held_bytes or 0,
        children_bytes=point.children_bytes,
        resident_bytes=point.resident_bytes,
        used_bytes=point.used_bytes,
        group_bytes=point.group_bytes,
        group_cache_bytes=point.group_cache_bytes,
        heap_bytes=point.heap_bytes,
        wasm_bytes=point.wasm_bytes,
        gpu_bytes=point.gpu_bytes,
        gpu_buffers=point.gpu_buffers,
    )
