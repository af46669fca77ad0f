"""Data for drawing a trace over time: executions in tracks, each sorted by start and free of overlaps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortune.records import Timeline, TimelineTrack
from ortune.trace.table import NO_PARENT, Numbers, Trace

MOST = 200_000
"""Maximum number of executions in a drawing; only the last runs of longer traces are shown."""
LANES = 64
TRACKS = 24
"""Maximum number of threads, and of tracks per thread; executions beyond these limits are omitted and counted."""

_LARGEST = 2**32 - 1


@dataclass(slots=True, kw_only=True)
class _Part:
    """Content of one lane of the drawing, as columns of equal length."""

    lane: str
    start: Numbers
    duration: Numbers
    name: Numbers
    depth: Numbers


def timeline_data(trace: Trace, most: int = MOST) -> Timeline:
    """Return the data for drawing a trace over time.

    Args:
        trace: The profile.
        most: Maximum number of executions, kernels and runs. For a longer trace, the last whole runs are used;
            for a single run that is too long, its beginning.
    """
    rows, kernels, runs, note = _chosen(trace, most)
    parts = list(_parts(trace, rows, kernels, runs))
    total = len(trace) + len(trace.kernels.row) + trace.n_runs
    base, tick_ns = _clock(trace, parts)
    starts, durations, names, tracks, first = [], [], [], [], 0
    for part in parts[:LANES]:
        for depth, at in enumerate(_tracks(part, trace.resolution_ns)):
            tracks.append(TimelineTrack(lane=part.lane, depth=depth, first=first, count=len(at)))
            first += len(at)
            starts.append(_ticks(part.start[at] - base, tick_ns))
            durations.append(_ticks(part.duration[at], tick_ns))
            names.append(part.name[at])
    texts, op_types, codes = _names(trace, np.concatenate(names) if names else np.empty(0, np.int64))
    return Timeline(
        tick_ns=tick_ns,
        start_ticks=_packed(starts),
        duration_ticks=_packed(durations),
        name_codes=_packed([codes]),
        names=texts,
        op_types=op_types,
        tracks=tuple(tracks),
        n_left_out=total - first,
        note=note,
    )


def _chosen(trace: Trace, most: int) -> tuple[Numbers, Numbers, range, str]:
    """Return (rows of nodes, rows of kernels, runs to show, note on the part of the trace that these cover)."""
    all_rows, all_kernels = np.arange(len(trace)), np.arange(len(trace.kernels.row))
    if len(trace) + len(all_kernels) + trace.n_runs <= most:
        return all_rows, all_kernels, range(trace.n_runs), ""
    if not trace.n_runs:
        return all_rows[:most], all_kernels[:0], range(0), f"the first {min(most, len(trace)):,} executions"
    kernel_run = np.full(len(all_kernels), -1, dtype=np.int64)
    after = trace.kernels.row >= 0
    kernel_run[after] = trace.run[trace.kernels.row[after]]
    weight = np.ones(trace.n_runs, dtype=np.int64)  # the run itself is drawn too
    for of in (trace.run, kernel_run):
        weight += np.bincount(of[of >= 0], minlength=trace.n_runs)
    # Number of runs that fit, counted from the last.
    fits = int((np.cumsum(weight[::-1]) <= most).sum())
    runs = range(trace.n_runs - max(1, fits), trace.n_runs)
    rows = np.flatnonzero(trace.run >= runs.start)
    if fits:
        part = f"the last {fits:,} of {trace.n_runs:,} runs" if fits > 1 else "the last run"
        part = "all runs, without events outside runs" if fits == trace.n_runs else part
        return rows, np.flatnonzero(kernel_run >= runs.start), runs, part
    rows = rows[np.argsort(trace.start_ns[rows], kind="stable")][: most - 1]
    return rows, all_kernels[:0], runs, f"the first {len(rows):,} executions of the last run"


def _parts(trace: Trace, rows: Numbers, kernels: Numbers, runs: range) -> Iterator[_Part]:
    """Yield one lane for the runs, one for each thread (busiest first), and one for the device."""
    if len(runs):
        yield _Part(
            lane="runs",
            start=trace.run_start_ns[runs.start : runs.stop],
            duration=trace.run_ns[runs.start : runs.stop],
            name=len(trace.name.texts) + np.arange(runs.start, runs.stop),
            depth=np.zeros(len(runs), dtype=np.int64),
        )
    depth = _depths(trace.parent)[rows]
    thread = trace.thread[rows]
    threads, place = np.unique(thread, return_inverse=True)
    busy = np.bincount(place, weights=trace.self_ns[rows].astype(np.float64), minlength=len(threads))
    for number in np.argsort(-busy, kind="stable").tolist():
        mine = rows[place == number]
        yield _Part(
            lane=f"thread {threads[number]}",
            start=trace.start_ns[mine],
            duration=trace.duration_ns[mine],
            name=trace.name.codes[mine].astype(np.int64),
            depth=depth[place == number],
        )
    if len(kernels):
        yield _Part(
            lane="device",
            start=trace.kernels.start_ns[kernels],
            duration=trace.kernels.duration_ns[kernels],
            name=len(trace.name.texts) + trace.n_runs + trace.kernels.name.codes[kernels].astype(np.int64),
            depth=np.zeros(len(kernels), dtype=np.int64),
        )


def _depths(parent: Numbers) -> Numbers:
    """Return the number of control-flow nodes around each row, limited to ``TRACKS``."""
    depth, above = np.zeros(len(parent), dtype=np.int64), parent.copy()
    for _ in range(TRACKS):
        nested = above != NO_PARENT
        if not nested.any():
            break
        depth[nested] += 1
        above[nested] = parent[above[nested]]
    return depth


def _tracks(part: _Part, slack_ns: int) -> list[Numbers]:
    """Return the rows of a part by track, each sorted by start; rows that fit in no track are omitted."""
    tracks: list[Numbers] = []
    for depth in range(TRACKS):
        at = np.flatnonzero(part.depth == depth)
        if not len(at):
            continue
        at = at[np.argsort(part.start[at], kind="stable")]
        start, end = part.start[at], part.start[at] + part.duration[at]
        if (start[1:] + slack_ns >= end[:-1]).all():
            tracks.append(at)
        else:
            number = assign_tracks(start.tolist(), end.tolist(), slack_ns, TRACKS - len(tracks))
            tracks += [at[number == n] for n in range(int(number.max()) + 1)]
        if len(tracks) >= TRACKS:
            break
    return tracks[:TRACKS]


def assign_tracks(starts: list[int], ends: list[int], slack_ns: int, most: int) -> Numbers:
    """Return the track of each execution: the first free track, or -1 if all ``most`` tracks are occupied."""
    number = np.full(len(starts), -1, dtype=np.int64)
    free: list[int] = []
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        place = next((n for n, until in enumerate(free) if until <= start + slack_ns), len(free))
        if place == len(free):
            if place >= most:
                continue
            free.append(end)
        free[place] = end
        number[i] = place
    return number


def _clock(trace: Trace, parts: list[_Part]) -> tuple[int, int]:
    """Return (earliest start, tick), both in nanoseconds; in units of the tick, all times fit in 32 bits."""
    filled = [part for part in parts if len(part.start)]
    if not filled:
        return 0, trace.resolution_ns
    base = min(int(part.start.min()) for part in filled)
    span = max(int(part.start.max()) - base + int(part.duration.max()) for part in filled)
    tick_ns = max(1, trace.resolution_ns)
    while span // tick_ns > _LARGEST:
        tick_ns *= 10
    return base, tick_ns


def _ticks(ns: Numbers, tick_ns: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    # Differences of times can exceed int64; as unsigned numbers they are correct.
    return (ns.view(np.uint64) // np.uint64(tick_ns)).astype(np.uint32)


def _names(trace: Trace, codes: Numbers) -> tuple[tuple[str, ...], tuple[str, ...], Numbers]:
    """Return (used node names, their operators, the codes as indices into both)."""
    used, place = np.unique(codes, return_inverse=True)
    n_nodes, n_runs = len(trace.name.texts), trace.n_runs
    names, op_types = [], []
    for code in used.tolist():
        if code < n_nodes:
            names.append(trace.name.texts[code])
            op_types.append(trace.nodes.op_type[code])
            continue
        run = code - n_nodes
        names.append(f"run {run}" if run < n_runs else trace.kernels.name.texts[run - n_runs])
        op_types.append("")
    return tuple(names), tuple(op_types), place.reshape(-1)


def _packed(columns: list[Any]) -> bytes:
    return b"".join(column.astype("<u4").tobytes() for column in columns)
