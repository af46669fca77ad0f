"""What this machine can do at most: measured by the worker, kept in the store's folder, one a machine and runtime."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ortune import files
from ortune.errors import Interrupted, MeasurementError, StoreError
from ortune.profiling import peak_models
from ortune.records import Applied, Host, MachinePeak, Record, Runtime
from ortune.report.headline import count
from ortune.store.places import data_folder
from ortune.targets.machine import Machine
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

FILE = "peaks.json"
NOT_MEASURED = "not measured yet (run ortune doctor)"
_LIMIT_S = 120.0
_RATES = (
    7  # that one process measures: four by ONNX Runtime, numpy's product, the streams, what stays in caches
)
_SECONDS = 0.5  # for each of them; less where many numbers of threads are measured
_LEAST_SECONDS = 0.12

_SCALES = 0.7  # of the products: what shares out its work worse than this was disturbed
_RETRIES = 2

_QUIET_SHARE = 0.1  # of the CPUs that others may take meanwhile
_RISEN = 1.05  # times the stored rates, from which on a second measurement has found more

_SIDE, _LARGE_SIDE = 512, 1536  # not 1024: rows of 4096 bytes get into each other's way in a cache
_MANY_THREADS = 4  # beyond these the small product is over too soon to be shared out well

_TIMES_CACHE = 4  # an array's share of this many caches has little of it left when it is passed over again
_ASSUMED_CACHE = 64 << 20
_LEAST_ARRAY, _MOST_ARRAY = 16 << 20, 512 << 20
_STREAMED = (
    27  # times an array is written or read over at least: three are filled, then six in each of four tries
)
_SLOW_MEMORY = (
    3e9  # bytes a second that one thread reads and writes on a virtual server, first use of pages included
)
_SATURATING = 8  # threads that get as much out of memory as more would
_MEMORY_SHARE = 6  # three arrays a thread take half of what is left at most

_THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
"""What the libraries behind numpy take their number of threads from, when they are loaded."""


class _Rates(Record, frozen=True, kw_only=True):
    """What one process found, a second, by what reached it; 0 where something does not run here."""

    float32: dict[str, float]
    int8: dict[str, float]
    bytes: dict[str, float]
    elementwise: dict[str, float]
    numpy: str


class _Stored(Record, frozen=True, kw_only=True):
    """One entry of the file."""

    cpu: str
    features: tuple[str, ...]
    effective_cpus: int
    ort_version: str
    peak: MachinePeak


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One process: how many threads, how large the matrices and the arrays are, how long each rate may take."""

    threads: int
    side: int
    array_bytes: int
    seconds: float


def load_peak(host: Host, store_folder: Path | None, ort_version: str = "") -> MachinePeak | None:
    """The stored peak of a machine, or None.

    Args:
        host: Processor, instruction sets and effective CPUs must be the same.
        store_folder: Where the store lies; None is the user's own place.
        ort_version: The peak measured with this ONNX Runtime is preferred; else the newest is taken.
    """
    path = _path(store_folder)
    mine = [entry for entry in _read(path).values() if _same_machine(entry, host)] if path else []
    best = max(mine, key=lambda e: (e.ort_version == ort_version, e.peak.taken), default=None)
    return msgspec.structs.replace(best.peak, ort_version=best.ort_version) if best else None


