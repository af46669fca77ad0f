"""The last run, thread by thread, and the exports with more detail."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ortune.printable import operand
from ortune.records import Envelope, ProfileResult, Timeline, TimelineTrack
from ortune.show.answer_commands import lines, profile_line
from ortune.show.chart import Axis, Box, Chart
from ortune.show.document import Block, Code, Line, Pairs
from ortune.show.numbers import duration

ORDER = 100
TITLE = "Timeline"
NOTE = "Perfetto and speedscope show every run, with zoom and search."
DRAWN = "The last run, thread by thread; executions too short to draw are merged."
TRACK_PX = 22
LEAST = 0.0015
"""Minimum fraction of the chart's width for an execution to be drawn separately."""
MOST_TRACKS = 16
HUES = 8
NOT_KEPT = "The timeline was not kept with this session; ortune profile PROFILE --report FILE.html draws one."
TOOLS = {
    "chrome": ("Perfetto", "every run, thread by thread", "run.trace.json"),
    "speedscope": ("speedscope", "flame graphs", "run.speedscope.json"),
    "model-explorer": ("Model Explorer", "the model graph, coloured by time", "run.node-data.json"),
}
"""Exports with more detail than a page: maps the kind to (tool, its view, file name)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """A drawn mark: a node or a kernel, or several short adjacent executions merged."""

    start: float
    end: float
    code: int
    n: int = 1


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the chart, the exports with more detail, and the command that writes missing exports."""
    result = envelope.result
    if not result.n_runs:
        return []
    rows, missing = [], []
    for kind, (tool, shows, file) in TOOLS.items():
        path = result.exports.get(kind, "")
        rows.append((tool, f"{shows}: {path}" if path else shows))
        missing += [] if path else ["--export", f"{kind}={file}"]
    again = _command(envelope) if missing else []
    return [
        *_chart(result.timeline),
        Pairs(rows=rows),
        Code(title="", lines=lines([*again, *missing] if again else []), commands=True),
    ]


def _command(envelope: Envelope[ProfileResult]) -> list[str]:
    """Return the command that reads the trace again or profiles again; [] if it cannot be reconstructed."""
    result = envelope.result
    if result.trace.path:
        return ["ortune", "profile", operand(result.trace.path)]
    return profile_line(result.side, envelope.workload) if result.side is not None else []


def _chart(timeline: Timeline | None) -> list[Block]:
    if timeline is None:
        return [Line(NOT_KEPT)]
    columns = [_column(data) for data in (timeline.start_ticks, timeline.duration_ticks, timeline.name_codes)]
    first, last = _last_run(timeline, columns)
    threads = [track for track in timeline.tracks if track.lane != "runs"][:MOST_TRACKS]
    if not threads or last <= first:
        return []
    tracks = [list(_merged(track, columns, first, last)) for track in threads]
    hues = _hues(timeline, tracks)
    marks = [
        Box(
            x0=one.start,
            x1=one.end,
            y0=-i - 0.9,
            y1=-i,
            hue=hues.get(timeline.op_types[one.code], "t-other") if one.n == 1 else "t-other",
            text=timeline.names[one.code] if one.n == 1 else "",
            about=_about(timeline, one),
        )
        for i, executions in enumerate(tracks)
        for one in executions
    ]
    whole = duration((last - first) * timeline.tick_ns)
    busy = Counter(timeline.op_types[one.code] for executions in tracks for one in executions if one.n == 1)
    return [
        Line(DRAWN),
        Chart(
            alt=f"The last run, {whole}, on {len(threads)} tracks",
            marks=tuple(marks),
            height_px=TRACK_PX * len(threads),
            x=Axis(low=first, high=last, ticks=((first, "0"), (last, whole))),
            y=Axis(
                low=-float(len(threads)),
                high=0.0,
                ticks=tuple((-i - 0.45, _lane(track)) for i, track in enumerate(threads)),
            ),
            legend=(
                *((hue, op) for op, hue in hues.items()),
                *(
                    (("t-other", "other operators, and short ones together"),)
                    if len(busy) > len(hues)
                    else ()
                ),
            ),
        ),
    ]


def _column(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 4}I", data)


def _last_run(timeline: Timeline, columns: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return the start and end of the last run, or of the whole timeline if no run was recorded."""
    starts, durations, _ = columns
    for track in timeline.tracks:
        if track.lane == "runs" and track.count:
            last = track.first + track.count - 1
            return float(starts[last]), float(starts[last] + durations[last])
    ends = [start + length for start, length in zip(starts, durations, strict=True)]
    return float(min(starts, default=0)), float(max(ends, default=0))


def _merged(
    track: TimelineTrack, columns: Sequence[Sequence[int]], first: float, last: float
) -> Iterator[Execution]:
    """Yield the executions of a track between two times, with adjacent short executions merged."""
    least = LEAST * (last - first)
    short: Execution | None = None
    for row in range(track.first, track.first + track.count):
        start, length, code = (float(column[row]) for column in columns)
        end = min(start + length, last)
        if end <= first or start >= last:
            continue
        if short is not None and (
            # At most 0.6 % of the width: a longer box of short ones would look like one long execution.
            length >= least or start - short.end > least or end - short.start > 4 * least
        ):
            yield short
            short = None
        if length >= least:
            yield Execution(start=start, end=end, code=int(code))
        elif short is None:
            short = Execution(start=start, end=end, code=int(code))
        else:
            short = Execution(start=short.start, end=end, code=int(code), n=short.n + 1)
    if short is not None:
        yield short


def _hues(timeline: Timeline, tracks: Sequence[Sequence[Execution]]) -> dict[str, str]:
    """Return the colours of the operators with the most time, keyed by operator."""
    times: Counter[str] = Counter()
    for executions in tracks:
        for one in executions:
            if one.n == 1 and timeline.op_types[one.code]:
                times[timeline.op_types[one.code]] += round(one.end - one.start)
    return {op: f"t{i}" for i, (op, _) in enumerate(times.most_common(HUES))}


def _about(timeline: Timeline, one: Execution) -> str:
    time = duration((one.end - one.start) * timeline.tick_ns)
    if one.n > 1:
        return f"{one.n} short executions: {time}"
    op = timeline.op_types[one.code]
    return f"{timeline.names[one.code]}{f' ({op})' if op else ''}: {time}"


def _lane(track: TimelineTrack) -> str:
    return track.lane if not track.depth else ""
