"""Does bench agree with others on the same model? Run by hand; about a minute a model.

    python benchmarks/bench_against_peers.py [MODEL_OF_THE_ZOO ...]

Interleaved rounds of: ``ortune bench``; a plain loop by hand in a fresh process; and, where they are on PATH,
``onnxruntime_perf_test`` and OpenVINO's ``benchmark_app`` (another runtime: not expected to agree, but a reference).
Every one gets the model at the inputs that ortune chose, and one thread, so that a neighbour disturbs all alike; the
figure is the median latency of a round, milliseconds.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

import ortune
from common import model_path
from ortune.graph.model.open import open_model
from ortune.inputs import workload

ROUNDS = 5
RUNS = 200
LOOP = """
import sys, time
import numpy as np
import onnxruntime
model, feeds, runs = sys.argv[1], dict(np.load(sys.argv[2])), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
names = [output.name for output in session.get_outputs()]
for _ in range(20):
    session.run(names, feeds)
times = []
for _ in range(runs):
    start = time.perf_counter_ns()
    session.run(names, feeds)
    times.append(time.perf_counter_ns() - start)
print(sorted(times)[len(times) // 2] / 1e6)
"""

Measure = Callable[[], float]


def by_ortune(model: Path, store: Path) -> tuple[float, float, float]:
    """Median and its interval, milliseconds."""
    median = (
        ortune.bench(model, processes=3, runs=RUNS, set=["intra=1"], store=store).result.rows[0].median_ns
    )
    return median.value / 1e6, median.low / 1e6, median.high / 1e6


def by_hand(model: Path, feeds: Path) -> float:
    """The median over three fresh processes, as ortune takes three."""
    command = [sys.executable, "-c", LOOP, str(model), str(feeds), str(RUNS)]
    return statistics.median(float(said(command)) for _ in range(3))


def perf_test(model: Path, dims: dict[str, int], folder: Path) -> Measure | None:
    """ONNX Runtime's own tool; it makes up inputs itself, with the sizes given for dynamic dimensions."""
    program = shutil.which("onnxruntime_perf_test")
    if program is None:
        return None
    load = ["-m", "times", "-r", str(RUNS), "-e", "cpu", "-x", "1"]
    sizes = [word for name, size in dims.items() for word in ("-f", f"{name}:{size}")]
    command = [program, *load, "-I", *sizes, str(model), str(folder / "out.txt")]
    return lambda: found(r"P50 Latency: ([\d.e-]+) s", said(command)) * 1e3


def benchmark_app(model: Path, shapes: dict[str, tuple[int, ...]]) -> Measure | None:
    """OpenVINO's tool, one request at a time."""
    program = shutil.which("benchmark_app")
    if program is None:
        return None
    shape = ",".join(f"{name}[{','.join(map(str, s))}]" for name, s in shapes.items())
    load = ["-d", "CPU", "-api", "sync", "-niter", str(RUNS), "-hint", "none", "-nthreads", "1"]
    command = [program, "-m", str(model), *load, "-shape", shape]
    return lambda: found(r"Median:\s+([\d.]+) ms", said(command))


def said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def found(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"no {pattern!r} in:\n{text}")
    return float(match[1])


def main() -> None:
    """Prints one Markdown table a model."""
    print(
        f"{datetime.now(UTC):%Y-%m-%d}; {ROUNDS} interleaved rounds of {RUNS} requests a process, one thread\n"
    )
    for name in sys.argv[1:] or ["ppocrv2-cls", "silero-vad"]:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            against_peers(name, Path(folder))


def against_peers(name: str, folder: Path) -> None:
    """One model by everybody who is here."""
    model = model_path(name)
    opened = open_model(model)
    case, values = workload.feeds(opened.ir, workload.propose(opened.ir))[0]
    np.savez(folder / "feeds.npz", **values)
    shapes = {choice.name: choice.shape for choice in case.inputs}
    known: dict[str, Measure | None] = {
        "a loop by hand": lambda: by_hand(model, folder / "feeds.npz"),
        "onnxruntime_perf_test": perf_test(model, case.dims, folder),
        "OpenVINO benchmark_app": benchmark_app(model, shapes),
    }
    peers = {peer: measure for peer, measure in known.items() if measure}
    ours: list[tuple[float, float, float]] = []
    theirs: dict[str, list[float]] = {peer: [] for peer in peers}
    for _ in range(ROUNDS):
        ours.append(by_ortune(model, folder / "store"))
        for peer in list(theirs):
            try:
                theirs[peer].append(peers[peer]())
            except subprocess.CalledProcessError as error:
                del theirs[peer]
                print(f"{peer} does not run this model: {(error.stderr or error.stdout).strip()[-200:]}\n")
    print(
        f"**{name}**\n\n| by | median of the rounds | rounds | over ortune bench, round by round | in its interval |"
    )
    print("|---|---:|---|---:|---|")
    print(
        f"| ortune bench | {statistics.median(v for v, _, _ in ours):.3f} | {rounds([v for v, _, _ in ours])} | | |"
    )
    for peer, values_ms in theirs.items():
        ratios = [value / own for value, (own, _, _) in zip(values_ms, ours, strict=True)]
        inside = sum(low <= value <= high for value, (_, low, high) in zip(values_ms, ours, strict=True))
        print(
            f"| {peer} | {statistics.median(values_ms):.3f} | {rounds(values_ms)} "
            f"| {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) | {inside} of {ROUNDS} |"
        )
    for peer in known.keys() - peers.keys():
        print(f"\n{peer}: not on PATH, not measured")
    print()


def rounds(values: list[float]) -> str:
    return " ".join(f"{v:.3f}" for v in values)


if __name__ == "__main__":
    main()
