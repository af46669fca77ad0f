"""The executions of a trace over time, as columns for a chart."""

from __future__ import annotations

from ortune.records.base import Record


class TimelineTrack(Record, frozen=True, kw_only=True):
    """Consecutive executions: one level of nesting on one thread.

    Attributes:
        lane: The thread ("thread 7"), "device", or "runs".
        depth: Level of nesting; 0 for the lane's first track.
        first, count: First row and number of rows in the columns of the timeline, in order of their start times.
    """

    lane: str
    depth: int
    first: int
    count: int


class Timeline(Record, frozen=True, kw_only=True):
    """Executions over time for a chart. Columns are little-endian uint32, one entry per execution.

    Attributes:
        tick_ns: Unit of the two columns of times: the resolution of the trace's clock, or more for a long trace.
        start_ticks: Start, from the first start that is shown.
        duration_ticks: Duration, including nested executions.
        name_codes: Index into ``names``.
        names: Names of nodes of the optimised graph, of runs, and of kernels on a device.
        op_types: Operator of each name; "" for runs and kernels.
        tracks: Tracks without overlaps beyond one step of the clock.
        n_left_out: Number of executions of the trace that are omitted.
        note: The shown part of the trace; "" for all of it.
    """

    tick_ns: int
    start_ticks: bytes
    duration_ticks: bytes
    name_codes: bytes
    names: tuple[str, ...]
    op_types: tuple[str, ...]
    tracks: tuple[TimelineTrack, ...] = ()
    n_left_out: int = 0
    note: str = ""
