"""Peak performance of the machine by number of threads: matrix products, and streams through memory and caches.

Each peak is the best of many tries, with the fastest available implementation.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Callable, Dict, List

import numpy as np

ROUNDS = 2  # of all rates, so a short disturbance does not affect all tries of one rate
FEWEST_TRIES = 3
SHORT_BYTES = 128 << 20  # size of an array below which a try passes over it several times
CPU_SLACK = 1.25  # ratio of CPU to wall time per thread above which additional threads ran

CACHED = (
    1 << 15
)  # elements of an array: three arrays fit into a core's cache, and the time of a call is negligible
CACHED_PASSES = 32

STREAMS: Dict[str, Any] = {
    "copy": (2, lambda a, b, c: np.copyto(c, a)),
    "add": (3, lambda a, b, c: np.add(a, b, out=c)),
    "read": (1, lambda a, b, c: a.max()),
}
"""Streams by name: number of arrays that a pass reads or writes, and the function of the pass."""


def measure(ort: Any, request: Dict[str, Any]) -> str:
    """Measure with one number of threads and write the rates per second, by implementation, to ``output``.

    ``model`` is the folder with the models and ``models.json``, which contains the kind of product and the operations
    per run of each. Params: ``threads``, ``side`` of numpy's matrices, ``seconds`` for each rate, ``array_bytes`` of
    each of the three arrays of a thread. The environment limits numpy's threads.
    """
    params = request["params"]
    threads, side = int(params["threads"]), int(params["side"])
    seconds, array_bytes = float(params["seconds"]), int(params["array_bytes"])
    with open(os.path.join(request["model"], "models.json"), encoding="utf-8") as file:
        models = json.load(file)
    rates: Dict[str, Any] = {"float32": {}, "int8": {}, "bytes": {}, "elementwise": {}}
    for _ in range(ROUNDS):
        share_s = seconds / ROUNDS
        for name, model in models.items():
            path = os.path.join(request["model"], name + ".onnx")
            _keep(rates[model["kind"]], name, _session(ort, path, threads, model["flops"], share_s))
        _keep(rates["float32"], "numpy", _numpy(threads, side, share_s))
        for name, rate in _streams(threads, array_bytes, share_s).items():
            _keep(rates["bytes"], name, rate)
        if threads == 1:  # each core has its own caches, so the rate is proportional to the threads
            for name, rate in _elementwise(share_s).items():
                _keep(rates["elementwise"], name, rate)
    rates["numpy"] = np.__version__
    with open(request["output"], "w", encoding="utf-8") as file:
        json.dump(rates, file)
    return "Measured the peaks with %d threads (onnxruntime %s, numpy %s)." % (
        threads,
        ort.__version__,
        np.__version__,
    )


def _keep(rates: Dict[str, float], name: str, rate: float) -> None:
    rates[name] = max(rate, rates.get(name, 0.0))


def _session(ort: Any, path: str, threads: int, flops: int, seconds: float) -> float:
    """Return operations per second of one of our models; 0.0 if this build has no kernel for it."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    state = ort.capi.onnxruntime_pybind11_state
    try:
        session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except (state.NotImplemented, state.InvalidGraph, state.Fail):
        return 0.0
    model_input = session.get_inputs()[0]
    dtype = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}[
        model_input.type
    ]
    x = np.random.RandomState(0).randint(0, 100, model_input.shape).astype(dtype)
    return flops / _shortest(lambda: session.run(None, {"x": x}), seconds)


def _numpy(threads: int, side: int, seconds: float) -> float:
    """Return operations per second of numpy's product; 0.0 if its library uses more threads than allowed."""
    rng = np.random.RandomState(0)
    a, b = (rng.standard_normal((side, side)).astype(np.float32) for _ in range(2))
    out = np.empty((side, side), np.float32)
    a.dot(b, out)
    cpu, wall = time.process_time(), time.perf_counter()
    shortest = _shortest(lambda: a.dot(b, out), seconds)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    # More CPU time than these threads have: the library started more threads, so the rate is not that of these.
    return 2.0 * side**3 / shortest if cpu <= CPU_SLACK * threads * wall else 0.0


def _shortest(call: Callable[[], Any], seconds: float) -> float:
    """Return the seconds of the shortest call, after a warm-up call."""
    call()
    times: List[float] = []
    end = time.perf_counter() + seconds
    while len(times) < FEWEST_TRIES or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def passes(array_bytes: int) -> int:
    """Return the number of passes over the arrays per try, so that the time to start the threads is negligible."""
    return 3 if array_bytes < SHORT_BYTES else 1


def _streams(threads: int, array_bytes: int, seconds: float) -> Dict[str, float]:
    """Return the bytes per second, read and written, of each kind of stream, over all threads."""
    lanes = _Lanes(threads, array_bytes // 4)
    try:
        rates = {}
        for name, (arrays, work) in STREAMS.items():
            lanes.work = work
            shortest = _shortest(lanes.once, seconds / len(STREAMS))
            rates[name] = arrays * passes(array_bytes) * 4.0 * (array_bytes // 4) * threads / shortest
        return rates
    finally:
        lanes.end()


def _elementwise(seconds: float) -> Dict[str, float]:
    """Return the bytes per second that one thread reads and writes while adding or multiplying arrays in its caches."""
    a, b, c = (np.full(CACHED, value, np.float32) for value in (1.0, 1.0, 2.0))

    def adding() -> None:
        for _ in range(CACHED_PASSES):
            np.add(a, b, out=c)

    def multiplying() -> None:
        for _ in range(CACHED_PASSES):
            np.multiply(a, b, out=a)

    # Two arrays are read and one is written, four bytes an element.
    moved = 3.0 * 4 * CACHED * CACHED_PASSES
    return {
        "add": moved / _shortest(adding, seconds / 2),
        "multiply": moved / _shortest(multiplying, seconds / 2),
    }


class _Lanes:
    """Threads that pass over their own arrays at the same time; numpy releases the GIL meanwhile."""

    def __init__(self, threads: int, elements: int) -> None:
        self.work = None  # type: Any
        self._elements = elements
        self._gate = threading.Barrier(threads + 1)
        self._threads = [threading.Thread(target=self._lane, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()
        self._pass("allocating")

    def once(self) -> None:
        """Run one pass in all threads, and wait for all of them."""
        # All threads begin at the first barrier; the second opens after the last thread's passes.
        self._pass("streaming")
        self._pass("streaming")

    def end(self) -> None:
        """End the threads and release their arrays."""
        self._gate.abort()
        for thread in self._threads:
            thread.join()

    def _pass(self, doing: str) -> None:
        try:
            self._gate.wait()
        except threading.BrokenBarrierError:
            what = "%s: arrays of %d bytes in %d threads do not fit"
            raise MemoryError(what % (doing, 4 * self._elements, len(self._threads))) from None

    def _lane(self) -> None:
        try:
            # Written by the thread that uses them, which places them near it; pages of zeros would need no memory.
            a, b, c = (np.full(self._elements, value, np.float32) for value in (1.0, 2.0, 3.0))
            self._gate.wait()
            while True:
                self._gate.wait()
                for _ in range(passes(4 * self._elements)):
                    self.work(a, b, c)
                self._gate.wait()
        except MemoryError:
            self._gate.abort()
        except threading.BrokenBarrierError:
            pass
