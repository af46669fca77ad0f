"""How right, how complete and how fast three ways to infer shapes are, on models of the zoo.

    pip install onnx-shape-inference==0.4.0
    python benchmarks/shape_inference.py [MODEL ...]

Each model runs once without optimisation, with every value of its main graph as an output: that is the truth. Then each
engine is given the model as it is (open sizes), and with the sizes that were fed. A value counts as told where each of
its sizes is a number, a name or an expression; as wrong where that is not what came out, or where a name stood for
another size before.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import sympy
from onnx_shape_inference import infer_symbolic_shapes

from ortune.graph.cost.graph import GraphCounter
from ortune.graph.model.open import OpenModel, open_model
from ortune.graph.shapes.known import known_values
from ortune.inputs import workload as workloads

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
import zoo

MODELS = (
    "ppocrv4-det", "ppocrv4-rec", "ppocrv2-cls", "silero-vad", "silero-vad-op18-ifless", "magika", "minilm-int8",
    "basic-pitch", "piper-joe", "oww-embedding", "oww-melspectrogram", "light-squeezenet",
)  # fmt: skip
Shape = tuple[int, ...]
Told = dict[str, tuple[object, ...]]
"""Sizes by value: numbers, names of sizes of inputs, or expressions of these; None where one is not told."""


def truth(model: OpenModel, feeds: Mapping[str, np.ndarray]) -> dict[str, Shape]:
    """The shape of every tensor of the main graph in one run."""
    proto = onnx.load(model.path)
    names = [name for node in proto.graph.node for name in node.output if name]
    there = {value.name for value in proto.graph.output}
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    made = session.run(names, dict(feeds))
    return {n: v.shape for n, v in zip(names, made, strict=True) if isinstance(v, np.ndarray)}


def by_known(model: ir.Model) -> Told:
    known = known_values(model)
    outputs = (value for node in model.graph for value in node.outputs)
    return {v.name or "": known[v].dims or (None,) for v in outputs if v in known}


def by_package(model: ir.Model) -> Told:
    for node in model.graph:
        for value in node.outputs:
            value.shape = None  # what the file declares would be told for nothing
    infer_symbolic_shapes(model)
    told: Told = {}
    for node in model.graph:
        for value in node.outputs:
            if value.shape is not None:
                told[value.name or ""] = tuple(d if isinstance(d, int) else d.value for d in value.shape)
    return told


def by_count(model: ir.Model, shapes: Mapping[str, Shape]) -> Told:
    counter = GraphCounter(model, shapes)
    counter.graph(model.graph, "")
    outputs = (value for node in model.graph for value in node.outputs)
    return {v.name or "": dims for v in outputs if (dims := counter.dims(v)) is not None}


def judged(told: Told, true: Mapping[str, Shape], sizes: Mapping[str, int]) -> tuple[int, int]:
    """How many values are told of, and how many of them wrongly."""
    count = wrong = 0
    named = dict(sizes)
    for name, shape in true.items():
        dims = told.get(name)
        if dims is None or None in dims:
            continue
        count += 1
        if len(dims) != len(shape):
            wrong += 1
            continue
        for dim, size in zip(dims, shape, strict=True):
            if isinstance(dim, str) and dim.isidentifier():
                named.setdefault(dim, size)  # a name of the engine's own: one size wherever it stands
        wrong += any(number(d, named) not in (None, size) for d, size in zip(dims, shape, strict=True))
    return count, wrong


def number(dim: object, sizes: Mapping[str, int]) -> int | None:
    """What a size is in the run; None where that is not decided."""
    if isinstance(dim, int) or dim in sizes:
        return dim if isinstance(dim, int) else sizes[str(dim)]
    try:
        names = {name: sympy.Symbol(name) for name in re.findall(r"[A-Za-z_]\w*", str(dim))}
        names |= {"floor": sympy.floor, "Max": sympy.Max, "Min": sympy.Min}
        found = sympy.sympify(str(dim), locals=names).subs({sympy.Symbol(n): s for n, s in sizes.items()})
        return int(found) if found.is_Integer else None
    except (sympy.SympifyError, TypeError, SyntaxError, AttributeError):
        return None


def timed(engine: Callable[[], Told]) -> tuple[Told | str, float]:
    """What an engine tells, or why it refuses; and the seconds of CPU time."""
    start = time.process_time()
    try:
        told: Told | str = engine()
    except ValueError as error:
        told = str(error)
    return told, time.process_time() - start


def compared(name: str) -> None:
    """Prints the rows of one model."""
    model = open_model(Path(zoo.model_path(name)))
    work = workloads.propose(model.ir)
    feeds = {key: np.asarray(value) for key, value in workloads.feeds(model.ir, work)[0][1].items()}
    true = truth(model, feeds)
    fixed, sizes = model.ir.clone(), dict[str, int]()
    for value in fixed.graph.inputs:
        fed = feeds.get(value.name or "")
        for place, dim in enumerate(value.shape or ()) if fed is not None else ():
            sizes[f"{value.name}[{place}]"] = fed.shape[place]
            sizes |= {dim.value: fed.shape[place]} if not isinstance(dim, int) and dim.value else {}
        if fed is not None:
            value.shape = ir.Shape(fed.shape)
    shapes = {key: array.shape for key, array in feeds.items()}
    for which, engine, run in (
        ("open", "ours", lambda: by_known(model.ir.clone())),
        ("open", "onnx-shape-inference", lambda: by_package(model.ir.clone())),
        ("fed", "ours", lambda: by_count(model.ir.clone(), shapes)),
        ("fed", "onnx-shape-inference", lambda: by_package(fixed.clone())),
    ):
        told, spent = timed(run)
        if isinstance(told, str):
            print(f"| {name} | {len(true)} | {which} | {engine} | refused: {told} | | |", flush=True)
            continue
        count, wrong = judged(told, true, sizes)
        print(f"| {name} | {len(true)} | {which} | {engine} | {count} | {wrong} | {spent:.2f} |", flush=True)


def main() -> None:
    print("| model | values | sizes | engine | told | wrong | CPU s |")
    print("|---|---:|---|---|---:|---:|---:|")
    for name in sys.argv[1:] or MODELS:
        compared(name)


if __name__ == "__main__":
    main()
