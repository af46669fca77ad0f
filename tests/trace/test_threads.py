"""What a node's thread did in the thread pool: each nanosecond is counted once, and each helper where it helped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from direct_count import answers
from ortune.records import ProfileResult, TraceInfo
from ortune.trace.attribution import attribute
from ortune.trace.export import write
from ortune.trace.ort_profile import read_profile
from ortune.trace.table import ABSENT
from trace_files import node, profile, run

SPANS = ("Distribution", "DistributionEnqueue", "Wait", "WaitRevoke")


def pooled(
    name: str, start: int, took: int, spans: tuple[int, ...], pieces: dict[str, int]
) -> dict[str, Any]:
    """A node with its thread's spans in the pool, and what the pool's threads ran since the profile began."""
    stats = {
        "main_thread": {**dict(zip(SPANS, spans, strict=True)), "Run": 1},
        "sub_threads": {thread: {"num_run": n, "core": 0} for thread, n in pieces.items()},
    }
    return node(name, "Conv", start, took, thread_scheduling_stats=stats)


def test_spans_that_lie_in_each_other_are_counted_once(tmp_path: Path) -> None:
    path = profile(tmp_path / "p.json", pooled("c", 10, 100, (20, 7, 30, 4), {"5": 1}), run(0, 120))
    trace = read_profile(path)
    # The 7 us of handing work to the pool are a part of the 20, the 4 of taking it back one of the 30.
    assert (trace.wait_ns.tolist(), trace.imbalance_ns.tolist()) == ([50_000], [30_000])
    counted = answers(path.read_bytes())
    assert (counted["wait_ns"], counted["imbalance_ns"]) == (50_000, 30_000)
    found = attribute(trace, range(1))
    assert {c.name: c.ns for c in found.categories()}["thread-wait"] == 50_000
    assert found.imbalance.tolist() == [[30_000]]


def test_a_parallel_section_ends_outside_of_its_loops(tmp_path: Path) -> None:
    trace = read_profile(
        profile(tmp_path / "p.json", pooled("lstm", 10, 100, (3, 0, 0, 6), {"5": 1}), run(0, 120))
    )
    assert (trace.wait_ns.tolist(), trace.imbalance_ns.tolist()) == ([9_000], [6_000])


def test_helpers_are_those_whose_counts_rise(tmp_path: Path) -> None:
    idle = "thread::id of a non-executing thread"
    trace = read_profile(
        profile(
            tmp_path / "p.json",
            pooled("a", 1, 5, (1, 0, 1, 0), {"5": 1, idle: 0}),
            pooled("b", 10, 5, (0, 0, 0, 0), {"5": 1, idle: 0}),
            pooled("c", 20, 5, (1, 0, 1, 0), {"5": 4, "6": 1}),
            node("d", "Relu", 30, 5),
            run(0, 40),
        )
    )
    assert trace.helpers.tolist() == [1, 0, 2, ABSENT]
    assert trace.pieces == (4, 1)


def test_the_pool_survives_an_export(tmp_path: Path) -> None:
    events = [
        pooled("a", 1, 50, (10, 2, 20, 3), {"5": 2, "6": 9}),
        pooled("b", 60, 9, (1, 0, 2, 0), {"5": 3, "6": 9}),
    ]
    trace = read_profile(profile(tmp_path / "p.json", *events, run(0, 90)))
    result = ProfileResult(
        trace=TraceInfo(path="", format="", n_events=3, n_runs=1), n_runs=1, wall_ns=1.0, categories=()
    )
    write("chrome", trace, result, tmp_path / "q.json")
    again = read_profile(tmp_path / "q.json")
    for column in ("wait_ns", "imbalance_ns", "helpers"):
        assert np.array_equal(getattr(again, column), getattr(trace, column)), column
