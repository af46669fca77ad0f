"""Answers about a trace, counted directly over its JSON with the plainest means: what the reader's are held against.

Nothing of ortune is used. Times are in nanoseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

FLOW = {"If", "Loop", "Scan"}
CATEGORY = {
    "If": "control-flow",
    "Loop": "control-flow",
    "Transpose": "casts-and-layout",
    "ReorderInput": "casts-and-layout",
    "ReorderOutput": "casts-and-layout",
    "Identity": "shape-arithmetic",
    "MemcpyToHost": "device-copies",
    "MemcpyFromHost": "device-copies",
}
"""Operators of the golden traces that are not plain kernels; Identity passes on the one condition of a Loop."""


def lines_of(data: bytes) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each event in a text, and whether a comma follows."""
    for line in data.decode().splitlines():
        if (start := line.find('{"cat"')) < 0 or (end := line.rfind("}") + 1) <= start:
            continue
        try:
            yield json.loads(line[start:end]), line[end:].startswith(",")
        except ValueError:
            continue


def kernel_lines(data: bytes) -> list[dict[str, Any]]:
    """Kernels that onnxruntime-web 1.17 and later prints."""
    named = re.findall(
        r'kernel "\d+\|([^|"]*)\|([^|"]*)\|([^|"]*)" .* start time: (\d+) ns, .* time: (\d+) ns',
        data.decode(),
    )
    return [
        {"op": op, "name": name, "program": program, "start": int(start), "took": int(took)}
        for op, name, program, start, took in named
    ]


def own_times(nodes: list[dict[str, Any]]) -> list[int]:
    """Microseconds of each node without those of the nodes in its bodies: every pair is compared."""
    own = [node["dur"] for node in nodes]
    for inner in nodes:
        around = [
            i for i, outer in enumerate(nodes)
            if outer is not inner and outer["args"]["op_name"] in FLOW and outer["tid"] == inner["tid"]
            and outer["ts"] <= inner["ts"] < outer["ts"] + outer["dur"] and outer["dur"] >= inner["dur"]
        ]  # fmt: skip
        if around:
            own[min(around, key=lambda i: nodes[i]["dur"])] -= inner["dur"]
    return [max(0, each) for each in own]


def busy_us(run: dict[str, Any], nodes: list[dict[str, Any]]) -> int:
    """Microseconds of a run in which some node is at work: each microsecond is looked at."""
    at_work = set()
    for node in nodes:
        if run["ts"] <= node["ts"] <= run["ts"] + run["dur"]:
            at_work |= set(range(node["ts"], node["ts"] + node["dur"]))
    return len(at_work)


def answers(data: bytes) -> dict[str, Any]:
    """Everything that is counted."""
    events = [event for event, _ in lines_of(data)]
    commas = [comma for _, comma in lines_of(data)]
    kernels = kernel_lines(data)
    nodes = [e for e in events if e["cat"] == "Node" and e["name"].endswith("_kernel_time")]
    runs = sorted((e for e in events if e["name"] == "model_run"), key=lambda e: e["ts"])
    own = own_times(nodes)
    operators: dict[str, list[int]] = {}
    categories: dict[str, int] = {}
    for node, us in zip(nodes, own, strict=True):
        op = node["args"]["op_name"]
        row = operators.setdefault(f"{op} {node['args']['provider']}", [0, 0, 0])
        for i, more in enumerate((1, 1000 * node["dur"], 1000 * us)):
            row[i] += more
        kind = CATEGORY.get(op, "kernels")
        categories[kind] = categories.get(kind, 0) + 1000 * us
    waits, ran = [], []
    for node in nodes:
        stats = node["args"].get("thread_scheduling_stats")
        if isinstance(stats, dict):
            # DistributionEnqueue is a part of Distribution, WaitRevoke one of Wait: these models have no operator that
            # runs several loops in one parallel section.
            waits.append([1000 * stats["main_thread"][key] for key in ("Distribution", "Wait")])
            ran.append({id_: helper["num_run"] for id_, helper in stats["sub_threads"].items()})
    device = [e for e in events if e["cat"] == "Kernel" or (e["cat"] == "Api" and e["tid"] == -1)]
    return {
        "events": len(events) + len(kernels),
        "complete": not commas or not commas[-1],
        "nodes": len(nodes),
        "runs_ns": [1000 * run["dur"] for run in runs],
        "busy_ns": [1000 * busy_us(run, nodes) for run in runs],
        "threads": len({node["tid"] for node in nodes}),
        "operators": operators,
        "categories_ns": categories,
        "wait_ns": sum(map(sum, waits)) if waits else None,
        "imbalance_ns": sum(late for _, late in waits) if waits else None,
        "helpers": sum(
            n > max((before.get(id_, 0) for before in ran[:i]), default=0)
            for i, now in enumerate(ran)
            for id_, n in now.items()
        ),
        "session": sorted({e["name"] for e in events if e["cat"] == "Session"}),
        "device_kernels": len(device) + len(kernels),
        "device_ns": sum(round(1000 * e["dur"]) for e in device) + sum(k["took"] for k in kernels),
    }
