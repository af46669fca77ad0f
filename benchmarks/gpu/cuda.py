"""What each setting of CUDA brings, and what tune finds, on a machine with a GPU of NVIDIA. Run by hand.

    python benchmarks/gpu/cuda.py [--runtime PATH] [--part settings|tune|all] [--budget S]

PATH is an interpreter with onnxruntime-gpu; without it ``ortune runtime add cuda`` makes one. Prints the table of
docs/gpu.md: each row is one comparison in turns, of one model with a setting against the same without it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from models import MODELS

import ortune
from ortune.errors import OrtuneError
from ortune.records import Comparison, ProfileResult
from ortune.show.numbers import duration, percent

BOUND = "call=device_binding"
# Model, what is asked, settings of the base, settings of the other side.
SETTINGS = (
    ("resnet50", "workspace within 32 MB", (), ("cuda_conv_max_workspace=0",)),
    ("resnet50", "heuristic algorithm search", (), ("cuda_conv_algo_search=heuristic",)),
    ("resnet50", "channels last", (), ("cuda_nhwc=1",)),
    ("resnet50", "float32 in place of TF32", (), ("cuda_tf32=0",)),
    ("resnet50", "buffers on the GPU", (), (BOUND,)),
    ("resnet50", "CUDA graph, buffers on the GPU", (), ("cuda_graph=1", BOUND)),
    ("conv1d", "padded as [N,C,1,D]", (), ("cuda_conv1d_pad=1",)),
    ("conv1d", "channels last", (), ("cuda_nhwc=1",)),
    ("conv1d", "CUDA graph, buffers on the GPU", (), ("cuda_graph=1", BOUND)),
    ("bert", "CUDA graph, buffers on the GPU", (), ("cuda_graph=1", BOUND)),
    ("bert", "float32 in place of TF32", (), ("cuda_tf32=0",)),
)
AGAINST_CPU = ("mlp", "conv1d", "bert")


def speed(found: Comparison | None) -> str:
    """The gain with its interval, as a speed-up: "1.77x (1.70-1.85)"."""
    if found is None or found.ratio_low is None or found.ratio_high is None:
        return "not measured"
    return f"{1 / found.ratio:.2f}x ({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f})"


def settings(folder: Path, runtime: str, budget_s: float) -> Iterator[str]:
    """A row for each setting, and for the GPU beside the CPU."""
    rows = [(model, what, {"target": "cuda", "a_set": a, "b_set": b}) for model, what, a, b in SETTINGS]
    rows += [(model, "CUDA beside the CPU", {"a_target": "cpu", "b_target": "cuda"}) for model in AGAINST_CPU]
    for name, what, sides in rows:
        options = {"runtime": runtime, "budget": budget_s, "no_why": True, "store": folder / "store", **sides}
        try:
            result = ortune.compare(folder / f"{name}.onnx", **options).result
        except OrtuneError as error:
            yield f"| {name} | {what} | | {error.what.splitlines()[0][:100]} | |"
            continue
        a, b = result.base_figures, result.new_figures
        times = f"{duration(a.latency_ns)} -> {duration(b.latency_ns)}" if a and b else ""
        l2 = result.outputs.relative_l2
        outputs = "identical" if l2 == 0 else f"{l2:.0e}"
        verdict = result.comparison.verdict if result.comparison else result.outputs.what
        yield f"| {name} | {what} | {times} | {speed(result.comparison)}, {verdict} | {outputs} |"


def profiles(folder: Path, runtime: str) -> Iterator[str]:
    """What the GPU does in a run, by CUPTI: kernels, copies, and how much of the run that is."""
    for name in ("resnet50", "conv1d", "bert"):
        options = {"target": "cuda", "runtime": runtime, "no_peak": True, "store": folder / "store"}
        result = ortune.profile(folder / f"{name}.onnx", budget=15.0, **options).result
        yield f"| {name} | {' | '.join(_on_gpu(result))} |"


def _on_gpu(result: ProfileResult) -> list[str]:
    plain_ns = result.wall_ns / (result.slowdown_ratio or 1.0)
    kernels_ns = sum(result.device_ns.values())
    copies_ns = sum(each.time_ns for each in result.transfers)
    first = max(result.nodes, key=lambda node: node.device_ns or 0.0)
    share = percent((first.device_ns or 0.0) / kernels_ns) if kernels_ns else ""
    busy = percent(kernels_ns / plain_ns, 0)
    return [
        duration(plain_ns),
        f"{duration(kernels_ns)} ({busy})",
        duration(copies_ns),
        f"{first.op_type} ({share})",
    ]


def tuned(folder: Path, runtime: str, budget_s: float) -> Iterator[str]:
    """What tune finds on CUDA, within 1 % of the outputs."""
    for name in ("resnet50", "conv1d", "bert"):
        options = {"runtime": runtime, "target": "cuda", "tolerance": 0.01, "bundle": True, "force": True}
        answer = ortune.tune(
            folder / f"{name}.onnx", budget=budget_s, output=folder, store=folder / "store", **options
        )
        bundle = folder / f"{name}.ortune"
        loads = ""
        if (bundle / "load.py").is_file():
            command = [runtime or sys.executable, "load.py"]
            ran = subprocess.run(command, cwd=bundle, capture_output=True, text=True, check=False)
            loads = next((line for line in ran.stdout.splitlines() if "max difference" in line), "failed")
        yield f"| {name} | {answer.result.headline} | {answer.result.winner.describe()} | {loads} |"


def main() -> None:
    """Prints the rows as they are measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", default="cuda")
    parser.add_argument("--part", default="all", choices=("all", "settings", "profiles", "tune"))
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds for each comparison; tune takes three times it"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for make in MODELS.values():
            make(folder)
        parts = {
            "profiles": profiles(folder, arguments.runtime),
            "settings": settings(folder, arguments.runtime, arguments.budget),
            "tune": tuned(folder, arguments.runtime, 3 * arguments.budget),
        }
        for name, rows in parts.items():
            if arguments.part in ("all", name):
                print(f"\n{name}", flush=True)
                for row in rows:
                    print(row, flush=True)


if __name__ == "__main__":
    main()
