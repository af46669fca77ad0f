"""Result of ``ortune bench`` on a recording."""

from __future__ import annotations

from typing import Literal

from ortune.records import AppPlay, Estimate, Runtime
from ortune.records.base import Record


class PlayedPart(Record, frozen=True, kw_only=True):
    """What was played of the recording.

    Attributes:
        processes, sessions: Processes, and sessions that they created or had.
        calls, of_calls: Calls that were played, and that were recorded.
        span_ns: Recorded time, without idle time.
        cut_ns: Idle time that was left out.
        open_loop: Whether calls start at their recorded times; otherwise each follows the one before after its gap.
    """

    processes: int
    sessions: int
    calls: int
    of_calls: int
    span_ns: int
    cut_ns: int = 0
    open_loop: bool = False


class AppModelRow(Record, frozen=True, kw_only=True):
    """The sessions of one model.

    Attributes:
        model: Name of its file.
        sessions: Sessions that were created; ``calls`` is the number of their calls.
        create_ns: Time of a creation: the median over plays of each play's median. None if none was created.
        call_ns: Time of a call, likewise; with recorded arrivals it counts from the intended start.
        call_p95_ns: The 95th percentile, likewise.
    """

    model: str
    sha256: str = ""
    sessions: int
    calls: int
    create_ns: Estimate | None = None
    call_ns: Estimate | None = None
    call_p95_ns: Estimate | None = None


class AppBenchResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bench app.workload --json``.

    Attributes:
        in_ort_ns: Time inside ONNX Runtime, summed over threads; ``creating_ns`` is the part for creating sessions.
        wall_ns: From the start to the end of the last process, gaps included.
        cpu_ns: CPU time of all processes.
        peak_bytes: Sum of the processes' largest resident memory; None if the system does not tell.
        most_threads: Threads of all processes; None if the system does not tell.
        late_ns: Mean time by which a step started late.
        late_share: The same, of the mean time of a step.
        own_cpu_share: CPU time of the replay itself, of all CPU time.
        verdict: "measured", or "generator" if calls of an open loop started too late.
        rows: One for each model.
        plays: The totals of each play, in order.
    """

    label: str
    headline: str = ""
    runtime: Runtime
    played: PlayedPart
    in_ort_ns: Estimate
    creating_ns: Estimate
    wall_ns: Estimate
    cpu_ns: Estimate
    peak_bytes: Estimate | None = None
    most_threads: int | None = None
    late_ns: float = 0.0
    late_share: float = 0.0
    own_cpu_share: float = 0.0
    verdict: Literal["measured", "generator"] = "measured"
    rows: tuple[AppModelRow, ...] = ()
    plays: tuple[AppPlay, ...] = ()
    notes: tuple[str, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
