"""Is a lock silent where nothing changed, and does it name what did? Run by hand; some minutes, and no quiet machine.

    python benchmarks/locks.py [light-squeezenet silero-vad ...]

Three Markdown tables: a lock of ten real models, taken and checked; ten planted changes of one model, each with what
the check said of it; and a hundred snapshots of a small model, which must be the same bytes. The exit code is 1 where
one of them does not hold.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

import ortune
from common import model_path
from ortune.verbs.lock import words as lock_words
from ortune.verbs.lock.result import LockResult

MODELS = (
    "light-squeezenet", "light-shufflenet", "light-resnet50", "silero-vad", "minilm-int8", "magika", "ppocrv4-rec",
    "ppocrv2-cls", "oww-embedding", "logreg-iris",
)  # fmt: skip
BASE = "oww-embedding"
"""The model that the changes are planted in: convolutions, named activations, weights as initializers."""
SNAPSHOTS = 100
LAYERS, WIDTH = 3, 64
"""Of the small model: images of 16 by 16 with WIDTH channels."""


def small(path: Path) -> Path:
    """Convolutions with normalisations, which every level of the optimiser changes in another way."""
    rng = np.random.default_rng(0)
    body, last = "", "x"
    weights: list[onnx.TensorProto] = []
    for i in range(LAYERS):
        body += f"c{i} = Conv <pads = [1, 1, 1, 1]> ({last}, w{i})\n"
        body += f"n{i} = BatchNormalization (c{i}, s{i}, b{i}, m{i}, v{i})\nr{i} = Relu (n{i})\n"
        kernel = rng.standard_normal((WIDTH, WIDTH, 3, 3)).astype(np.float32) / 24
        weights.append(numpy_helper.from_array(kernel, f"w{i}"))
        for name in "sbmv":
            values = rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{name}{i}"))
        last = f"r{i}"
    shape = f"float[1, {WIDTH}, 16, 16]"
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> small ({shape} x) => ({shape} {last}) {{ {body} }}'
    )
    model.graph.initializer.extend(weights)
    onnx.save(model, path)
    return path


def after(model: onnx.ModelProto, value: str, *nodes: onnx.NodeProto) -> None:
    """Puts nodes, which read ``value`` and give ``new``, between a value and all who read it."""
    place = 1 + next(i for i, node in enumerate(model.graph.node) if value in node.output)
    for node in model.graph.node[place:]:
        for i, name in enumerate(node.input):
            if name == value:
                node.input[i] = "new"
    for node in reversed(nodes):
        model.graph.node.insert(place, node)


def first(model: onnx.ModelProto, operator: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == operator)


def another_exporter(model: onnx.ModelProto) -> None:
    """Other names for nodes and values, weights as Constant nodes, another producer: the same computation."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)} | {""}
    for n, node in enumerate(model.graph.node):
        node.name = f"/net/{n}"
        for names in (node.input, node.output):
            names[:] = [name if name in kept else f"/net/{name}" for name in names]
    constants = [
        helper.make_node("Constant", [], [f"/net/{weight.name}"], value=weight)
        for weight in model.graph.initializer
    ]
    nodes = [*constants, *model.graph.node]
    del model.graph.initializer[:], model.graph.value_info[:], model.graph.node[:]
    model.graph.node.extend(nodes)
    model.producer_name, model.producer_version = "somebody else", "1.0"


def an_operator(model: onnx.ModelProto) -> None:
    value = first(model, "LeakyRelu").output[0]
    after(model, value, helper.make_node("Tanh", [value], ["new"]))


def casts(model: onnx.ModelProto) -> None:
    value = first(model, "LeakyRelu").output[0]
    half = helper.make_node("Cast", [value], ["half"], to=TensorProto.FLOAT16)
    after(model, value, half, helper.make_node("Cast", ["half"], ["new"], to=TensorProto.FLOAT))


def half_weights(model: onnx.ModelProto) -> None:
    """Every large weight in half precision, and a Cast behind it."""
    for weight in model.graph.initializer:
        values = numpy_helper.to_array(weight)
        if values.dtype == np.float32 and values.ndim > 1:
            name = weight.name
            weight.CopyFrom(numpy_helper.from_array(values.astype(np.float16), f"{name}/half"))
            model.graph.node.insert(
                0, helper.make_node("Cast", [f"{name}/half"], [name], to=TensorProto.FLOAT)
            )


def an_output(model: onnx.ModelProto) -> None:
    model.graph.output.append(
        helper.make_tensor_value_info(first(model, "Conv").output[0], TensorProto.FLOAT, None)
    )


