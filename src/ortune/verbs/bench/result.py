"""Result of ``ortune bench``: load metrics, the raw samples of each process, and the whole result."""

from __future__ import annotations

from typing import Literal

from ortune.records import BenchRow, Failed, Finding, LoadFigures, PeakInTurn, ReadBack, Sensors, Side
from ortune.records.base import Record


class ArrivalRow(Record, frozen=True, kw_only=True):
    """The load of one row, if calls start at given times.

    Attributes:
        verdict: "measured"; "generator" if calls started too late, so that there is no answer; "overloaded" if the
            queue grew for as long as the load lasted, so that latencies depend on its duration.
        load: Medians over processes.
    """

    verdict: Literal["measured", "generator", "overloaded"]
    load: LoadFigures


class BenchProcess(Record, frozen=True, kw_only=True):
    """One process of a bench with its raw samples: latencies in nanoseconds, in order for each caller.

    Attributes:
        index: Position in the order of execution.
        first_run_ns: The first run of the first caller, before any warm-up.
        cpu_ns, wall_ns: CPU time and wall time of the timed runs, pauses included.
        steady: Whether the latency was steady at the end of the warm-up.
        load: Load figures if calls start at given times; None otherwise.
    """

    index: int
    case: str
    latency_ns: tuple[int, ...]
    load_ns: int
    first_run_ns: int
    cpu_ns: int
    wall_ns: int
    peak_bytes: int | None = None
    warmup_runs: int = 0
    steady: bool = True
    started_at: str = ""
    sensors: Sensors = Sensors()
    load: LoadFigures | None = None


class BenchResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bench --json``.

    Attributes:
        rows: One per input shape, in the order given. A shape that was not reached before a stop has no row.
        load: The load in words: callers, sessions and pauses.
        gap_ns: Pause of each caller after a request.
        arrival: When calls start: constant, poisson, gamma:CV or recorded; "" if each caller starts the next one after
            the last one.
        rate_per_s: Mean rate of the given starts; None without them.
        arrivals: The load of each of ``rows``; () without given starts.
        threads: Threads that the creation of one session added; None if the system does not report it.
        peak_in_turn: Peak memory with several sizes in turn; None if sizes are fixed or memory is unknown.
        remarks: Observations about the machine during the measurement.
        reproduce: The command that repeats the measurement.
    """

    side: Side
    rows: tuple[BenchRow, ...]
    processes: tuple[BenchProcess, ...]
    load: str
    gap_ns: int = 0
    arrival: str = ""
    rate_per_s: float | None = None
    arrivals: tuple[ArrivalRow, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    threads: int | None = None
    peak_in_turn: PeakInTurn | None = None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
