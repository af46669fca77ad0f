"""A trace that was read, and how much of it is missing."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

TraceLackCode = Literal["end", "inner-events", "other-models", "other-processes", "runs"]


class TraceLack(Record, frozen=True, kw_only=True):
    """Something that a trace does not hold, and that decides what its figures mean.

    Attributes:
        code: "end": it was cut off. "inner-events": of its runs only the executor's part is there. "other-models" and
            "other-processes": they were recorded too, and are left out. "runs": all of it counts as one.
        what: The same in words.
    """

    code: TraceLackCode
    what: str


class TraceInfo(Record, frozen=True, kw_only=True):
    """A profile that was read.

    Attributes:
        format: "ort-json", "web-console", ...
        device_only: It holds kernels on a device and nothing of the host: these are the nodes.
        complete: False where it was cut off and read as far as it goes.
        n_unreadable: Events and lines that are left out: they cannot be read, or their times are impossible.
        n_mended: Events that are no JSON, and were read without the commas that are too many.
        n_outside: Executions of nodes that are left out: the run around them was not recorded to its end.
        lost_runs: Of the runs that are told so many lost events: what lies between their nodes is unexplained.
        left_out_runs: Runs that are left out because they lost events.
        missing: What it does not hold, in sentences.
        lacks: Those of them that decide what its figures mean.
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
