"""Does ``diagnose`` find what makes a model slow, and does its fix pay? Every cause that can be built on any CPU.

    python benchmarks/causes.py [CODE ...]

Each situation is a model, or settings, as users have reported them to be slow. A row says what was found and how the
fix was judged; the exit code is 1 where a rule is silent, or its fix is not proven to pay.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import ortune

LAYERS, WIDTH = 4, 64
BUDGET = "20s"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One situation.

    Attributes:
        code: The rule that is to find it.
        what: In words.
        model: Makes the model in a folder.
        settings: What the user set.
        allow: Classes of fixes beside the exact ones.
        objective: What is slow.
        tolerance: How far outputs may be away.
    """

    code: str
    what: str
    model: Callable[[Path], Path]
    settings: Sequence[str] = ()
    allow: Sequence[str] = ()
    objective: str = "latency"
    tolerance: float | None = None


class Graph:
    """A graph while it grows."""

    def __init__(self, *shape: int, dtype: int = TensorProto.FLOAT, opset: int = 17) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs = [helper.make_tensor_value_info("x", dtype, shape)]
        self.rng = np.random.default_rng(0)
        self.opset, self.dtype = opset, dtype

    def node(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def weight(self, values: object, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape: int, dtype: str = "float32") -> str:
        return self.weight(self.rng.standard_normal(shape) * 0.05, dtype)

    def save(self, path: Path, output: str, *, listed: bool = False, dtype: int | None = None) -> Path:
        inputs = list(self.inputs)
        if listed:
            inputs += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in self.weights]
        outputs = [helper.make_tensor_value_info(output, dtype or self.dtype, None)]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.weights)
        imports = [helper.make_opsetid("", self.opset)]
        onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path / "m.onnx")
        return path / "m.onnx"


def _convolutions(path: Path, *, listed: bool = False) -> Path:
    graph, value = Graph(1, WIDTH, 40, 40), "x"
    for _ in range(LAYERS):
        value = graph.node("Conv", value, graph.random(WIDTH, WIDTH, 3, 3), pads=[1, 1, 1, 1])
        value = graph.node("Relu", value)
    return graph.save(path, value, listed=listed)


def _quantized(path: Path) -> Path:
    """Convolutions between pairs, as static quantization leaves them."""
    graph, value = Graph(1, WIDTH, 40, 40), "x"
    scale, zero = graph.weight(0.05), graph.weight(128, "uint8")
    small, none = graph.weight(0.002), graph.weight(0, "int8")
    for _ in range(LAYERS):
        value = graph.node("QuantizeLinear", value, scale, zero)
        value = graph.node("DequantizeLinear", value, scale, zero)
        stored = graph.weight(graph.rng.integers(-127, 127, (WIDTH, WIDTH, 3, 3)), "int8")
        stored = graph.node("DequantizeLinear", stored, small, none)
        value = graph.node("Conv", value, stored, pads=[1, 1, 1, 1])
    value = graph.node("QuantizeLinear", value, scale, zero)
    return graph.save(path, graph.node("DequantizeLinear", value, scale, zero))


def _grows(path: Path) -> Path:
    graph = Graph(1)
    table = graph.node("ConstantOfShape", graph.weight([512, 512, 512], "int64"))
    wide = graph.node("Expand", graph.weight([1.0]), graph.weight([256, 512, 256], "int64"))
    least = [graph.node("ReduceMax", value, keepdims=0) for value in (table, wide)]
    return graph.save(path, graph.node("Add", "x", graph.node("Add", *least)))


def _round_trips(path: Path) -> Path:
    graph, value = Graph(256, 4096), "x"
    for _ in range(8):
        value = graph.node("Cast", value, to=TensorProto.FLOAT16)
        value = graph.node("Cast", value, to=TensorProto.FLOAT)
        value = graph.node("Neg", value)
    return graph.save(path, value)


def _gelus(path: Path) -> Path:
    graph, value = Graph(128, 1024, opset=16), "x"
    root, one, half = graph.weight(2**0.5), graph.weight(1.0), graph.weight(0.5)
    for _ in range(LAYERS):
        a = graph.node("Add", graph.node("Erf", graph.node("Div", value, root)), one)
        value = graph.node("Mul", value, graph.node("Mul", a, half))
    return graph.save(path, value)


