"""The results of ``ortune bench``."""

from __future__ import annotations

from ortune.records.base import Record


class Estimate(Record, frozen=True, kw_only=True):
    """An estimate with its confidence interval, in the unit that the field's name contains.

    Attributes:
        low, high: Ends of the interval; None for a missing bound. Both are None if ``single``.
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
        quantile: The quantile as a fraction of the requests: 0.99 for p99.
        latency_ns: The quantile in nanoseconds; None if fewer than ``needed`` requests were made.
        needed, made: Number of requests that the quantile needs, and number of requests made.
    """

    quantile: float
    latency_ns: Estimate | None
    needed: int
    made: int


class LoadFigures(Record, frozen=True, kw_only=True):
    """Load metrics of calls that start at given times, of one process or as the median over several processes.

    Attributes:
        waited_ns: Mean time for which a call waited because every caller was busy.
        late_ns: Mean time by which a call started late although a caller was free.
        waited_share, late_share: These times as fractions of the mean latency.
        offered_share: Time in calls that the rate requires, as a fraction of the callers' time; above 1, the callers
            cannot keep up.
        own_cpu_share: CPU time of the generator, as a fraction of one CPU.
        served_per_s: Maximum number of calls per second that the callers can make.
    """

    waited_ns: float
    late_ns: float
    waited_share: float
    late_share: float
    offered_share: float
    own_cpu_share: float
    served_per_s: float


class BenchRow(Record, frozen=True, kw_only=True):
    """The results for one input shape.

    Attributes:
        median_ns: Typical latency: the median over processes of each process's median.
        mean_ns: Median over processes of each process's mean. None in documents of older versions, like ``min_ns`` and
            ``max_ns``.
        min_ns, max_ns: Latency of the fastest and of the slowest of all requests: single observations.
        tails: p10, p90, p95, p99 and p99.9 over the requests of all processes.
        throughput_per_s: Requests per second of the whole process, over all callers and sessions.
        load_ns: Load time of all sessions of the process together.
        cpu_per_run_ns: CPU time per request; 0 for a browser on another device, which does not report CPU time.
        peak_bytes: Peak resident memory; None if the system does not report it.
        idle_bytes: Resident memory between requests; ``idle_anonymous_bytes`` is the part without file-backed pages.
        released_bytes: Resident memory after sessions and inputs were deleted; None if they were not deleted.
        trimmed_bytes: Resident memory after ``malloc_trim`` as well.
        event_loop_ns: p99 of the delay of the event loop while requests run, in Node.js; None elsewhere.
        outputs: Each output as text: its name, its shape and how it would be compared.
        first_load_ns: Time of the load that wrote a setting's cache to disk, a single observation; None without a
            cache.
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
