"""The document of a bench."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.machine import Sensors, Side
from ortune.records.measure import Failed
from ortune.records.protocol import ReadBack


class Estimate(Record, frozen=True, kw_only=True):
    """A figure with its interval, in the unit that the field's name says.

    Attributes:
        low, high: None where nothing bounds that side, and both where it is a single observation (``single``).
        single: Too few processes for an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    single: bool = False


class TailEstimate(Record, frozen=True, kw_only=True):
    """A quantile over the requests of all processes.

    Attributes:
        quantile: As a share, 0.99 for the p99.
        latency_ns: None, "not known", where fewer than ``needed`` requests were made.
        needed, made: Requests.
    """

    quantile: float
    latency_ns: Estimate | None
    needed: int
    made: int


class BenchProcess(Record, frozen=True, kw_only=True):
    """One process of a bench with its raw samples: latencies in order of each caller, nanoseconds.

    Attributes:
        index: In the order in which the processes ran.
        first_run_ns: The first run of the first caller, before any warm-up.
        cpu_ns, wall_ns: Over the timed runs, gaps included.
        steady: Whether the warm-up ended because the latency was steady.
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


class BenchRow(Record, frozen=True, kw_only=True):
    """One input shape: what it takes.

    Attributes:
        median_ns: Latency of a typical process: the median over processes of each one's own median.
        mean_ns: The same of each one's own mean. None in documents of older versions, as are the next two.
        min_ns, max_ns: The fastest and the slowest request of all: single observations.
        tails: p10, p90, p95, p99 and p99.9 over the requests of all processes.
        throughput_per_s: Requests a second of the whole process, all callers and sessions together.
        load_ns: Of all sessions of the process together.
        cpu_per_run_ns: 0 where a browser elsewhere ran it, which does not tell.
        peak_bytes: High-water mark of resident memory; None where the system does not tell.
        outputs: Name, shape and how it would be compared, of each output, in words.
        first_load_ns: The load that wrote what a setting keeps on disk, a single observation; None where nothing is
            kept.
    """

    case: str
    n_processes: int
    n_requests: int
    median_ns: Estimate
    tails: tuple[TailEstimate, ...]
    throughput_per_s: Estimate
    load_ns: Estimate
    first_run_ns: Estimate
    cpu_per_run_ns: Estimate
    peak_bytes: Estimate | None = None
    outputs: tuple[str, ...] = ()
    mean_ns: Estimate | None = None
    min_ns: float | None = None
    max_ns: float | None = None
    first_load_ns: float | None = None


class BenchResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune bench --json``.

    Attributes:
        rows: One an input shape, in the order asked for; a shape that was not reached before a stop has none.
        load: What the requests were: callers, sessions, gap, in words.
        gap_ns: Pause of each caller after a request.
        remarks: What the sensors said of the machine meanwhile.
        reproduce: The command that does it again.
    """

    side: Side
    rows: tuple[BenchRow, ...]
    processes: tuple[BenchProcess, ...]
    load: str
    gap_ns: int = 0
    read_back: tuple[ReadBack, ...] = ()
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
