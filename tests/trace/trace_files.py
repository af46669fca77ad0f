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
