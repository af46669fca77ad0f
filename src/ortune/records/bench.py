"""The figures of ``ortune bench``."""

from __future__ import annotations

from ortune.records.base import Record


class Estimate(Record, frozen=True, kw_only=True):
    """A figure with its interval, in the unit of the field's name.

    Attributes:
        low, high: The interval; None for a missing bound. Both are None if ``single``.
        level: Confidence level of the interval.
        single: Whether there were too few processes for an interval.
    """

    value: float
    low: float | None = None
    high: float | None = None
    level: float = 0.95
    single: bool = False


class TailEstimate(Record, frozen=True, kw_only=True):
    """A latency quantile over the requests of all processes.

    Attributes:
        quantile: The share of requests, 0.99 for p99.
        latency_ns: The quantile in nanoseconds; None if fewer than ``needed`` requests were made.
        needed, made: Numbers of requests.
    """

    quantile: float
    latency_ns: Estimate | None
    needed: int
    made: int


class BenchRow(Record, frozen=True, kw_only=True):
    """The figures of one input shape.

    Attributes:
        median_ns: Typical latency: the median over processes of each process's median.
        mean_ns: Median over processes of each process's mean. None in documents of older versions, like the next two.
        min_ns, max_ns: The fastest and the slowest of all requests: single observations.
        tails: p10, p90, p95, p99 and p99.9 over the requests of all processes.
        throughput_per_s: Requests per second of the whole process, over all callers and sessions.
        load_ns: Load time of all sessions of the process together.
        cpu_per_run_ns: CPU time per request; 0 if a browser on another device ran it and does not report it.
        peak_bytes: Peak resident memory; None if the system does not report it.
        idle_bytes: Resident memory between requests; ``idle_anonymous_bytes`` is the part without pages of files.
        released_bytes: Resident memory after sessions and inputs were deleted; None if they were not deleted.
        trimmed_bytes: The same after ``malloc_trim``.
        event_loop_ns: p99 of the delay of the event loop while requests run, in Node.js; None elsewhere.
        outputs: Each output as text: its name, its shape and how it would be compared.
        first_load_ns: The load that wrote a setting's cache on disk, a single observation; None if there is no cache.
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
    idle_bytes: Estimate | None = None
    idle_anonymous_bytes: Estimate | None = None
    released_bytes: Estimate | None = None
    trimmed_bytes: Estimate | None = None
    event_loop_ns: Estimate | None = None
