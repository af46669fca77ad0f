"""Result of ``ortune bench`` on a recording."""

from __future__ import annotations

from ortune.records import AppPlay, Estimate, LoadFigures, Runtime, TailEstimate
from ortune.records.base import Record
from ortune.stats.arrivals import Verdict


class PlayedPart(Record, frozen=True, kw_only=True):
    """The part of the recording that was played.

    Attributes:
        processes, sessions: Number of processes, and of the sessions that they create.
        calls, of_calls: Number of played calls, and of recorded calls.
        span_ns: Recorded time, without idle time; with a given rate, the time that the calls take at this rate.
        cut_ns: Idle time that was left out.
        open_loop: Whether calls start at given times; otherwise each waits for the previous one and its gap.
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
        model: Name of the model's file.
        sha256: Hash of the file.
        sessions: Sessions created in a play; ``calls`` is the number of calls in a play.
        create_ns: Time to create a session: the median over plays of each play's median. None if none was created.
        call_ns: Time of a call, likewise; from the intended start if calls start at given times.
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
        peak_bytes: Sum of the processes' largest resident memory; None if the system does not report it.
        most_threads: Threads of all processes, the maximum over plays; None if the system does not report them.
        late_ns: Mean delay of the start of a step.
        late_share: The delay as a fraction of the delay plus the mean time of a step.
        own_cpu_share: Fraction of the CPU time that the replay itself used.
        arrival: When calls start: constant, poisson, gamma:CV or recorded; "" if each follows the one before it.
        rate_per_s: Mean rate of all calls at given times; None for others, and for a single call.
        load: The load of calls at given times, the median over plays; each thread is a caller, and shares of the
            callers' time are those of the busiest thread. None for others.
        latency_ns: Latency of the calls of all models from their intended starts: the median over plays of each play's
            median. None without given times.
        tails: Quantiles of this latency over the calls of all plays.
        verdict: "measured"; "generator" if calls at given times started too late, so there is no latency; "overloaded"
            if the queue grew for as long as the load lasted, so latencies depend on its duration.
        rows: One row for each model.
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
    arrival: str = ""
    rate_per_s: float | None = None
    load: LoadFigures | None = None
    latency_ns: Estimate | None = None
    tails: tuple[TailEstimate, ...] = ()
    verdict: Verdict = "measured"
    rows: tuple[AppModelRow, ...] = ()
    plays: tuple[AppPlay, ...] = ()
    notes: tuple[str, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
