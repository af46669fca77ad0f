"""The memory that quantizing takes at its peak, over the size of the model: of each task, on models of external data.

    python benchmarks/quantize_memory.py [FOLDER] [--gb 0.3,0.6,1.1,2.2] [--tasks quantize-static,smooth]

Each task is done by a process of its own. The folder needs ten times the largest size.
"""

from __future__ import annotations

import argparse
import math
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

from ortune import rewrites
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

BLOCKS, WIDER, ROWS, INPUTS = 6, 4, 8, 2
PREPARE = "quantize-prepare"
OF_PREPARED = ("quantize-dynamic", "quantize-static")
TASKS = (PREPARE, "quantize-dynamic", "quantize-static", "quantize-weights", "smooth")
REWRITES = {
    "quantize-dynamic": "dynamic-int8",
    "quantize-static": "static-int8",
    "quantize-weights": "weight-only-bits:bits=4",
    "smooth": "smooth-quant",
}
LIMITS = Limits(load_s=3600.0, memory_share=1.0)


def width_of(n_bytes: int) -> int:
    """Of a model of so many bytes: each block has two matrices of width times four widths."""
    return round(math.sqrt(n_bytes / (4 * 2 * WIDER * BLOCKS)))


def write(path: Path, n_bytes: int) -> Path:
    """Writes residual blocks of a normalization and two products, as transformers have them, with made-up weights."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    width, rng = width_of(n_bytes), np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    with path.with_name(f"{path.name}.data").open("wb") as data:

        def weight(name: str, *shape: int) -> str:
            tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
            tensor.data_location = TensorProto.EXTERNAL
            values = rng.standard_normal(shape, dtype=np.float32) / np.float32(math.sqrt(shape[0]))
            for key, value in (
                ("location", Path(data.name).name),
                ("offset", data.tell()),
                ("length", values.nbytes),
            ):
                tensor.external_data.add(key=key, value=str(value))
            data.write(values.tobytes())
            weights.append(tensor)
            return name

        for i in range(BLOCKS):
            steps = [
                ("LayerNormalization", [x, weight(f"scale{i}", width)], f"normed{i}"),
                ("MatMul", [f"normed{i}", weight(f"up{i}", width, WIDER * width)], f"wide{i}"),
                ("Relu", [f"wide{i}"], f"active{i}"),
                ("MatMul", [f"active{i}", weight(f"down{i}", WIDER * width, width)], f"narrow{i}"),
                ("Add", [x, f"narrow{i}"], f"x{i}"),
            ]
            nodes += [
                helper.make_node(op, inputs, [output], name=f"/{output}") for op, inputs, output in steps
            ]
            x = f"x{i}"
    sides = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", width]) for name in ("x", x)]
    graph = helper.make_graph(nodes, "blocks", sides[:1], sides[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def done(task: str, source: Path, folder: Path) -> None:
    """Does a task, and prints the most memory that its process held, in bytes."""
    width = onnx.load(source, load_external_data=False).graph.input[0].type.tensor_type.shape.dim[1].dim_value
    refs = []
    for seed in range(INPUTS):
        x = np.random.default_rng(seed).standard_normal((ROWS, width), dtype=np.float32)
        # A few channels are far larger than the others, as in transformers.
        x[:, ::97] *= 30.0
        write_feeds(folder / f"feed-{seed}", {"x": x})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feed-{seed}")))
    runtime = Runtime(python=sys.executable, ort_version=ort.__version__)
    tool = ToolProcess(runtime=runtime, folder=folder, feeds=tuple(refs), limits=LIMITS)
    spec = rewrites.parse(REWRITES[task]) if task in REWRITES else None
    params = rewrites.find(spec.name).with_defaults(spec.params) if spec is not None else {}
    print(tool(task, source, folder / f"{task}.onnx", params), file=sys.stderr)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--gb", default="0.3,0.6,1.1,2.2")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--do", nargs=2, metavar=("TASK", "MODEL"), help="used by the script itself")
    options = parser.parse_args()
    if options.do:
        done(options.do[0], Path(options.do[1]), options.folder)
        return
    with TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        tasks = options.tasks.split(",")
        print(f"| model | {' | '.join(tasks)} |\n|---{'|---' * len(tasks)}|", flush=True)
        for gb in options.gb.split(","):
            source = write(folder / f"blocks-{gb}.onnx", int(1e9 * float(gb)))
            size = sum(file.stat().st_size for file in folder.glob(f"{source.name}*"))
            peaks = []
            prepared = folder / PREPARE / f"{PREPARE}.onnx"
            for task in tasks:
                place = folder / task
                place.mkdir()
                # Dynamic and static int8 are made of what is prepared, as for users.
                read = prepared if prepared.exists() and task in OF_PREPARED else source
                command = [sys.executable, __file__, str(place), "--do", task, str(read)]
                answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                peaks.append(int(answer.stdout) / size)
                if task != PREPARE:
                    shutil.rmtree(place)
            print(f"| {size / 1e9:.2f} GB | {' | '.join(f'{peak:.2f}' for peak in peaks)} |", flush=True)
            shutil.rmtree(folder / PREPARE, ignore_errors=True)


if __name__ == "__main__":
    main()