def measure_peak(
    runtime: Runtime,
    scratch: Path,
    store_folder: Path | None,
    machine: Machine,
    *,
    seconds: float = _SECONDS,
    say: Callable[[str], None] = lambda sentence: None,
    stop: Callable[[], bool] = lambda: False,
) -> MachinePeak:
    """Measures the peaks, a fresh process for each number of threads, and stores them. The caller holds the lock.

    Takes about four seconds a number of threads (1, 2, 4, ... the effective CPUs), less where these are many. What more
    threads reach too little beyond fewer was disturbed, and is measured again.

    Args:
        runtime: ONNX Runtime whose kernels are measured beside numpy's library.
        scratch: Folder for models and answers.
        store_folder: Where the store lies; None is the user's own place.
        machine: What is measured.
        seconds: For each rate of each number of threads, at most.
        say: Gets a sentence when it begins, and one where the peak cannot be kept.
        stop: Asked before each process.

    Raises:
        ToolFailed: A process crashed, found too little memory, or took too long.
        MeasurementError: Other programs had the CPUs, so that what was found is no peak; nothing is kept of it.
        Interrupted: Stopped before all was measured.
    """
    host = machine.host
    counts = thread_counts(host.effective_cpus)
    say(f"measuring the peaks of this machine, with {' and '.join(map(str, counts))} threads")
    rates: dict[int, _Rates] = {}
    most_taken, looked = _QUIET_SHARE * host.effective_cpus, True
    for threads in counts:
        asked = _asked(threads, len(counts), machine, seconds)
        least_taken = math.inf
        for _ in range(1 + _RETRIES):
            if stop():
                raise Interrupted("stopped before the peak was measured")
            before = machine.sensors()
            rates_now = _measured(runtime, scratch, asked)
            taken = machine.taken_cpus(before)
            looked = looked and taken is not None
            least_taken = min(least_taken, taken or 0.0)
            # The best of all tries stays: what other programs do only makes a rate lower.
            rates[threads] = _better(rates.get(threads, rates_now), rates_now)
            if least_taken <= most_taken and not _disturbed(rates, threads):
                break
        if least_taken > most_taken:
            raise MeasurementError(
                f"other programs took {least_taken:.1f} of {count(host.effective_cpus, 'CPU')} while it was measured",
                do="run ortune doctor on an idle machine",
                code="busy",
            )
    peak = MachinePeak(
        cpu=host.cpu,
        flops_per_s=_best({n: rate.float32 for n, rate in rates.items()}),
        int8_ops_per_s=_best({n: rate.int8 for n, rate in rates.items()}),
        bytes_per_s=_best({n: rate.bytes for n, rate in rates.items()}),
        elementwise_bytes_per_s=max(rates[1].elementwise.values()),
        cache_bytes=machine.cache_bytes,
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
        how=_how(runtime, rates[counts[-1]]),
        ort_version=runtime.ort_version,
        quiet=True if looked else None,
    )
    earlier = load_peak(host, store_folder, runtime.ort_version)
    peak = msgspec.structs.replace(
        peak, agreed=earlier is not None and bool(earlier.quiet) and _agree(earlier, peak)
    )
    _keep(store_folder, host, runtime.ort_version, peak, say)
    return peak


def peak_s(machine: Machine, start_s: float) -> float:
    """Returns what measuring the peaks takes at least, in seconds, of processes that need ``start_s`` to start."""
    counts = thread_counts(machine.host.effective_cpus)
    total_s = 0.0
    for threads in counts:
        asked = _asked(threads, len(counts), machine, _SECONDS)
        rate = _SLOW_MEMORY * min(threads, _SATURATING)
        streams_s = _STREAMED * asked.array_bytes * threads / rate
        total_s += start_s + (_RATES - 1) * asked.seconds + max(asked.seconds, streams_s)
    return total_s


def _rate_s(seconds: float, n_counts: int) -> float:
    # All numbers of threads together take 1.5 s for a rate.
    return min(seconds, max(_LEAST_SECONDS, 1.5 / n_counts))


def thread_counts(cpus: int) -> tuple[int, ...]:
    """1, 2, 4, ... and the number of CPUs itself."""
    return (*(1 << n for n in range(cpus.bit_length()) if 1 << n < cpus), cpus)


