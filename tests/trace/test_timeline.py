"""The input of the timeline: every execution in tracks without overlap, and what is left out of a long trace."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortune.trace.ort_profile import read_profile
from ortune.trace.table import NO_RUN, Trace
from ortune.trace.timeline import timeline_data


def column(data: bytes) -> list[int]:
    return np.frombuffer(data, dtype="<u4").tolist()


def test_timeline_holds_every_execution_in_tracks_without_overlap(trace: Trace) -> None:
    found = timeline_data(trace)
    starts, durations, names = (
        column(c) for c in (found.start_ticks, found.duration_ticks, found.name_codes)
    )
    assert not found.n_left_out and not found.note and found.tick_ns == 1000
    assert len(starts) == len(trace) + len(trace.kernels.row) + trace.n_runs
    drawn = Counter((found.names[n], d * found.tick_ns) for n, d in zip(names, durations, strict=True))
    expected = Counter(zip(trace.name, trace.duration_ns.tolist(), strict=True))
    expected += Counter(zip(trace.kernels.name, trace.kernels.duration_ns.tolist(), strict=True))
    expected += Counter((f"run {n}", ns) for n, ns in enumerate(trace.run_ns.tolist()))
    assert drawn == expected
    first = 0
    for track in found.tracks:
        assert track.first == first
        first += track.count
        rows = slice(track.first, first)
        ends = [s + d for s, d in zip(starts[rows], durations[rows], strict=True)]
        assert all(end <= start + 1 for end, start in zip(ends, starts[rows][1:], strict=False))
    assert first == len(starts) and min(starts) == 0


def test_timeline_puts_bodies_below_their_node(trace: Trace) -> None:
    found = timeline_data(trace)
    names = column(found.name_codes)
    depth = {}
    for track in found.tracks:
        for row in range(track.first, track.first + track.count):
            depth[found.names[names[row]]] = (track.lane, track.depth)
    if "product" not in depth:
        assert depth["gemm"][0] == "device" and depth["run 0"][0] == "runs"
        return
    assert depth["if"][1] < depth["loop"][1] < depth["product"][1]
    assert depth["if"][0] == depth["loop"][0] == depth["product"][0]


def test_timeline_of_a_long_trace_is_its_last_runs(trace: Trace) -> None:
    whole = len(trace) + len(trace.kernels.row) + trace.n_runs
    part = timeline_data(trace, most=whole - 1)
    outside = int((trace.run == NO_RUN).sum())
    first = 0 if outside else 1  # without what is in no run, all runs fit
    assert part.note.startswith("the last" if first else "all runs") and part.n_left_out > 0
    assert {f"run {n}" for n in range(first, trace.n_runs)} <= set(part.names)
    assert first == 0 or "run 0" not in part.names
    small = timeline_data(trace, most=2)
    assert small.note.startswith("the first 1 ") and len(small.start_ticks) == 8


def test_timeline_of_nothing_and_of_what_cannot_be_drawn(tmp_path: Path) -> None:
    def read(events: list[dict[str, Any]]) -> Trace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(events))
        return read_profile(path)

    empty = timeline_data(read([{"cat": "Session", "name": "model_loading", "ts": 1, "dur": 2}]))
    assert empty.tracks == () and empty.start_ticks == b""
    far = [{"cat": "Node", "name": f"n{i}_kernel_time", "tid": 1, "ts": ts, "dur": 1}
           for i, ts in enumerate([-(2**52), 0, 2**52])]  # fmt: skip
    found = timeline_data(read(far))
    starts = column(found.start_ticks)
    assert starts[0] == 0 and starts[1] * found.tick_ns == pytest.approx(2**52 * 1000, rel=1e-6)
    assert starts[2] == pytest.approx(2 * starts[1], abs=1)
    at_once = [{"cat": "Node", "name": "n_kernel_time", "tid": 1, "ts": 1, "dur": 100 + i} for i in range(40)]
    crowded = timeline_data(read(at_once))
    assert len(crowded.tracks) == 24 and crowded.n_left_out == 16