def _norms(path: Path) -> Path:
    """Layer normalisations with a product in place of Pow, so that none is fused."""
    graph, value = Graph(128, 1024, opset=16), "x"
    eps, ones, zeros = graph.weight(1e-5), graph.weight(np.ones(1024)), graph.weight(np.zeros(1024))
    for _ in range(LAYERS):
        d = graph.node("Sub", value, graph.node("ReduceMean", value, axes=[-1]))
        v = graph.node("ReduceMean", graph.node("Mul", d, d), axes=[-1])
        n = graph.node("Div", d, graph.node("Sqrt", graph.node("Add", v, eps)))
        value = graph.node("Add", graph.node("Mul", n, ones), zeros)
    return graph.save(path, value)


def _norms_behind_products(path: Path) -> Path:
    graph, value = Graph(512, 32), "x"
    for _ in range(LAYERS):
        value = graph.node("Gemm", value, graph.random(32, 32))
        parts = [graph.weight(np.full(32, n)) for n in (1.0, 0.1, 0.1, 1.0)]
        value = graph.node("BatchNormalization", value, *parts)
    return graph.save(path, value)


def _halves(path: Path) -> Path:
    graph, value = Graph(128, 512, dtype=TensorProto.FLOAT16), "x"
    for _ in range(LAYERS):
        value = graph.node("Softmax", graph.node("MatMul", value, graph.random(512, 512, dtype="float16")))
    return graph.save(path, value)


CAUSES = (
    Cause(
        code="GRA002",
        what="weights among the inputs",
        model=lambda path: _convolutions(path, listed=True),
    ),
    Cause(code="THR001", what="sixteen threads", model=_convolutions, settings=("intra=16",)),
    Cause(code="SES002", what="a quantized model at level basic", model=_quantized, settings=("level=basic",),
          allow=("numerics",)),
    Cause(code="QNT007", what="fusion of pairs off", model=_quantized, settings=("disable_quant_qdq=1",),
          allow=("numerics",)),
    Cause(code="MEM002", what="constants that grow", model=_grows, objective="cold-start"),
    Cause(code="PRC004", what="float16 and straight back", model=_round_trips, allow=("numerics",), tolerance=0.01),
    Cause(code="GRA012", what="Gelus in parts", model=_gelus, allow=("numerics",)),
    Cause(code="GRA011", what="layer normalisations in parts", model=_norms, allow=("numerics",)),
    Cause(code="GRA014", what="batch normalisations behind products", model=_norms_behind_products,
          allow=("numerics",)),
    Cause(code="PRC003", what="float16 on a CPU", model=_halves, allow=("numerics",)),
)  # fmt: skip


def judged(cause: Cause, folder: Path) -> tuple[str, bool]:
    """How the fix was judged, in words, and whether it pays."""
    folder.mkdir()
    result = ortune.diagnose(
        cause.model(folder),
        set=cause.settings,
        allow=cause.allow,
        objective=cause.objective,
        tolerance=cause.tolerance,
        budget=BUDGET,
        store=folder / "store",
    ).result
    if cause.code not in {finding.code for finding in result.findings}:
        return "not found", False
    tried = next((each for each in result.tried if cause.code in each.codes), None)
    if tried is None or tried.comparison is None:
        return f"found; {tried.failed if tried else 'its fix was not tried'}", False
    found = tried.comparison
    interval = (
        f"{1 / found.ratio_high:.2f} - {1 / found.ratio_low:.2f}" if found.ratio_high else "no interval"
    )
    return f"{found.verdict}, {1 / found.ratio:.2f} times ({interval})", found.verdict == "faster"


def main() -> int:
    """Prints the table; 1 where a cause is not found or its fix not proven."""
    wanted = set(sys.argv[1:])
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n| cause | rule | its fix |\n|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for cause in CAUSES:
            if wanted and cause.code not in wanted:
                continue
            words, pays = judged(cause, Path(scratch) / cause.code)
            failed |= not pays
            print(f"| {cause.what} | {cause.code} | {words} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
