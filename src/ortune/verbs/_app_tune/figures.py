"""Pure functions on the measurements of plays and the rows of candidates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from ortune.inputs.played import ReplayPart
from ortune.records import (
    AppPlay,
    AppRatio,
    MemoryChange,
    OutputDifference,
    ReplayedGain,
    ReplayedKind,
    RewriteSpec,
    Value,
)
from ortune.search import application as search
from ortune.verbs._app_tune.result import AppCandidate, AppConfirmation


def n_calls(played: ReplayPart) -> int:
    """Return the number of inference calls in a played part of a recording."""
    return sum(step.do == "call" for script in played.scripts for step in script.steps)


def gain(
    kind: ReplayedKind, change: str, cpu: AppRatio, wall: AppRatio, others: Sequence[str]
) -> ReplayedGain:
    """Return a confirmed gain in the form that rules read; missing interval ends become 0 and infinity."""
    ends = [(ratio.value, ratio.low or 0.0, ratio.high or math.inf) for ratio in (cpu, wall)]
    return ReplayedGain(
        kind=kind, change=change, cpu=ends[0], wall=ends[1], n_blocks=cpu.n_blocks, others=tuple(others)
    )


def both(plays: Sequence[AppPlay]) -> tuple[list[float], list[float]]:
    """Return two lists of nanoseconds per play: CPU time without the replay's overhead, and wall time.

    The wall time is the time in ONNX Runtime, or the latency of calls at given times from their intended starts.
    """
    walls = [play.in_ort_ns if play.latency_ns is None else play.latency_ns for play in plays]
    return [float(play.cpu_ns - play.own_cpu_ns) for play in plays], [float(wall) for wall in walls]


def ratios(new: Sequence[AppPlay], base: Sequence[AppPlay]) -> tuple[AppRatio, AppRatio]:
    """Return the ratios of new plays to base plays of the same blocks: (CPU time, wall time), as ``both``."""
    (new_cpu, new_wall), (base_cpu, base_wall) = both(new), both(base)
    return search.ratio_of(new_cpu, base_cpu), search.ratio_of(new_wall, base_wall)


def confirmation(
    base: Sequence[AppPlay],
    again: Sequence[AppPlay],
    kept: Sequence[AppPlay],
    outputs: OutputDifference | None,
    *,
    busy: bool,
) -> AppConfirmation:
    """Return the confirmation of the kept changes.

    Args:
        base: Plays with the recorded settings.
        again: Further plays with the recorded settings (A/A check).
        kept: Plays with the changes.
        outputs: The largest difference of the outputs.
        busy: Whether CPU time decides alone.
    """
    cpu, wall = ratios(kept, base)
    same_cpu, same_wall = ratios(again, base)
    (again_cpu, again_wall), (base_cpu, base_wall) = both(again), both(base)
    return AppConfirmation(
        cpu=cpu,
        wall=wall,
        same_cpu=same_cpu,
        same_wall=same_wall,
        same_ok=search.is_same(again_cpu, base_cpu) and (busy or search.is_same(again_wall, base_wall)),
        memory=memory(kept, base),
        outputs=outputs,
        offered_before=median_known(play.offered_share for play in base),
        offered_after=median_known(play.offered_share for play in kept),
    )


def median_known(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def memory(new: Sequence[AppPlay], base: Sequence[AppPlay]) -> MemoryChange | None:
    """Return the median peak memory of the base plays and of the new plays; None if any peak is unknown."""
    peaks = [[play.peak_bytes for play in plays if play.peak_bytes is not None] for plays in (base, new)]
    if len(peaks[0]) < len(base) or len(peaks[1]) < len(new):
        return None
    before, after = (math.floor(float(np.median(each))) for each in peaks)
    return MemoryChange(before_bytes=before, after_bytes=after)


def candidate(change: Mapping[str, Value], **more: object) -> AppCandidate:
    """Return the result row for a change that applies to all sessions: settings, or "share" for shared sessions."""
    settings = {name: value for name, value in change.items() if name != "share"}
    return AppCandidate(settings=settings, share="share" in change, **more)  # type: ignore[arg-type]


def rewriting(name: str, specs: Sequence[RewriteSpec], **more: object) -> AppCandidate:
    """Return the result row for a model with rewrites applied."""
    return AppCandidate(model=name, rewrites=tuple(spec.name for spec in specs), **more)  # type: ignore[arg-type]


def placed(name: str, provider: str, **more: object) -> AppCandidate:
    """Return the result row for a model that runs on an execution provider."""
    return AppCandidate(model=name, provider=provider, **more)  # type: ignore[arg-type]


def kept(candidate: AppCandidate) -> AppCandidate:
    """Return a copy of the candidate with the status "kept"."""
    return msgspec.structs.replace(candidate, status="kept")
