"""Measures the peak rates of this machine with the worker, and stores them per machine and runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ortune import monotonic
from ortune.engines.profiling import peak_models
from ortune.engines.profiling.stored_peaks import is_postponed, keep_peak, load_peak, postpone
from ortune.errors import Interrupted, MeasurementError
from ortune.printable import amount
from ortune.records import Applied, Host, MachinePeak, Record, Runtime, messages
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.targets.tool import ToolFailed, ToolProcess

_LIMIT_S = 120.0
_RATES = (
    7  # number measured in one process: four by ONNX Runtime, numpy's product, streams, cached elementwise
)
_SECONDS = 0.5  # for each rate; less if many numbers of threads are measured
_LEAST_SECONDS = 0.12

_SCALES = 0.7  # of linear scaling of the products, below which a measurement was disturbed
_RETRIES = 2

_LOOK_S = 0.5  # of watching whether other programs use the CPUs, before anything is measured
_START_S = 1.0  # of one process, usually
_QUIET_SHARE = 0.1  # of the CPUs that other programs may use meanwhile
_RISEN = 1.05  # ratio to the stored rates above which a second measurement found more

_SIDE, _LARGE_SIDE = 512, 1536  # not 1024: rows of 4096 bytes conflict in a cache
_MANY_THREADS = 4  # beyond these the small product is too short to be distributed well

_TIMES_CACHE = 4  # an array that exceeds the cache by this factor leaves little of itself in it
_ASSUMED_CACHE = 64 << 20
_LEAST_ARRAY, _MOST_ARRAY = 16 << 20, 512 << 20
_STREAMED = (
    27  # minimum passes over an array: three are filled, then six are read or written in each of four tries
)
_SLOW_MEMORY = (
    3e9  # bytes per second that one thread reads and writes on a virtual server, first use of pages included
)
_SATURATING = 8  # threads that saturate the memory
_MEMORY_SHARE = 6  # three arrays per thread use at most half of the memory left

_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
"""Environment variables that set the number of threads of NumPy's libraries, which read them when loaded."""


class _Rates(Record, frozen=True, kw_only=True):
    """Rates per second that one process measured, by method; 0 if a method does not run here."""

    float32: dict[str, float]
    int8: dict[str, float]
    bytes: dict[str, float]
    elementwise: dict[str, float]
    numpy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _PeakRequest:
    """Parameters of one process: threads, sizes of matrices and arrays, and seconds for each rate."""

    threads: int
    side: int
    array_bytes: int
    seconds: float


def measure_peak(
    runtime: Runtime,
    scratch: Path,
    store_folder: Path | None,
    machine: Machine,
    *,
    seconds: float = _SECONDS,
    say: Callable[[messages.Message], None] = lambda message: None,
    stop: Callable[[], bool] = lambda: False,
) -> MachinePeak:
    """Measure and store the peaks, with a new process for each number of threads. The caller holds the lock.

    Takes about four seconds per number of threads (1, 2, 4, ... up to the effective CPUs), less on machines with many
    CPUs. If the rate scales too little with the threads, the measurement was disturbed and is repeated.

    Args:
        runtime: ONNX Runtime whose kernels are measured in addition to NumPy's library.
        scratch: Folder for models and results.
        store_folder: Folder of the store; None for the user's own.
        machine: The machine to measure.
        seconds: Maximum seconds for each rate and number of threads.
        say: Callback for a message at the start, and one if the peak cannot be stored.
        stop: Called before each process; True stops the measurement.

    Raises:
        ToolFailed: A process crashed, lacked memory, or took too long.
        MeasurementError: Other programs used the CPUs, so the rates are below the peaks; nothing is stored.
        Interrupted: ``stop`` returned True before the measurement was complete.
    """
    host = machine.host
    counts = thread_counts(host.effective_cpus)
    rates: dict[int, _Rates] = {}
    most_taken, looked = _QUIET_SHARE * host.effective_cpus, True
    if stop():
        raise Interrupted("stopped before the peak was measured")
    taken_now = _taken_now(machine, most_taken)
    if taken_now > most_taken:
        raise _busy(taken_now, host, store_folder)
    usual_s, most_s = duration_s(machine)
    say(messages.MeasuringPeaks(threads=tuple(counts), usual_s=usual_s, most_s=most_s))
    for threads in counts:
        asked = _request(threads, len(counts), machine, seconds)
        least_taken = math.inf
        for _ in range(1 + _RETRIES):
            if stop():
                raise Interrupted("stopped before the peak was measured")
            before = machine.sensors()
            rates_now = _measured(runtime, scratch, asked)
            taken = machine.taken_cpus(before)
            looked = looked and taken is not None
            least_taken = min(least_taken, taken or 0.0)
            # The best of all tries counts, since other programs only lower a rate.
            rates[threads] = _better(rates.get(threads, rates_now), rates_now)
            if least_taken <= most_taken and not _disturbed(rates, threads):
                break
        if least_taken > most_taken:
            raise _busy(least_taken, host, store_folder)
    peak = MachinePeak(
        cpu=host.cpu,
        flops_per_s=_best({n: rate.float32 for n, rate in rates.items()}),
        int8_ops_per_s=_best({n: rate.int8 for n, rate in rates.items()}),
        bytes_per_s=_best({n: rate.bytes for n, rate in rates.items()}),
        elementwise_bytes_per_s=max(rates[1].elementwise.values()),
        cache_bytes=machine.cache_bytes,
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        how=_description(runtime, rates[counts[-1]]),
        ort_version=runtime.ort_version,
        quiet=True if looked else None,
    )
    earlier = load_peak(host, store_folder, runtime.ort_version)
    peak = msgspec.structs.replace(
        peak, agreed=earlier is not None and bool(earlier.quiet) and _agree(earlier, peak)
    )
    keep_peak(store_folder, host, runtime.ort_version, peak, say)
    return peak


