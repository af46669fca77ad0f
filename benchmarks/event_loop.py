"""The event-loop delay that ortune reports, against a plain program with ``perf_hooks``, and Node.js against Python.

    python benchmarks/event_loop.py MODEL.onnx --input NAME:1x3x224x224 [--rounds 10] [--runs 100]

Each round runs the plain program and a trial of ortune, in random order, on the same inputs of the same model. The p99
of the delay is compared over rounds, and the latency of the trial with that of the plain program. Then trials of Python
and of Node.js take turns: latency, threads and the cost of a call, with a model that does nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from ortune import targets
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Measured, Plan, TrialRequest
from ortune.runtimes import node, runtimes
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask
from ortune.targets.turns import Turns

PLAIN = """
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { createRequire } from "node:module";
const [folder, model, name, dims, runs] = process.argv.slice(1);
const ort = createRequire(folder + "/x.js")("onnxruntime-node"), shape = JSON.parse(dims);
const session = await ort.InferenceSession.create(model);
const data = new Float32Array(shape.reduce((a, b) => a * b, 1)).fill(0.5);
const feeds = { [name]: new ort.Tensor("float32", data, shape) };
for (let i = 0; i < 20; i++) await session.run(feeds);
const delay = monitorEventLoopDelay({ resolution: 1 }), taken = [];
delay.enable();
await new Promise((done) => setTimeout(done, 3));
for (let i = 0; i < Number(runs); i++) {
  const start = performance.now();
  await session.run(feeds);
  taken.push(performance.now() - start);
}
await new Promise((done) => setTimeout(done, 2));
delay.disable();
taken.sort((a, b) => a - b);
const ms = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, latency: taken[taken.length >> 1] };
console.log(JSON.stringify(ms));
"""


def plain(folder: str, program: str, model: Path, name: str, dims: list[int], runs: int) -> dict[str, float]:
    """Return what the plain program prints, in milliseconds."""
    words = [
        program,
        "--input-type=module",
        "-e",
        PLAIN,
        folder,
        str(model),
        name,
        json.dumps(dims),
        str(runs),
    ]
    return json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def trials(folder: Path, model: Path, names: list[str], turns: Turns) -> list[Measured]:
    """Return trials of the model on targets, alive together."""
    runtime = runtimes.find_runtime(sys.executable)
    tasks = []
    for number, name in enumerate(names):
        place = Path(tempfile.mkdtemp(dir=folder))
        plan = Plan(providers=targets.find(name).providers)
        request = TrialRequest(
            model=str(model), feeds=(FeedRef(name=str(number), path=str(folder / "feeds")),), warmup_runs=20
        )
        tasks.append(TrialTask(plan=plan, runtime=runtime, request=request, folder=place, scratch=folder))
    found = run(tasks, Machine(), turns) or ()
    for outcome in found:
        assert isinstance(outcome, Measured), outcome
    return [outcome for outcome in found if isinstance(outcome, Measured)]


def empty(path: Path, name: str, dims: list[int]) -> Path:
    """Write a model that copies its input: a run of it is the cost of a call."""
    x = helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)
    graph = helper.make_graph([helper.make_node("Identity", [name], ["y"])], "empty", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def main() -> None:
    """Print both comparisons."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=100)
    asked = parser.parse_args()
    name, _, sizes = asked.input.rpartition(":")
    dims = [int(size) for size in sizes.split("x")]
    found, rng = node.find(), random.Random(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_feeds(folder / "feeds", {name: np.full(dims, 0.5, np.float32)})
        ratios = []
        for _ in range(asked.rounds):
            both: dict[str, dict[str, float]] = {}
            for side in rng.sample(["plain", "ortune"], 2):
                if side == "plain":
                    both[side] = plain(found.folder, found.program, asked.model, name, dims, asked.runs)
                    continue
                done = trials(folder, asked.model, ["node"], Turns(runs=asked.runs, unmeasured=1, rounds=1))[
                    0
                ].done
                loop = done.event_loop
                assert loop is not None
                latency = float(np.median(done.cases[0].latency_ns)) / 1e6
                both[side] = {"p50": loop.p50_ns / 1e6, "p99": loop.p99_ns / 1e6, "latency": latency}
            ratios.append({key: both["ortune"][key] / both["plain"][key] for key in both["plain"]})
            print({side: {k: round(v, 3) for k, v in both[side].items()} for side in ("plain", "ortune")})
        for key in ratios[0]:
            values = [ratio[key] for ratio in ratios]
            print(f"{key}: ortune / plain, median of {len(values)} rounds: {np.median(values):.3f}")
        for label, path in (("model", asked.model), ("call alone", empty(folder / "empty.onnx", name, dims))):
            turns = Turns(runs=max(4, asked.runs // 10), unmeasured=1, rounds=10)
            for target, trial in zip(
                ("cpu", "node"), trials(folder, path, ["cpu", "node"], turns), strict=True
            ):
                done = trial.done
                p50 = np.median(done.cases[0].latency_ns) / 1e6
                print(
                    f"{label}: {target} onnxruntime {done.ort_version}: p50 {p50:.3f} ms, {done.threads} threads added"
                )


if __name__ == "__main__":
    main()
