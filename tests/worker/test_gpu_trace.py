"""Kernels of an NVIDIA GPU among the nodes of a profile: layouts of records, who started what, and what is written."""

from __future__ import annotations

import ast
import ctypes
import json
from pathlib import Path
from typing import Any

import pytest

from ortune.trace.read import read_trace
from ortune.trace.table import ABSENT
from ortune.worker import gpu_trace
from ortune.worker.gpu_trace import GpuTrace

START_NS = 1_700_000_000_000_000_000
"""When the profile's clock began, on the system's."""


def node(name: str, ts: int, dur: int, op: str = "Conv") -> dict[str, Any]:
    args = {"op_name": op, "provider": "CUDAExecutionProvider", "node_index": "0"}
    return {
        "cat": "Node",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "dur": dur,
        "ph": "X",
        "name": f"{name}_kernel_time",
        "args": args,
    }


def session(name: str, ts: int, dur: int) -> dict[str, Any]:
    return {"cat": "Session", "pid": 1, "tid": 1, "ts": ts, "dur": dur, "ph": "X", "name": name, "args": {}}


class Tracer:
    """CUPTI's library, as far as it is called when a profile is written."""

    def cuptiActivityDisable(self, kind: int) -> int:  # noqa: N802
        return 0

    def cuptiActivityFlushAll(self, flag: int) -> int:  # noqa: N802
        return 0


class Recorded(GpuTrace):
    """One whose records are given: times in microseconds since the profile began."""

    def __init__(self, calls: dict[int, float], works: list[dict[str, Any]]) -> None:
        super().__init__()
        self._library, self._ahead_ns = Tracer(), 500
        at = {number: START_NS - 500 + round(1000 * us) for number, us in calls.items()}
        told = [{**work, "start": START_NS - 500 + round(1000 * work["start"])} for work in works]
        self._found = at, told

    def _records(self) -> tuple[dict[int, int], list[dict[str, Any]]]:
        return self._found


def work(name: str, start: float, ns: int, correlation: int, n_bytes: int | None = None) -> dict[str, Any]:
    return {"name": name, "start": start, "ns": ns, "bytes": n_bytes, "stream": 7, "correlation": correlation}


def test_heads_of_records_lie_where_the_headers_of_cuda_have_them() -> None:
    offsets = {
        gpu_trace._Kernel: {
            "start": 16,
            "end": 24,
            "stream": 48,
            "correlation": 92,
            "grid_id": 96,
            "name": 104,
        },
        gpu_trace._Copy: {"way": 4, "bytes": 8, "start": 16, "end": 24, "stream": 40, "correlation": 44},
        gpu_trace._Call: {"start": 8, "end": 16, "thread": 28, "correlation": 32},
    }
    for record, fields in offsets.items():
        assert {name: getattr(record, name).offset for name in fields} == fields
    assert ctypes.sizeof(gpu_trace._Kernel) == 112


def test_each_kernel_stands_behind_the_node_that_started_it(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    events = [
        session("model_loading_uri", 0, 90),
        node("a", 100, 20), node("inner", 130, 10), node("loop", 125, 40, "Loop"),
        session("model_run", 95, 100),
    ]  # fmt: skip
    path.write_text(json.dumps(events))
    calls = {1: 110.0, 2: 135.5, 3: 150.0, 4: 97.0}
    works = [
        work("Memcpy HtoD", 98.0, 700, 4, 4096),
        work("gemm", 300.0, 1500, 1),  # the GPU was behind: who started it tells, not when it ran
        work("relu", 302.0, 900, 2),
        work("add", 304.0, 800, 3),
    ]
    Recorded(calls, works).write_into(str(path), START_NS)
    trace = read_trace(path)
    kernels = trace.kernels
    names = [trace.name[row] if row >= 0 else "" for row in kernels.row]
    assert dict(zip(map(kernels.name.__getitem__, range(len(names))), names, strict=True)) == {
        "gemm": "a", "relu": "inner", "add": "loop", "Memcpy HtoD": "",
    }  # fmt: skip
    assert sorted(kernels.duration_ns) == [700, 800, 900, 1500]
    assert sorted(kernels.bytes) == [ABSENT, ABSENT, ABSENT, 4096]
    assert kernels.start_ns.max() == 304_000
    assert not any(" kernels " in text for text in trace.missing)


def test_without_the_tracer_a_profile_stays_as_it_is_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "profile.json"
    path.write_text("[]")
    monkeypatch.setattr(gpu_trace, "library", lambda: str(tmp_path / "none.so"))
    tracer = GpuTrace()
    tracer.start()
    tracer.write_into(str(path), START_NS)
    assert "CUPTI cannot be loaded" in tracer.problem and "none.so" in tracer.problem
    assert path.read_text() == "[]"


def test_the_library_of_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "site" / "nvidia" / "cu13" / "lib" / "libcupti.so.13"
    toolkit = tmp_path / "cuda" / "extras" / "CUPTI" / "lib64" / "libcupti.so"
    for file in (own, toolkit):
        file.parent.mkdir(parents=True)
        file.touch()
    monkeypatch.setattr("sys.path", [str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert gpu_trace.library() == str(own)
    own.unlink()
    assert gpu_trace.library() == str(toolkit)


def test_names_of_kernels_are_as_they_were_written() -> None:
    assert gpu_trace.demangled(b"_ZN3ort3addEif") == "ort::add(int, float)"
    assert gpu_trace.demangled(b"sm90_gemm") == "sm90_gemm"
    assert gpu_trace.demangled(b"_Znonsense") == "_Znonsense"


def test_it_keeps_to_python_3_8() -> None:
    ast.parse(Path(gpu_trace.__file__).read_text(), feature_version=(3, 8))
