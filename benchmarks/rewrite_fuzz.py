"""Does a rewrite ever break a model? A part of ``make test-long``.

    python benchmarks/rewrite_fuzz.py [--graphs 100000] [--first 0] [--limit-s SECONDS] [--workers N] [--no-node-cases]

Every rewrite that changes graphs in memory is applied to every node case that comes with onnx (as it is, with all that
is fed as constants, and with all but the first), and to random graphs. What comes out must be valid, give the same
outputs in ONNX Runtime within the rewrite's class, and not change when the rewrite is applied again. The same number
gives the same graph. Ends with 1 where one failed, and with 130 when it is interrupted.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "rewrites"))

from rewrite_fuzzing import IN_MEMORY, Tally, over_node_cases, over_random_graphs

_AT_ONCE = 16  # graphs that a worker is given: a fraction of a second
_GARBAGE = 100_000  # objects made before it is looked for: models are full of circles


def table(cases: Tally, graphs: Tally) -> str:
    """A row a rewrite, as Markdown."""
    lines = ["| rewrite | node cases changed | random graphs changed | wrong |\n|---|---:|---:|---:|"]
    for rewrite in IN_MEMORY:
        name = rewrite.name
        wrong = sum(text.startswith(f"{name} on ") for text in (*cases.wrong, *graphs.wrong))
        lines.append(f"| {name} | {cases.changed[name]:,} | {graphs.changed[name]:,} | {wrong} |")
    wrong = len(cases.wrong) + len(graphs.wrong)
    lines.append(f"| models tried | {cases.models:,} | {graphs.models:,} | {wrong} |")
    lines.append(f"| excluded | {cases.left_out.total():,} | {graphs.left_out.total():,} | |")
    reasons = [f"{count:,} {why}" for why, count in (cases.left_out + graphs.left_out).most_common()]
    lines += [f"\nLeft out: {', '.join(reasons)}."] if reasons else []
    return "\n".join(lines)


def begin() -> None:
    """In a worker: whoever started it is interrupted, and ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def of_node_cases(every: int, first: int) -> Tally:
    """In a worker: one node case in so many."""
    tally = Tally()
    over_node_cases(tally, every, first)
    return tally


def of_random_graphs(first: int, end: int) -> Tally:
    """In a worker: the graphs of a range of numbers."""
    tally = Tally()
    over_random_graphs(range(first, end), tally)
    return tally


def ranges(
    pool: ProcessPoolExecutor, first: int, end: int, ahead: int, deadline: float
) -> Iterator[tuple[int, Tally]]:
    """Where each range of graphs ends and what came of it, in order; none is begun after the deadline."""
    waiting: deque[tuple[int, Future[Tally]]] = deque()
    while first < end or waiting:
        while first < end and len(waiting) < ahead and time.monotonic() < deadline:
            upto = min(first + _AT_ONCE, end)
            waiting.append((upto, pool.submit(of_random_graphs, first, upto)))
            first = upto
        if not waiting:
            return
        upto, future = waiting.popleft()
        yield upto, future.result()


def end_workers() -> None:
    """Ends those that are at work; idle ones end with their pool."""
    for worker in active_children():
        worker.terminate()


def main() -> int:
    """Tries, and prints what is wrong as it happens."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=100_000, help="random graphs")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="stop after so many seconds")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--node-cases", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    deadline, end = time.monotonic() + options.limit_s, options.first + options.graphs
    cases, graphs, done, code = Tally(), Tally(), options.first, 0
    pool = ProcessPoolExecutor(options.workers, get_context("spawn"), begin)
    try:
        if options.node_cases:
            parts = [pool.submit(of_node_cases, options.workers, part) for part in range(options.workers)]
            for part in parts:
                cases.add(part.result())
                print(*part.result().wrong, sep="\n", flush=True)
        for upto, tally in ranges(pool, options.first, end, 2 * options.workers, deadline):
            done = upto
            graphs.add(tally)
            print(*tally.wrong, sep="\n", end="\n" if tally.wrong else "", flush=True)
    except KeyboardInterrupt:
        code = 130
        end_workers()
    except BrokenProcessPool:
        print(f"a worker died at graphs {done} to {done + 2 * options.workers * _AT_ONCE}, or in a node case")
        code = 1
    except BaseException:
        end_workers()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    if done < end:
        print(f"not all were tried; go on with --first {done}")
    print(table(cases, graphs))
    return code or int(bool(cases.wrong or graphs.wrong))


if __name__ == "__main__":
    sys.exit(main())