def _taken_now(machine: Machine, most: float) -> float:
    """Return the number of CPUs that other programs use, as the minimum of a few readings; 0 if unknown."""
    least = math.inf
    for _ in range(1 + _RETRIES):
        before = machine.sensors()
        machine.pause(_LOOK_S)
        least = min(least, machine.taken_cpus(before) or 0.0)
        if least <= most:
            break
    return least


def _busy(taken_cpus: float, host: Host, store_folder: Path | None) -> MeasurementError:
    """Postpone the measurement to a quiet moment, and return the error for a busy machine."""
    postpone(store_folder)
    cpus = amount(host.effective_cpus, "CPU")
    return MeasurementError(
        f"other programs used {taken_cpus:.1f} of {cpus}",
        do="it is measured at the next quiet moment (--wait-quiet 10m waits for one)",
        code="busy",
    )


def known_peak(
    runtime: Runtime, scratch: Path, store_folder: Path | None, machine: Machine, left_s: float
) -> MachinePeak | None:
    """Return the stored peak, or if its measurement was postponed, measure it now; None if that fails or does not fit.

    Args:
        runtime: ONNX Runtime whose kernels are measured.
        scratch: Folder for models and results.
        store_folder: Folder of the store; None for the user's own.
        machine: The machine.
        left_s: Maximum seconds of a measurement.
    """
    peak = load_peak(machine.host, store_folder, runtime.ort_version)
    if peak is not None or not is_postponed(store_folder):
        return peak
    needed_s = peak_s(machine, _START_S)
    if needed_s > left_s:
        return None
    ends_s = monotonic.now_s() + left_s
    try:
        return measure_peak(
            runtime, scratch, store_folder, machine, stop=lambda: monotonic.now_s() + needed_s / 2 > ends_s
        )
    except (ToolFailed, MeasurementError, Interrupted):
        return None


def duration_s(machine: Machine) -> tuple[float, float]:
    """Return the usual seconds of the measurement, and the most that it takes next to other programs."""
    usual_s = peak_s(machine, _START_S)
    return usual_s, (1 + _RETRIES) * usual_s


def peak_s(machine: Machine, start_s: float) -> float:
    """Return the minimum seconds to measure the peaks, if each process takes ``start_s`` to start."""
    counts = thread_counts(machine.host.effective_cpus)
    total_s = 0.0
    for threads in counts:
        asked = _request(threads, len(counts), machine, _SECONDS)
        rate = _SLOW_MEMORY * min(threads, _SATURATING)
        streams_s = _STREAMED * asked.array_bytes * threads / rate
        total_s += start_s + (_RATES - 1) * asked.seconds + max(asked.seconds, streams_s)
    return total_s


def _rate_s(seconds: float, n_counts: int) -> float:
    # All numbers of threads together take 1.5 s per rate.
    return min(seconds, max(_LEAST_SECONDS, 1.5 / n_counts))


def thread_counts(cpus: int) -> tuple[int, ...]:
    """Return the powers of two below the number of CPUs, followed by the number itself."""
    return (*(1 << n for n in range(cpus.bit_length()) if 1 << n < cpus), cpus)


