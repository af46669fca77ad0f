"""Records the A/A streams in ``data/``: real processes that time ONNX Runtime on a small model.

Run by hand, not by the tests::

    python tests/stats/record.py tests/stats/data/aa_gemm.json --blocks 120

Each block holds three trials in random order, one fresh process each: ``base``, ``twin`` (the same thing
again) and ``spike`` (the same plus a busy wait of 5 % of the run just timed, recorded). What is kept is the
within-process median, p10, mean and p95 of each trial, in nanoseconds, and the recorded wait's log ratio.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ARMS = {"base": 0.0, "twin": 0.0, "spike": 0.05}
FEATURES = 256


def write_model(path: Path) -> None:
    """Write a small two-layer perceptron whose run takes about a millisecond."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal((a, b)) / a**0.5).astype(np.float32), name)
        for name, a, b in (("w1", FEATURES, 1024), ("w2", 1024, FEATURES))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, FEATURES])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def trial(model: str, runs: int, wait_ratio: float) -> None:
    """Measure once and print the figures; the body of the child process."""
    import onnxruntime as ort

    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    feeds = {"x": np.random.default_rng(1).standard_normal((64, FEATURES)).astype(np.float32)}
    for _ in range(10):
        session.run(None, feeds)
    latency, wait = [], []
    for _ in range(runs):
        start = time.perf_counter_ns()
        session.run(None, feeds)
        ran = time.perf_counter_ns() - start
        until = start + ran + int(ran * wait_ratio)
        if wait_ratio:
            while time.perf_counter_ns() < until:
                pass
        total = time.perf_counter_ns() - start if wait_ratio else ran
        latency.append(total)
        wait.append(np.log(total / ran))
    values = np.array(latency)
    print(
        json.dumps(
            {
                "median_ns": float(np.median(values)),
                "p10_ns": float(np.quantile(values, 0.1)),
                "mean_ns": float(values.mean()),
                "p95_ns": float(np.quantile(values, 0.95)),
                "wait_log_ratio": float(np.median(wait)),
            }
        )
    )


def main() -> None:
    """Record the blocks and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path)
    parser.add_argument("--blocks", type=int, default=120)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trial", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.trial is not None:
        trial(str(given.target), given.runs, given.trial)
        return
    order = random.Random(given.seed)
    arms: dict[str, dict[str, list[float]]] = {arm: {} for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "perceptron.onnx"
        write_model(model)
        for _ in range(given.blocks):
            for arm in order.sample(sorted(ARMS), len(ARMS)):
                command = [sys.executable, __file__, str(model), "--runs", str(given.runs)]
                done = subprocess.run(
                    [*command, "--trial", str(ARMS[arm])], check=True, capture_output=True, text=True
                )
                for figure, value in json.loads(done.stdout).items():
                    arms[arm].setdefault(figure, []).append(round(value, 6))
    given.target.write_text(json.dumps({"blocks": given.blocks, "runs": given.runs, "arms": arms}) + "\n")


if __name__ == "__main__":
    main()
