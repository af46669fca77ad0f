"""The executions of a trace over time, as a picture needs them."""

from __future__ import annotations

from ortune.records.base import Record


class TimelineTrack(Record, frozen=True, kw_only=True):
    """Executions that follow each other: one level of nesting on one thread.

    Attributes:
        lane: The thread ("thread 7"), "device", or "runs".
        depth: Its place below the lane's first track.
        first, count: Its rows in the columns of the timeline, in order of their starts.
    """

    lane: str
    depth: int
    first: int
    count: int


class Timeline(Record, frozen=True, kw_only=True):
    """Executions over time, as a picture needs them. Columns are little-endian uint32, one entry an execution.

    Attributes:
        tick_ns: Unit of the two columns of times: the step of the trace's clock, or longer where a trace is long.
        start_ticks: Since the first start that is shown.
        duration_ticks: How long it took, with all that ran inside it.
        name_codes: Index into ``names``.
        names: Nodes of the optimised graph, runs, kernels on a device.
        op_types: One for each name; "" for what is no node.
        tracks: Each is free of overlaps beyond one step of the clock.
        n_left_out: Executions of the trace that are not in it.
        note: Which part of the trace it is, "" for all of it.
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
