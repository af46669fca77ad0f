"""A trace, and its missing parts."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

TraceLackCode = Literal["end", "inner-events", "other-models", "other-processes", "runs"]


class TraceLack(Record, frozen=True, kw_only=True):
    """A missing part of a trace, which affects the results.

    Attributes:
        code: "end": truncated. "inner-events": only the executor's part of its runs is recorded. "other-models" and
            "other-processes": recorded too, and excluded. "runs": everything counts as one run.
        what: The same as text.
    """

    code: TraceLackCode
    what: str


class TraceInfo(Record, frozen=True, kw_only=True):
    """A profile that was read.

    Attributes:
        format: "ort-json", "web-console", ...
        device_only: Whether it has only kernels on a device, which then take the place of nodes.
        complete: False if it is truncated; the readable part is used.
        n_unreadable: Number of excluded events and lines: unreadable, or with impossible times.
        n_mended: Number of invalid JSON events that were read without surplus commas.
        n_outside: Number of node executions that are excluded because the run around them was not recorded to its end.
        lost_runs: Number of runs with so many lost events that the time between their nodes is unexplained.
        left_out_runs: Number of runs that are excluded because they lost events.
        missing: Sentences on its missing parts.
        lacks: The missing parts that affect the results.
    """

    path: str
    format: str
    device_only: bool = False
    n_events: int
    n_runs: int
    complete: bool = True
    n_unreadable: int = 0
    n_mended: int = 0
    n_outside: int = 0
    lost_runs: int = 0
    left_out_runs: int = 0
    missing: tuple[str, ...] = ()
    lacks: tuple[TraceLack, ...] = ()
