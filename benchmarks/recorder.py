"""What ``ortune record`` adds to a call: times with and without the recorder, for calls of 7 us, 130 us and 1 ms.

One process, one thread, one session. The recorded and the plain method call the same session in blocks of 64 calls by
turns, and the fastest block of each counts: what other programs do makes all others longer. The first calls of a place
are inspected in full, later ones once in 64.

A program of C is measured too, if a compiler and ONNX Runtime's library are here. Its functions are changed in place,
so processes with and without the recorder run by turns, and the fastest block of all counts.

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
import onnxruntime as ort

from onnx_text import model_of
from ortune import launcher
from ortune.recorder import doors, native

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
NATIVE = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
typedef void *P;
typedef struct { void **(*api)(uint32_t); const char *(*version)(void); } Base;
extern const Base *OrtGetApiBase(void);
typedef P (*Run)(P, P, const char **, P *, size_t, const char **, size_t, P *);
static void **api;
static P session, value;
static double block(int n) {
  const char *in[1] = {"x"}, *names[1] = {"y"};
  struct timespec began, ended;
  clock_gettime(CLOCK_MONOTONIC, &began);
  for (int i = 0; i < n; i++) {
    P out = 0;
    if (((Run)api[9])(session, 0, in, &value, 1, names, 1, &out)) exit(9);
    ((void (*)(P))api[96])(out);
  }
  clock_gettime(CLOCK_MONOTONIC, &ended);
  return ((ended.tv_sec - began.tv_sec) * 1e9 + ended.tv_nsec - began.tv_nsec) / n;
}
int main(int argc, char **argv) {
  int64_t shape[2], size = 1;
  for (int i = 3; i < argc; i++) size *= shape[i - 3] = atoll(argv[i]);
  float *x = calloc(size, sizeof *x);
  P env = 0, options = 0, memory = 0;
  api = OrtGetApiBase()->api(12);
  ((P(*)(int, const char *, P *))api[3])(3, "t", &env);
  ((P(*)(P *))api[10])(&options);
  ((P(*)(P, int))api[24])(options, 1);
  if (((P(*)(P, const char *, P, P *))api[7])(env, argv[1], options, &session)) return 8;
  ((P(*)(int, int, P *))api[69])(0, 0, &memory);
  ((P(*)(P, void *, size_t, int64_t *, size_t, int, P *))api[49])(memory, x, size * 4, shape, argc - 3, 1, &value);
  double first = block(200), least = block(1000);
  for (int i = atoi(argv[2]); i; i--) { double ns = block(64); if (ns < least) least = ns; }
  printf("%f %f\n", first, least);
  return 0;
}
"""
ROUNDS = 5
MODELS = {
    "7 us": "g (float[1] x) => (float[1] y) { y = Relu (x) }",
    "130 us": "g (float[160,160] x) => (float[160,160] y) { a = MatMul (x, x) b = MatMul (a, x) y = MatMul (b, x) }",
    "1 ms": "g (float[400,400] x) => (float[400,400] y) { a = MatMul (x, x) y = MatMul (a, x) }",
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


def built(folder: Path) -> Path | None:
    """The program of C; None if it cannot be made here."""
    libraries = sorted((Path(ort.__file__).parent / "capi").glob("libonnxruntime.so*"))
    compiler = launcher.program("cc")
    if not (libraries and compiler and native.library()):
        return None
    (folder / "calls.c").write_text(NATIVE, encoding="utf-8")
    library = folder / "libonnxruntime.so.1"
    library.symlink_to(libraries[-1])
    words = [compiler, "-w", "-O2", "calls.c", "-o", "calls", str(library), f"-Wl,-rpath,{folder}"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "calls"


def measure_native(program: Path, name: str, blocks: int) -> str:
    """A row of the table for the program of C."""
    model = model_of(MODELS[name])
    shape = [str(d.dim_value) for d in model.graph.input[0].type.tensor_type.shape.dim]
    onnx.save(model, program.parent / "m.onnx")
    firsts: dict[bool, list[float]] = {False: [], True: []}
    least: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * ROUNDS):
        recorded = number % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "recording").mkdir()
            door = doors.environment(Path(folder) / "recording", doors.prepare(Path(folder)), os.environ)
            done = subprocess.run(
                [program, program.parent / "m.onnx", str(blocks // ROUNDS), *shape],
                env=door if recorded else os.environ, capture_output=True, text=True, check=True,
            )  # fmt: skip
        first, fastest = map(float, done.stdout.split())
        firsts[recorded].append(first)
        least[recorded].append(fastest)
    plain_us, added_us = min(least[False]) / 1e3, (min(least[True]) - min(least[False])) / 1e3
    first_us = (min(firsts[True]) - min(firsts[False])) / 1e3
    share = f"{100 * added_us / plain_us:.1f} %"
    return f"| {name}, C | {plain_us:.1f} us | {added_us:+.2f} us | {share} | {first_us:+.1f} us |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=400)
    asked = parser.parse_args()
    print("| call | without | added | share | added in the first 200 calls |\n|---|---|---|---|---|")
    for name in MODELS:
        print(measure(name, asked.blocks))
    with tempfile.TemporaryDirectory() as folder:
        program = built(Path(folder))
        for name in MODELS if program is not None else ():
            print(measure_native(program, name, asked.blocks))


if __name__ == "__main__":
    main()
