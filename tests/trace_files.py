"""Profiles written by hand, whose sums are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def node(
    name: str, op: str, start: float, took: float, thread: int = 1, wait: int | None = None, **args: Any
) -> dict[str, Any]:
    """One execution of a node as ONNX Runtime writes it, microseconds."""
    arguments = {"op_name": op, "provider": "CPUExecutionProvider", **args}
    if wait is not None:
        main = {"Distribution": 0, "DistributionEnqueue": 0, "Run": 1, "Wait": wait, "WaitRevoke": 0}
        arguments["thread_scheduling_stats"] = {"main_thread": main, "sub_threads": {"7": {"num_run": 1}}}
    return {
        "cat": "Node", "pid": 1, "tid": thread, "ts": start, "dur": took, "ph": "X",
        "name": f"{name}_kernel_time", "args": arguments,
    }  # fmt: skip


def run(start: float, took: float, thread: int = 1) -> dict[str, Any]:
    """One run of the model."""
    return {
        "cat": "Session", "pid": 1, "tid": thread, "ts": start, "dur": took, "ph": "X", "name": "model_run",
        "args": {},
    }  # fmt: skip


def profile(path: Path, *events: dict[str, Any]) -> Path:
    """A file that holds them."""
    lines = ",\n".join(json.dumps(each) for each in events)
    path.write_text(f"[\n{lines}\n]\n")
    return path


RUNS = 4
FORMULA = '=HYPERLINK("x")'
HOSTILE = '</script><script>alert(1)</script>,"[red]'


def synthetic() -> str:
    """A profile with kernels, sizes, thread statistics, a hostile name and a node of no run."""

    def node(name: str, start: int, duration: int, **args: Any) -> dict[str, Any]:
        return {"cat": "Node", "pid": 1, "tid": 7, "ts": start, "dur": duration, "ph": "X",
                "name": f"{name}_kernel_time", "args": {"op_name": "Conv", "provider": "CUDA", **args}}  # fmt: skip

    def kernel(name: str, start: int) -> dict[str, Any]:
        return {
            "cat": "Kernel",
            "pid": -1,
            "tid": 0,
            "ts": start,
            "dur": 5,
            "ph": "X",
            "name": name,
            "args": {},
        }

    stats = {"main_thread": {"Wait": 3, "Distribution": 1}, "sub_threads": {"1": {"num_run": 2}}}
    events = [
        kernel("before", 1),
        node("stray", 2, 3),
        node("a", 10, 20, output_size="64", mem_bytes_in_use="100", mem_arena_held="256", node_index="0",
             thread_scheduling_stats=stats, input_type_shape=[{"float": [1, 3]}]),
        kernel("gemm", 12),
        kernel("gemm", 18),
        node(HOSTILE, 30, 10),
        {"cat": "Session", "pid": 1, "tid": 7, "ts": 10, "dur": 40, "ph": "X", "name": "model_run", "args": {}},
        node("a", 60, 22),
        kernel("copy", 63),
        node(FORMULA, 83, 10),
        {"cat": "Session", "pid": 1, "tid": 7, "ts": 60, "dur": 50, "ph": "X", "name": "model_run", "args": {}},
    ]  # fmt: skip
    return "[\n" + ",\n".join(json.dumps(event) for event in events) + "\n]\n"