def a_dynamic_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "frames"


def an_attribute(model: onnx.ModelProto) -> None:
    first(model, "LeakyRelu").attribute[0].f *= 2


def other_weights(model: onnx.ModelProto) -> None:
    weight = next(w for w in model.graph.initializer if len(w.dims) == 4)
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.5), weight.name))


Planted = tuple[str, Callable[[onnx.ModelProto], None] | None, tuple[str, ...], str]
PLANTED: tuple[Planted, ...] = (
    ("another exporter", another_exporter, (), "exporter "),
    ("an operator inserted", an_operator, (), "Tanh 0 -> 1"),
    ("two casts inserted", casts, (), "Cast 0 -> 2"),
    ("weights in float16", half_weights, (), "weights of type float16: 0 B -> "),
    ("one more output", an_output, (), "output "),
    ("a dynamic input", a_dynamic_input, (), "input "),
    ("an attribute", an_attribute, (), "the same operators with other connections or attributes"),
    ("other weights", other_weights, (), "other weights"),
    ("the optimiser turned down", None, ("level=basic",), "graph_optimization_level default -> basic"),
    ("another onnxruntime", None, (), "onnxruntime "),
)
"""What is planted, how the file is changed, the settings of the check, and how a sentence of the answer must begin."""


def said_by_check(model: Path, lock: Path, settings: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """The verdict of a check, and all that it says."""
    envelope = ortune.lock(model, lock, check=True, set=settings)
    result: LockResult = envelope.result
    failing, told = lock_words.details(result)
    return str(envelope.verdict), [*failing, *told]


def silent(name: str, folder: Path) -> bool:
    """Locks a model and checks it; prints a row and says whether the check had nothing to tell."""
    path = folder / f"{name}.onnx"
    shutil.copy(model_path(name), path)
    start = time.perf_counter()
    nodes = ortune.lock(path).result.snapshot.levels["disable"].nodes
    middle = time.perf_counter()
    verdict, said = said_by_check(path, Path(f"{path}.lock.json"))
    end = time.perf_counter()
    spoken, times = "; ".join(said) or "nothing", f"{middle - start:.1f} | {end - middle:.1f}"
    print(f"| {name} | {nodes} | {verdict} | {spoken} | {times} |", flush=True)
    return verdict == "unchanged" and not said


def named(planted: Planted, base: Path, folder: Path) -> bool:
    """Plants a change and checks; prints a row and says whether the change was named."""
    what, change, settings, begins = planted
    path, lock = folder / f"{what}.onnx", Path(f"{base}.lock.json")
    model = onnx.load(base)
    if change is not None:
        change(model)
    onnx.save(model, path)
    if what == "another onnxruntime":  # the lock as another release would have written it
        document = json.loads(lock.read_text(encoding="utf-8"))
        lock = folder / "older.json"
        lock.write_text(json.dumps({**document, "ort_version": "1.2.3"}), encoding="utf-8")
    verdict, said = said_by_check(path, lock, settings)
    found = next((sentence for sentence in said if sentence.startswith(begins)), "")
    print(f"| {what} | {'yes' if found else 'NO'} | {verdict} | {found or '; '.join(said)} |", flush=True)
    return bool(found)


def main() -> int:
    """Prints the three tables; 1 where a check spoke up, a change was not named or two snapshots differ."""
    print(f"{datetime.now(UTC):%Y-%m-%d}\n")
    with tempfile.TemporaryDirectory(prefix="ortune-bench-") as place:
        folder = Path(place)
        print(
            "| model | nodes | verdict | reported | lock, s | check, s |\n|---|---:|---|---|---:|---:|",
            flush=True,
        )
        good = [silent(name, folder) for name in sys.argv[1:] or MODELS]
        base = folder / "base.onnx"
        shutil.copy(model_path(BASE), base)
        ortune.lock(base)
        print(f"\n| planted in {BASE} | named | verdict | by |\n|---|---|---|---|", flush=True)
        good += [named(planted, base, folder) for planted in PLANTED]
        model, lock = small(folder / "small.onnx"), folder / "again.json"
        start = time.perf_counter()
        found = set()
        for _ in range(SNAPSHOTS):
            ortune.lock(model, output=lock)
            found.add(lock.read_bytes())
        seconds = (time.perf_counter() - start) / SNAPSHOTS
        print("\n| snapshots | distinct | s each |\n|---:|---:|---:|")
        print(f"| {SNAPSHOTS} | {len(found)} | {seconds:.1f} |")
    return 0 if all(good) and len(found) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