def _agree(earlier: MachinePeak, peak: MachinePeak) -> bool:
    """Return whether no rate of a second measurement is notably higher than that of the first."""
    rates = (
        (earlier.flops_per_s, peak.flops_per_s),
        (earlier.int8_ops_per_s, peak.int8_ops_per_s),
        (earlier.bytes_per_s, peak.bytes_per_s),
    )
    return earlier.ort_version == peak.ort_version and all(
        rate <= _RISEN * before.get(threads, 0.0) for before, now in rates for threads, rate in now.items()
    )


def _better(one: _Rates, other: _Rates) -> _Rates:
    def best(a: Mapping[str, float], b: Mapping[str, float]) -> dict[str, float]:
        return {name: max(rate, b[name]) for name, rate in a.items()}

    return _Rates(
        float32=best(one.float32, other.float32),
        int8=best(one.int8, other.int8),
        bytes=best(one.bytes, other.bytes),
        elementwise=best(one.elementwise, other.elementwise),
        numpy=one.numpy,
    )


def _disturbed(rates: Mapping[int, _Rates], threads: int) -> bool:
    """Return whether the arithmetic rates scale too little from the next smaller number of threads.

    The memory rate is ignored, since few threads saturate it.
    """
    fewer = max((n for n in rates if n < threads), default=0)
    if not fewer:
        return False
    # Example: 4 threads should reach 0.7 x 4 / 2 = 1.4 times the rate of 2.
    expected = _SCALES * threads / fewer
    many, few = rates[threads], rates[fewer]
    products = ((many.float32, few.float32), (many.int8, few.int8))
    return any(max(more.values()) < expected * max(less.values()) for more, less in products)


def _request(threads: int, n_counts: int, machine: Machine, seconds: float) -> _PeakRequest:
    # Each thread has its part of an array that is four times as large as the cache.
    array = _TIMES_CACHE * (machine.cache_bytes or _ASSUMED_CACHE) // threads
    array = min(max(array, _LEAST_ARRAY), _MOST_ARRAY)
    left = machine.memory_left_bytes()
    if left is not None:
        # In a small container the arrays are smaller, so the cache raises the rate: a peak that is too high makes
        # floors too low, never too high.
        array = min(array, left // (_MEMORY_SHARE * threads))
    return _PeakRequest(
        threads=threads,
        side=_SIDE if threads <= _MANY_THREADS else _LARGE_SIDE,
        array_bytes=max(array, 1 << 20),
        seconds=_rate_s(seconds, n_counts),
    )


def _measured(runtime: Runtime, scratch: Path, asked: _PeakRequest) -> _Rates:
    """Run one process with the given parameters, and return its rates."""
    folder = scratch / f"peaks-{asked.side}"
    if not folder.exists():
        folder.mkdir()
        peak_models.write(folder, asked.side)
    answer = scratch / f"peaks-{asked.threads}.json"
    variables = tuple(
        Applied(knob="threads", channel="env", key=name, value=str(asked.threads))
        for name in _THREAD_VARIABLES
    )
    tool = ToolProcess(
        runtime=runtime,
        folder=scratch,
        variables=variables,
        limits=Limits(load_s=_LIMIT_S + _RATES * asked.seconds),
    )
    params = {
        "threads": str(asked.threads),
        "side": str(asked.side),
        "seconds": str(asked.seconds),
        "array_bytes": str(asked.array_bytes),
    }
    tool("peaks", folder, answer, params)
    return msgspec.json.decode(answer.read_bytes(), type=_Rates)


def _best(rates: Mapping[int, Mapping[str, float]]) -> dict[int, float]:
    """Return the best rate of any method by number of threads, without numbers that no method ran with."""
    best = {threads: max(of_kind.values(), default=0.0) for threads, of_kind in rates.items()}
    return {threads: rate for threads, rate in best.items() if rate > 0}


def _description(runtime: Runtime, rates: _Rates) -> str:
    """Return a description of the measurement, with the method that was fastest for each rate."""

    def fastest(by: Mapping[str, float]) -> str:
        return max(by, key=by.__getitem__)

    return (
        f"onnxruntime {runtime.ort_version} and numpy {rates.numpy}, the best of several tries; "
        f"float32 by {fastest(rates.float32)}, int8 by {fastest(rates.int8)}, memory by {fastest(rates.bytes)}"
    )
