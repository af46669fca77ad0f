"""What the benchmarks share: copies of models under other names, a busy core, tables."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import onnx
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from ortune.graph.model.graphs import graphs
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from zoo import model_path

__all__ = [
    "CONDITIONS",
    "CROWDED",
    "busy_core",
    "disguised_copy",
    "model_path",
    "neighbour",
    "running",
    "same_again",
    "weights_as_inputs",
    "write_between",
]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results.md"


def write_between(marks: tuple[str, str], text: str) -> None:
    """Puts a text between two marks of the page of results."""
    before, mark, rest = PAGE.read_text(encoding="utf-8").partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not end:
        raise SystemExit(f"{PAGE} has no marks {marks[0]} and {marks[1]}")
    PAGE.write_text(f"{before}{mark}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def disguised_copy(model: Path, folder: Path) -> Path:
    """The same model with other names for nodes, values, inputs and outputs, and another producer."""
    copy = open_model(model).ir.clone()
    copy.producer_name = "somebody else"
    for graph in graphs(copy):
        for i, node in enumerate(graph):
            node.name = f"n{id(graph) % 9973}_{i}"
    for i, value in enumerate(copy.graph.inputs):
        value.name = f"in_{i}"
    for i, value in enumerate(copy.graph.outputs):
        value.name = f"out_{i}"
    path = folder / f"copy-of-{model.stem}.onnx"
    save_model(copy, path)
    return path


def same_again(model: Path, folder: Path) -> Path:
    """The same model in another file, byte for byte but for a remark behind its end.

    Nothing else may differ: a copy with other names is laid out otherwise in memory, and models of 50 us feel that.
    """
    path = folder / f"again-{model.stem}.onnx"
    path.write_bytes(model.read_bytes() + onnx.ModelProto(doc_string="again").SerializeToString())
    return path


def weights_as_inputs(model: Path, folder: Path) -> Path:
    """The same model as old exporters wrote it: every weight is a graph input too, which nothing may fold."""
    copy = open_model(model).ir.clone()
    LiftConstantsToInitializersPass(lift_all_constants=False)(copy)
    copy.graph.inputs.extend(v for v in copy.graph.initializers.values() if v not in copy.graph.inputs)
    path = folder / f"{model.stem}-weights-as-inputs.onnx"
    save_model(copy, path)
    return path


CONDITIONS = ("quiet", "intermittent load", "one core taken")
"""What else runs: nothing of ours; a neighbour with phases; a process that never rests."""
CROWDED = "load 20"
"""Twenty processes that never rest."""


@contextlib.contextmanager
def neighbour(condition: str) -> Iterator[None]:
    """One of the conditions, for as long as it lasts."""
    if condition == "quiet":
        yield
    elif condition == CROWDED:
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(running("while True: pass"))
            yield
    elif condition == "one core taken":
        with busy_core():
            yield
    else:
        code = (
            "import random, time\n"
            "while True:\n"
            "    until = time.monotonic() + random.expovariate(1 / 1.5)\n"
            "    while time.monotonic() < until: pass\n"
            "    time.sleep(random.expovariate(1 / 3))"
        )
        with running(code):
            yield


@contextlib.contextmanager
def busy_core() -> Iterator[None]:
    """A process that never rests, bound to the last CPU of this one's."""
    cpu = max(os.sched_getaffinity(0))
    with running(f"import os\nos.sched_setaffinity(0, [{cpu}])\nwhile True: pass"):
        yield


@contextlib.contextmanager
def running(code: str) -> Iterator[None]:
    """A Python process that runs this code until the end."""
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()
