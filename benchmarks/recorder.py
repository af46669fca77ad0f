"""What ``ortune record`` adds to a call: times with and without the recorder, for calls of 7 us, 130 us and 1 ms.

One process, one thread, one session. The recorded and the plain method call the same session in blocks of 64 calls by
turns, and the fastest block of each counts: what other programs do makes all others longer. The first calls of a place
are inspected in full, later ones once in 64.

python benchmarks/recorder.py [--blocks N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import onnx

from onnx_text import model_of
from ortune.recorder import doors

PROGRAM = """
import sys, time
import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_inference_collection as module
path = sys.argv[1]
options = ort.SessionOptions(); options.intra_op_num_threads = 1
session = ort.InferenceSession(path, options)
feed = {i.name: np.ones(i.shape, np.float32) for i in session.get_inputs()}
recorded = module.Session.run
plain = recorded.__wrapped__
def block(run, n):
    began = time.perf_counter_ns()
    for _ in range(n): run(session, None, feed)
    return (time.perf_counter_ns() - began) / n
print("first", block(recorded, 200) - block(plain, 200))
block(recorded, 1000)
pairs = [(block(plain, 64), block(recorded, 64)) for _ in range(int(sys.argv[2]))]
print(*map(min, zip(*pairs)))
"""
MODELS = {
    "7 us": "g (float[1] x) => (float[1] y) { y = Relu (x) }",
    "130 us": "g (float[96,96] x) => (float[96,96] y) { a = MatMul (x, x) b = MatMul (a, x) y = MatMul (b, x) }",
    "1 ms": "g (float[320,320] x) => (float[320,320] y) { a = MatMul (x, x) y = MatMul (a, x) }",
}


def measure(name: str, blocks: int) -> str:
    """A row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "recording").mkdir()
        (place / "app.py").write_text(PROGRAM, encoding="utf-8")
        onnx.save(model_of(MODELS[name]), place / "m.onnx")
        environment = doors.environment(place / "recording", doors.prepare(place), os.environ)
        done = subprocess.run(
            [sys.executable, place / "app.py", place / "m.onnx", str(blocks)],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
    (_, first), (plain, recorded) = (map(str, line.split()) for line in done.stdout.splitlines())
    plain_us, added_us = float(plain) / 1e3, (float(recorded) - float(plain)) / 1e3
    share = f"{100 * added_us / plain_us:.1f} %"
    return f"| {name} | {plain_us:.1f} us | {added_us:+.2f} us | {share} | {float(first) / 1e3:+.1f} us |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=400)
    asked = parser.parse_args()
    print("| call | without | added | share | added in the first 200 calls |\n|---|---|---|---|---|")
    for name in MODELS:
        print(measure(name, asked.blocks))


if __name__ == "__main__":
    main()
