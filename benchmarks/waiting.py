"""Does the time that threads waited for a CPU tell which runs to trust? Statistics that use it, beside those of today.

    python benchmarks/waiting.py record waiting.json [--model minilm-int8] [--blocks 30]    fifty minutes, quiet
    python benchmarks/waiting.py table waiting.json                                         prints Markdown

Linux counts for every thread how long it was ready to run and waited (second field of ``/proc/self/task/*/schedstat``).
``record`` runs two processes in turns, 16 rounds of 4 runs a side and block, and keeps each run's latency and waiting.
Pairs are of identical plans, of 1 against 2 threads, and of spinning against none, each once with a known wait of 5 %
on the second side: a statistic is unbiased where the two differ by log(1.05). ``table`` says how far each statistic
scatters from block to block and what it makes of that wait.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from common import model_path, neighbour

ROUNDS, RUNS = 16, 4
PLANTED = 0.05
SIDES: dict[str, dict[str, str | int]] = {
    "default": {},
    "1 thread": {"threads": 1},
    "no spinning": {"spin": "0"},
}
PAIRS = (("default", "default"), ("default", "1 thread"), ("default", "no spinning"))
CONDITIONS = ("quiet", "one core taken")


def child(model: str, settings: str) -> None:
    """Answers each line "RUNS WAIT" with the latencies and waits of so many runs, nanoseconds."""
    import onnxruntime

    asked = json.loads(settings)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = asked.get("threads", 0)
    options.add_session_config_entry("session.intra_op.allow_spinning", asked.get("spin", "1"))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(1)
    feeds = {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 if i == 0 else 64 for i, size in enumerate(value.shape)]
        integers = value.type.startswith("tensor(int")
        dtype = np.dtype(value.type[7:-1].replace("float", "float32") if not integers else value.type[7:-1])
        feeds[value.name] = (rng.integers(0, 2, shape) if integers else rng.standard_normal(shape)).astype(
            dtype
        )
    for _ in range(10):
        session.run(None, feeds)
    tasks = Path("/proc/self/task").iterdir()
    threads = [os.open(task / "schedstat", os.O_RDONLY) for task in tasks]

    def waited() -> int:
        return sum(int(os.pread(thread, 64, 0).split()[1]) for thread in threads)

    print("ready", flush=True)
    for line in sys.stdin:
        runs, planted = line.split()
        latencies, waits = [], []
        session.run(None, feeds)  # the first of a turn does not count
        for _ in range(int(runs)):
            before, start = waited(), time.perf_counter_ns()
            session.run(None, feeds)
            end = time.perf_counter_ns()
            until = end + int((end - start) * float(planted))
            while end < until:
                end = time.perf_counter_ns()
            latencies.append(end - start)
            waits.append(waited() - before)
        print(json.dumps([latencies, waits]), flush=True)


class Side:
    """A process that runs when it is asked."""

    def __init__(self, model: Path, settings: dict[str, str | int]) -> None:
        command = [sys.executable, __file__, "child", str(model), json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ready(self) -> None:
        """Waits until the model is loaded and warm."""
        assert self.process.stdout is not None and self.process.stdout.readline().strip() == "ready"

    def turn(self, planted: float) -> list[list[int]]:
        """Latencies and waits of a turn."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{RUNS} {planted}\n")
        self.process.stdin.flush()
        answer: list[list[int]] = json.loads(self.process.stdout.readline())
        return answer

    def end(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def record(model: Path, blocks: int, file: Path) -> None:
    """Every pair in every condition, without and with the planted wait, block after block in turn.

    The conditions change places from block to block, and each block is written: whatever ends the recording, what is
    there compares them fairly.
    """
    rng = random.Random(5)
    rows: list[dict[str, object]] = []
    cells = [(pair, planted) for pair in PAIRS for planted in (0.0, PLANTED)]
    for block in range(blocks):
        for condition in CONDITIONS:
            for (first, second), planted in rng.sample(cells, len(cells)):
                with neighbour(condition):
                    sides = [Side(model, SIDES[name]) for name in (first, second)]
                    for side in sides:
                        side.ready()
                    turns: list[list[list[list[int]]]] = [[], []]
                    for _ in range(ROUNDS):
                        for i in rng.sample((0, 1), 2):
                            turns[i].append(sides[i].turn(planted if i else 0.0))
                    for side in sides:
                        side.end()
                rows.append(
                    {
                        "condition": condition,
                        "pair": [first, second],
                        "planted": planted,
                        "latencies": [[turn[0] for turn in side] for side in turns],
                        "waits": [[turn[1] for turn in side] for side in turns],
                    }
                )
            file.write_text(json.dumps(rows), encoding="utf-8")
            print(f"{condition}: block {block + 1} of {blocks}", file=sys.stderr, flush=True)


Statistic = Callable[[np.ndarray, np.ndarray], float]
"""From latencies and waits (2, rounds, runs), nanoseconds, to log(second / first)."""


def _ratio(values: np.ndarray) -> float:
    return float(np.log(values[1] / values[0]))


def rounds_by_waiting(latency: np.ndarray, wait: np.ndarray, share: float = 0.5) -> float:
    """The median of rounds, of those in which both sides together waited least."""
    kept = np.argsort(wait.sum(axis=(0, 2)), kind="stable")[: max(1, round(share * latency.shape[1]))]
    return _rounds(latency[:, kept])


def runs_by_waiting(latency: np.ndarray, wait: np.ndarray) -> float:
    """The median of the half of each side's runs that waited least."""
    half = latency[0].size // 2
    kept = [
        side[np.argsort(w, kind="stable")[:half]]
        for side, w in zip(latency.reshape(2, -1), wait.reshape(2, -1), strict=True)
    ]
    return _ratio(np.median(kept, axis=1))


def _rounds(latency: np.ndarray) -> float:
    middles = np.median(latency, axis=2)
    return float(np.median(np.log(middles[1] / middles[0])))


STATISTICS: dict[str, Statistic] = {
    "median of rounds": lambda latency, _: _rounds(latency),
    "lower quartile of rounds": lambda latency, _: float(
        np.median(np.log(np.divide(*np.quantile(latency, 0.25, axis=2)[::-1])))
    ),
    "p10": lambda latency, _: _ratio(np.quantile(latency.reshape(2, -1), 0.1, axis=1)),
    "p25": lambda latency, _: _ratio(np.quantile(latency.reshape(2, -1), 0.25, axis=1)),
    "rounds that waited least together": rounds_by_waiting,
    "runs that waited least, by side": runs_by_waiting,
    "p25 of latency less waiting": lambda latency, wait: _ratio(
        np.quantile(np.maximum(1, latency - wait / 2).reshape(2, -1), 0.25, axis=1)
    ),
}


def table(rows: list[dict[str, object]]) -> list[str]:
    """A row a condition and statistic: scatter of identical plans, and what each pair makes of the planted wait."""
    heads = " | ".join(f"+5 % of {' / '.join(reversed(pair))}" for pair in PAIRS)
    lines = [
        f"| machine | statistic | scatter of identical plans | standard deviation | {heads} |",
        "|---|---|---:|---:|" + "---:|" * len(PAIRS),
    ]
    for condition in CONDITIONS:
        for name, statistic in STATISTICS.items():
            values = {
                (pair, planted): np.array(
                    [
                        statistic(
                            np.array(row["latencies"], dtype=float), np.array(row["waits"], dtype=float)
                        )
                        for row in rows
                        if (row["condition"], tuple(row["pair"]), row["planted"])
                        == (condition, pair, planted)  # type: ignore[arg-type]
                    ]
                )
                for pair in PAIRS
                for planted in (0.0, PLANTED)
            }
            same = values[PAIRS[0], 0.0]
            cells = []
            for pair in PAIRS:
                plain, more = values[pair, 0.0], values[pair, PLANTED]
                shift = float(np.median(more) - np.median(plain))
                error = 1.25 * math.hypot(
                    *(1.4826 * np.median(np.abs(v - np.median(v))) / math.sqrt(len(v)) for v in (plain, more))
                )
                cells.append(f"{100 * math.expm1(shift):+.1f} % (± {200 * error:.1f})")
            scatter = 1.4826 * float(np.median(np.abs(same)))
            lines.append(
                f"| {condition} | {name} | {100 * scatter:.1f} % | {100 * same.std():.1f} % | {' | '.join(cells)} |"
            )
    return lines


def main() -> None:
    """Records, or prints the table."""
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "table"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--model", default="minilm-int8")
    parser.add_argument("--blocks", type=int, default=30)
    asked = parser.parse_args()
    if asked.what == "record":
        record(model_path(asked.model), asked.blocks, asked.file)
    else:
        print("\n".join(table(json.loads(asked.file.read_text(encoding="utf-8")))))


if __name__ == "__main__":
    main()