def _agree(earlier: MachinePeak, peak: MachinePeak) -> bool:
    """Returns whether a second measurement found no more than the first."""
    return earlier.ort_version == peak.ort_version and all(
        rate <= _RISEN * getattr(earlier, kind).get(threads, 0.0)
        for kind in ("flops_per_s", "int8_ops_per_s", "bytes_per_s")
        for threads, rate in getattr(peak, kind).items()
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
    """Returns whether these threads reach too little beyond the next fewer; memory is no sign, few saturate it."""
    fewer = max((n for n in rates if n < threads), default=0)
    if not fewer:
        return False
    # Example: 4 threads are to reach 0.7 x 4 / 2 = 1.4 times the rate of 2.
    expected = _SCALES * threads / fewer
    return any(
        max(getattr(rates[threads], kind).values()) < expected * max(getattr(rates[fewer], kind).values())
        for kind in ("float32", "int8")
    )


def _asked(threads: int, n_counts: int, machine: Machine, seconds: float) -> _Asked:
    # Each thread has its part of an array that is four times as large as the cache.
    array = _TIMES_CACHE * (machine.cache_bytes or _ASSUMED_CACHE) // threads
    array = min(max(array, _LEAST_ARRAY), _MOST_ARRAY)
    left = machine.memory_left_bytes()
    if left is not None:
        # In a small container the arrays are smaller, and the cache lends some of its speed: a peak too high
        # makes floors too low, never too high.
        array = min(array, left // (_MEMORY_SHARE * threads))
    return _Asked(
        threads=threads,
        side=_SIDE if threads <= _MANY_THREADS else _LARGE_SIDE,
        array_bytes=max(array, 1 << 20),
        seconds=_rate_s(seconds, n_counts),
    )


def _measured(runtime: Runtime, scratch: Path, asked: _Asked) -> _Rates:
    """One process."""
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
    """The best of each number of threads; a number that nothing ran with is left out."""
    best = {threads: max(of_kind.values(), default=0.0) for threads, of_kind in rates.items()}
    return {threads: rate for threads, rate in best.items() if rate > 0}


def _how(runtime: Runtime, rates: _Rates) -> str:
    """What was run, and what reached the peak with the most threads."""

    def fastest(by: Mapping[str, float]) -> str:
        return max(by, key=by.__getitem__)

    return (
        f"onnxruntime {runtime.ort_version} and numpy {rates.numpy}, the best of several tries; "
        f"float32 by {fastest(rates.float32)}, int8 by {fastest(rates.int8)}, memory by {fastest(rates.bytes)}"
    )


def _same_machine(entry: _Stored, host: Host) -> bool:
    return (entry.cpu, entry.features, entry.effective_cpus) == (
        host.cpu,
        host.features,
        host.effective_cpus,
    )


def _key(host: Host, ort_version: str) -> str:
    parts: Sequence[object] = (host.cpu, host.features, host.effective_cpus, ort_version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _path(store_folder: Path | None) -> Path | None:
    """The file; None where the user has no place for it."""
    try:
        return (store_folder or data_folder()) / FILE
    except StoreError:
        return None


def _read(path: Path) -> dict[str, _Stored]:
    """What is stored; nothing where the file is not there, or is not ours: peaks can be measured again."""
    try:
        return msgspec.json.decode(files.read(path), type=dict[str, _Stored])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _keep(
    store_folder: Path | None, host: Host, ort_version: str, peak: MachinePeak, say: Callable[[str], None]
) -> None:
    """Adds the peak to the file, replacing an older one; where that cannot be, says so."""
    path = _path(store_folder)
    if path is None:
        say("the peaks are not stored: the home folder is unknown")
        return
    entry = _Stored(
        cpu=host.cpu,
        features=host.features,
        effective_cpus=host.effective_cpus,
        ort_version=ort_version,
        peak=peak,
    )
    text = msgspec.json.format(msgspec.json.encode(_read(path) | {_key(host, ort_version): entry}), indent=2)
    try:
        files.private_folder(path.parent, own=store_folder is None)
        files.write(path, text, private=True)
    except OSError as error:
        say(f"the peaks are not stored: {path} cannot be written ({error.strerror})")
