"""Does a profile say the same beside four busy neighbours as alone? Run by hand; about half a minute a model.

    python benchmarks/profile_truths.py [light-resnet50 magika ...]

Each model is profiled with nothing else of ours running, and beside four processes that never rest. What a profile
says of the model must not follow the load: how near its kernels are to the machine's peak, what the profiler costs,
what bounds the kernels. Three figures are held against a direct count: operations (Conv, Gemm and MatMul from the
shapes that ONNX infers), the profiler's cost (two sessions of one process taking turns, the fastest run of each), and
the owners of the memory at the peak, which must sum to it.
"""

from __future__ import annotations

import contextlib
import math
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

import ortune
from common import model_path, running
from ortune import platform
from ortune.inputs.feed_files import read_feeds
from ortune.inputs.feeds import FeedValue
from ortune.measuring.input_options import InputOptions
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import SideText, resolve
from ortune.records import Plan, ProfileResult
from ortune.search.blocks import BASE
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine

MODELS = (
    "light-squeezenet", "light-resnet50", "light-shufflenet", "ppocrv2-cls", "ppocrv4-rec", "ppocrv4-det",
    "minilm-int8", "silero-vad", "magika", "oww-embedding",
)  # fmt: skip
LOAD = 4
ROUNDS, BATCH_NS = 12, 60e6
COUNTED = {"Conv", "Gemm", "MatMul"}


def profiled(model: Path, load: int, folder: Path) -> ProfileResult:
    """The model's profile beside that many processes that never rest."""
    with contextlib.ExitStack() as stack:
        for _ in range(load):
            stack.enter_context(running("while True: pass"))
        result = ortune.profile(
            model, no_wait=True, store=folder / "store", keep=folder / f"{load}.json"
        ).result
    assert isinstance(result, ProfileResult)
    return result


def fed_by_ortune(model: Path, folder: Path) -> dict[str, FeedValue]:
    """The values that ortune runs the model with."""
    side = resolve(SideText(text=str(model)), common=Plan(), scratch=folder)
    baseline = Measuring(side, InputOptions(), folder, SessionLog(None, ""), lambda text: None, Machine())
    baseline.find_inputs(120)
    return read_feeds(Path(baseline.arm(BASE).feeds[0].path))


def slowdown(model: Path, fed: dict[str, FeedValue], folder: Path) -> float:
    """A run that is profiled over one that is not: two sessions taking turns, the fastest run of each."""
    sessions = []
    for profiling in (True, False):
        options = onnxruntime.SessionOptions()
        options.enable_profiling = profiling
        options.profile_file_prefix = str(folder / "direct")
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        sessions.append(onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]))
    once = min(timed(sessions[1], fed) for _ in range(5))
    batch = max(3, int(BATCH_NS / once))
    fastest = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for i, session in enumerate(sessions):
            fastest[i] = min(fastest[i], *(timed(session, fed) for _ in range(batch)))
    return fastest[0] / fastest[1]


def timed(session: onnxruntime.InferenceSession, fed: dict[str, FeedValue]) -> float:
    """Nanoseconds of one run."""
    start = time.perf_counter_ns()
    session.run(None, fed)
    return time.perf_counter_ns() - start


def counted_flops(model: Path, fed: dict[str, FeedValue]) -> float | None:
    """Twice the multiplications of every Conv, Gemm and MatMul, from inferred shapes; None where one is open."""
    graph = onnx.load(model)
    for value in graph.graph.input:
        if value.name in fed:
            sizes = np.shape(fed[value.name])
            for dim, size in zip(value.type.tensor_type.shape.dim, sizes, strict=True):
                dim.dim_value = size
    graph = onnx.shape_inference.infer_shapes(graph, data_prop=True).graph
    shapes = {i.name: list(i.dims) for i in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = [d.dim_value for d in value.type.tensor_type.shape.dim]
    total = 0.0
    for node in graph.node:
        if node.op_type not in COUNTED:
            continue
        out, a, b = (shapes.get(name, [0]) for name in (node.output[0], *node.input[:2]))
        if not (out and a and b and all((*out, *a, *b))):  # a shape without sizes is one that nobody inferred
            return None
        if node.op_type == "Conv":
            inner = math.prod(b[1:])
        else:
            across = node.op_type == "Gemm" and any(x.name == "transA" and x.i for x in node.attribute)
            inner = a[0] if across else a[-1]
        total += 2.0 * math.prod(out) * inner
    return total


def ours(result: ProfileResult) -> float:
    """Operations of the nodes that stand for a Conv, Gemm or MatMul."""
    heavy = ("Conv", "Gemm", "MatMul")
    return sum(n.flops or 0.0 for n in result.nodes if any(word in n.op_type for word in heavy))


def bound(result: ProfileResult) -> str:
    """What bounds most of the kernels' fast time."""
    share: dict[str, float] = {}
    for node in result.nodes:
        if node.category == "kernels":
            share[node.bound] = share.get(node.bound, 0.0) + node.least_ns
    name = max(share, key=lambda kind: share[kind])
    return f"{name or 'not known'} {100 * share[name] / sum(share.values()):.0f} %"


def percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.0f} %"


def row(name: str, folder: Path) -> str:
    """One model, quiet and loaded; a Markdown row."""
    model = model_path(name)
    quiet, loaded = (profiled(model, load, folder) for load in (0, LOAD))
    near = [r.headroom.kernels_ratio if r.headroom else None for r in (quiet, loaded)]
    apart = "" if None in near else f"{100 * abs(near[0] - near[1]):.0f}"  # type: ignore[operator]
    least = ["at least " if r.headroom and r.headroom.kernels_least else "" for r in (quiet, loaded)]
    fed = fed_by_ortune(model, folder)
    counted, direct = counted_flops(model, fed), slowdown(model, fed, folder)
    memory = quiet.memory
    owners = (
        sum(o.bytes for o in memory.owners) / memory.total_bytes
        if memory and memory.total_bytes
        else math.nan
    )
    return (
        f"| {name} | {least[0]}{percent(near[0])} | {least[1]}{percent(near[1])} | {apart} "
        f"| {bound(quiet)} | {bound(loaded)} | {quiet.slowdown_ratio or 0:.2f} | {loaded.slowdown_ratio or 0:.2f} "
        f"| {direct:.2f} | {f'{ours(quiet) / counted:.3f}' if counted else ''} | {owners:.3f} |"
    )


def main() -> None:
    """Prints the table, a row a model as it ends."""
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.host().cpu}, {platform.host().effective_cpus} CPUs\n")
    print(
        "| model | kernels of peak, load 0 | load 4 | points apart | most of the kernels, load 0 | load 4 "
        "| profiled / not, load 0 | load 4 | counted directly | operations / counted | owners / peak |"
    )
    print("|---|---:|---:|---:|---|---|---:|---:|---:|---:|---:|", flush=True)
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory(prefix="ortune-bench-") as folder:
            print(row(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
