"""What each exact rewrite that a fix needs brings: on two models made for it, and which real ones it changes.

    python benchmarks/exact_rewrites.py [REWRITE ...] [--budget 15s] [--list]

With ``--list`` nothing is run: a row a rewrite has the made models, and the real ones that it changes, whose gains
``against_peers.py --worth`` measures. Otherwise each made model is compared with itself rewritten, and a row has what
that brought. The exit code is 1 where a rewrite does not change a model made for it, or changes its outputs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "rewrites"))

import numpy as np
import onnx
from fused_forms import (
    gelu_half_first,
    gelu_tanh_power,
    instance_plain,
    instance_torch,
    norm_plain,
    norm_tensorflow,
    rms_dynamo,
    rms_power,
    softmax_guarded,
    softmax_reciprocal,
)
from onnx import TensorProto
from written_out_steps import written_out

import ortune
from causes import Graph
from common import model_path
from ortune import rewrites
from ortune.graph.model.open import open_model
from zoo import MODELS, ZooError

LAYERS = 4


class Made(Graph):
    """A graph while it grows, which the forms of the tests can write into."""

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self.node(operator, *inputs, **attributes)

    def number(self, value: float) -> str:
        return self.weight(np.float32(value))

    def weight(self, values: object, dtype: str | None = None) -> str:
        return super().weight(values, dtype or str(np.asarray(values).dtype))

    def product(self, value: str, rows: int, columns: int) -> str:
        return self.op("MatMul", value, self.random(rows, columns))

    def convolution(self, value: str, into: int, out: int, size: int, **attributes: Any) -> str:
        return self.op("Conv", value, self.random(out, into, size, size), **attributes)


Form = Callable[[Made, str], str]
Maker = Callable[[Path], Path]


def stack(
    form: Form, *shape: int, layers: int = LAYERS, dtype: int = TensorProto.FLOAT, opset: int = 17
) -> Maker:
    """The form, one after another."""

    def make(folder: Path) -> Path:
        graph, value = Made(*shape, dtype=dtype, opset=opset), "x"
        for _ in range(layers):
            value = form(graph, value)
        return graph.save(folder, value)

    return make


def between_products(form: Form, width: int, inner: int) -> Form:
    """The form in the middle of a feed-forward block."""
    return lambda g, v: g.op("Add", v, g.product(form(g, g.product(v, width, inner)), inner, width))


def hard_swish(g: Made, v: str) -> str:
    clipped = g.op("Clip", g.op("Add", v, g.number(3)), g.number(0), g.number(6))
    return g.op("Div", g.op("Mul", v, clipped), g.number(6))


def hard_swish_of_min(g: Made, v: str) -> str:
    low = g.op("Max", g.op("Add", v, g.number(3)), g.number(0))
    return g.convolution(
        g.op("Mul", v, g.op("Mul", g.op("Min", low, g.number(6)), g.number(1 / 6))), 32, 32, 1
    )


def norm_behind(g: Made, v: str, channels: int) -> str:
    parts = [g.weight(np.full(channels, n, np.float32)) for n in (1.0, 0.1, 0.1, 1.0)]
    return g.op("BatchNormalization", v, *parts)


def norm_behind_gemm(g: Made, v: str) -> str:
    return norm_behind(g, g.op("Gemm", v, g.random(32, 32)), 32)


def norm_behind_transposed(g: Made, v: str) -> str:
    up = g.op("ConvTranspose", v, g.random(16, 16, 3, 3), pads=[1, 1, 1, 1])
    return norm_behind(g, g.op("Add", up, g.random(1, 16, 1, 1)), 16)


def scale_between(channels: int) -> Form:
    """A scale and a shift that two nodes read, before a convolution that pads."""

    def form(g: Made, v: str) -> str:
        gate = g.op("Sigmoid", g.convolution(v, channels, channels, 1))
        shifted = g.op("Add", g.op("Mul", gate, g.number(1.4)), g.random(1, channels, 1, 1))
        kernel = g.random(channels, 1, 3, 3)
        return g.op("Add", shifted, g.op("Conv", shifted, kernel, group=channels, pads=[1, 1, 1, 1]))

    return form


def attention(length: int, heads: int, size: int, *, packed: bool) -> Form:
    width = heads * size

    def turned(g: Made, v: str, perm: list[int]) -> str:
        shape = g.weight(np.array([1, length, heads, size]))
        return g.op("Transpose", g.op("Reshape", v, shape), perm=perm)

    def form(g: Made, v: str) -> str:
        if packed:
            shape = g.weight(np.array([1, length, 3, heads, size]))
            one = g.op("Reshape", g.product(v, width, 3 * width), shape)
            of_three = g.op("Transpose", one, perm=[2, 0, 3, 1, 4])
            q, k, value = (g.op("Gather", of_three, g.weight(np.int64(n)), axis=0) for n in range(3))
            keys = g.op("Transpose", k, perm=[0, 1, 3, 2])
        else:
            q, value = (turned(g, g.product(v, width, width), [0, 2, 1, 3]) for _ in range(2))
            keys = turned(g, g.product(v, width, width), [0, 2, 3, 1])
        scores = g.op("Mul", g.op("MatMul", q, keys), g.number(size**-0.5))
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
        flat = g.op(
            "Reshape", g.op("Transpose", mixed, perm=[0, 2, 1, 3]), g.weight(np.array([1, length, width]))
        )
        return g.op("Add", v, g.product(flat, width, width))

    return form


def split_and_joined(g: Made, v: str) -> str:
    name = f"pieces_{len(g.nodes)}"
    g.nodes.append(onnx.helper.make_node("Split", [v], [f"{name}_{i}" for i in range(4)], name=name, axis=1))
    return g.op("Relu", g.op("Concat", *(f"{name}_{i}" for i in range(4)), axis=1))


def joined_in_steps(folder: Path) -> Path:
    graph, value = Made(64, 256), "x"
    for _ in range(12):
        value = graph.op("Concat", value, graph.op("Neg", "x"), axis=1)
    return graph.save(folder, value)


def dead_branch(g: Made, v: str) -> str:
    g.op("Exp", g.op("Sigmoid", v))
    return g.op("Relu", v)


def dead_product(g: Made, v: str) -> str:
    g.product(g.product(v, 256, 256), 256, 256)
    return g.op("Tanh", g.product(v, 256, 256))


def listed(form: Form, *shape: int) -> Maker:
    """The form one after another, its weights among the inputs."""

    def make(folder: Path) -> Path:
        graph, value = Made(*shape), "x"
        for _ in range(LAYERS):
            value = form(graph, value)
        return graph.save(folder, value, listed=True)

    return make


def positions(size: int, *, summed: bool) -> Maker:
    """Masks of which position is behind which, in int64."""

    def make(folder: Path) -> Path:
        graph = Made(1, size, dtype=TensorProto.BOOL)
        wide = graph.op("Cast", "x", to=TensorProto.INT64)
        if summed:
            wide = graph.op("CumSum", wide, graph.weight(np.int64(1)))
        else:
            wide = graph.op("Add", wide, graph.weight(np.arange(size)))
        behind = graph.op("Less", wide, graph.op("Transpose", wide, perm=[1, 0]))
        return graph.save(folder, behind)

    return make


def looked_up(ids: int, rows: int, width: int, *, one_hot: bool) -> Maker:
    def make(folder: Path) -> Path:
        graph = Made(1, ids, *([] if one_hot else [1]), dtype=TensorProto.INT32)
        if one_hot:
            depth, ends = graph.weight(np.int32(rows)), graph.weight(np.float32([0, 1]))
            code = graph.op("OneHot", "x", depth, ends)
        else:
            equal = graph.op("Equal", "x", graph.weight(np.arange(rows, dtype=np.int32)))
            code = graph.op("Cast", equal, to=TensorProto.FLOAT)
        return graph.save(folder, graph.op("Tanh", graph.product(code, rows, width)), dtype=TensorProto.FLOAT)

    return make


def unrolled(cell: str, steps: int, hidden: int) -> Maker:
    def make(folder: Path) -> Path:
        onnx.save(written_out(cell, steps=steps, hidden=hidden), folder / "m.onnx")
        return folder / "m.onnx"

    return make


def einsum_attention(g: Made, v: str) -> str:
    scores = g.op("Softmax", g.op("Einsum", v, v, equation="bqhd,bkhd->bhqk"), axis=-1)
    return g.op("Einsum", scores, v, equation="bhqk,bkhd->bqhd")


def einsum_layer(g: Made, v: str) -> str:
    return g.op("Relu", g.op("Einsum", v, g.random(256, 256), equation="abc,cd->abd"))


def heads_of_one_row(count: int, width: int, out: int) -> Form:
    def form(g: Made, v: str) -> str:
        parts = [g.op("Tanh", g.product(v, width, out)) for _ in range(count)]
        return g.op("Concat", *parts, axis=1)

    return form


def meeting(g: Made, v: str) -> str:
    ways = [g.op("Transpose", g.op(kind, v), perm=[0, 2, 3, 1]) for kind in ("Tanh", "Sigmoid")]
    both = g.op("Mul", g.op("Relu", ways[0]), g.op("Neg", ways[1]))
    return g.op("Transpose", g.op("Softmax", both, axis=-1), perm=[0, 3, 1, 2])


def meeting_in_concat(g: Made, v: str) -> str:
    ways = [g.op("Transpose", g.op(kind, v), perm=[0, 2, 1]) for kind in ("Exp", "Neg")]
    return g.op("ReduceMax", g.op("Concat", *(g.op("Relu", way) for way in ways), axis=2), axes=[1])


def padded(channels: int) -> Form:
    """A Pad that a convolution and another node read."""

    def form(g: Made, v: str) -> str:
        border = g.op("Pad", v, g.weight(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
        least = g.op("ReduceMin", border, axes=[2, 3])
        return g.op("Add", g.convolution(border, channels, channels, 3), least)

    return form


def joined_channels(g: Made, v: str) -> str:
    joined = g.op("Concat", v, g.op("Neg", v), g.op("Abs", v), g.op("Relu", v), axis=-1)
    return g.op("Transpose", joined, perm=[0, 3, 1, 2])


MADE: dict[str, dict[str, Maker]] = {
    "affine-as-convolution": {
        "scales read twice, 32 x 56 x 56": stack(scale_between(32), 1, 32, 56, 56),
        "scales read twice, 96 x 28 x 28": stack(scale_between(96), 1, 96, 28, 28),
    },
    "affine-into-weights": {
        "normalisations behind Gemm, 512 x 32": stack(norm_behind_gemm, 512, 32),
        "normalisations behind ConvTranspose, 16 x 64 x 64": stack(norm_behind_transposed, 1, 16, 64, 64),
    },
    "attention": {
        "attention, 128 x 6 x 64": stack(attention(128, 6, 64, packed=False), 1, 128, 384, layers=2),
        "attention of packed products, 196 x 4 x 32": stack(attention(196, 4, 32, packed=True), 1, 196, 128, layers=2),
    },
    "cascaded-nodes": {
        "split and joined again, 256 x 4096": stack(split_and_joined, 256, 4096),
        "joined in twelve steps, 64 x 3328": joined_in_steps,
    },
    "dead-nodes": {
        "activations for nobody, 256 x 4096": stack(dead_branch, 256, 4096),
        "products for nobody, 64 x 256": stack(dead_product, 64, 256),
    },
    "einsum-to-matmul": {
        "attention, 197 x 6 x 64": stack(einsum_attention, 1, 197, 6, 64),
        "layers, 8 x 32 x 256": stack(einsum_layer, 8, 32, 256),
    },
    "gelu": {
        "the half first, 128 x 1024": stack(gelu_half_first, 128, 1024),
        "by Tanh, between products, 64 x 256": stack(between_products(gelu_tanh_power, 256, 1024), 64, 256),
    },
    "hard-swish": {
        "HardSwish, 64 x 56 x 56": stack(hard_swish, 1, 64, 56, 56),
        "by Min and Max, before convolutions, 32 x 56 x 56": stack(hard_swish_of_min, 1, 32, 56, 56),
    },
    "initializers-out-of-inputs": {
        "convolutions, 64 x 40 x 40": listed(
            lambda g, v: norm_behind(g, g.convolution(v, 64, 64, 3, pads=[1, 1, 1, 1]), 64), 1, 64, 40, 40
        ),
        "products with a bias, 128 x 256": listed(
            lambda g, v: g.op("Relu", g.op("Add", g.product(v, 256, 256), g.random(256))), 128, 256
        ),
    },
    "instance-normalization": {
        "over time, 64 x 1000": stack(lambda g, v: instance_torch(g, v, 64, 3), 1, 64, 1000, layers=6),
        "behind convolutions, 32 x 64 x 64": stack(
            lambda g, v: instance_plain(g, g.convolution(v, 32, 32, 3, pads=[1, 1, 1, 1]), 32, 4), 1, 32, 64, 64
        ),
    },
    "int64-to-int32": {
        "a mask of sums, 1024 x 1024": positions(1024, summed=True),
        "a mask of positions, 1024 x 1024": positions(1024, summed=False),
    },
    "layer-normalization": {
        "a square by Mul, 128 x 1024": stack(lambda g, v: norm_plain(g, v, -1, 1024, 2), 128, 1024),
        "tf2onnx, between products, 64 x 256": stack(
            between_products(lambda g, v: norm_tensorflow(g, v, -1, 256, 2), 256, 256), 64, 256
        ),
    },
    "merged-products": {
        "24 heads, 64 x 4": stack(heads_of_one_row(24, 64, 4), 1, 64, layers=1),
        "eight gates, 128 x 16, three layers": stack(heads_of_one_row(8, 128, 16), 1, 128, layers=3),
    },
    "merged-transposes": {
        "transposes before Mul, 32 x 56 x 56": stack(meeting, 1, 32, 56, 56),
        "transposes before Concat, 256 x 512": stack(meeting_in_concat, 1, 256, 512, layers=1),
    },
    "one-hot-to-gather": {
        "Equal and Cast, 512 indices into 256 rows": looked_up(512, 256, 64, one_hot=False),
        "OneHot, 128 indices into 1000 rows": looked_up(128, 1000, 128, one_hot=True),
    },
    "pad-into-convolution": {
        "a Pad read twice, 32 x 56 x 56": stack(padded(32), 1, 32, 56, 56),
        "a Pad read twice, 64 x 28 x 28": stack(padded(64), 1, 64, 28, 28),
    },
    "rms-normalization": {
        "a reciprocal, 128 x 1024": stack(lambda g, v: rms_dynamo(g, v, 1024), 128, 1024),
        "a power, between products, 64 x 256": stack(
            between_products(lambda g, v: rms_power(g, v, 256), 256, 256), 64, 256
        ),
    },
    "softmax": {
        "by hand, 512 x 512": stack(lambda g, v: softmax_guarded(g, v, -1), 512, 512),
        "a reciprocal, between products, 128 x 256": stack(
            between_products(lambda g, v: softmax_reciprocal(g, v, -1), 256, 256), 128, 256
        ),
    },
    "softmax-over-inner-axis": {
        "19 classes, 128 x 128": stack(lambda g, v: g.op("Softmax", v, axis=1), 1, 19, 128, 128, layers=1),
        "16 distances, 4 x 8400": stack(lambda g, v: g.op("Softmax", v, axis=1), 1, 16, 4, 8400, layers=1),
    },
    "transpose-before-concat": {
        "four channels, 128 x 128": stack(joined_channels, 1, 128, 128, 1, layers=1),
        "twelve channels, 64 x 64": stack(joined_channels, 1, 64, 64, 3, layers=1),
    },
    "unrolled-recurrence": {
        "an LSTM of 20 steps, hidden 16": unrolled("torch", 20, 16),
        "a GRU of 40 steps, hidden 64": unrolled("torch gru", 40, 64),
    },
}  # fmt: skip
"""The exact rewrites that rules name as a fix on the CPU, each with two models."""


def changes(path: Path, name: str) -> bool:
    """Whether a rewrite changes a model."""
    return rewrites.find(name).apply(open_model(path).ir.clone(), {}).modified


def real(name: str) -> list[str]:
    """The models of the zoo that a rewrite proposes itself for."""
    found = []
    for model in MODELS:
        try:
            opened = open_model(model_path(model))
        except (ZooError, ortune.OrtuneError):
            continue
        if rewrites.find(name).proposes(opened.ir, None):
            found.append(model)
    return found


def brought(path: Path, name: str, budget: str, store: Path) -> tuple[str, bool]:
    """What a rewrite brings, in words, and whether outputs are the model's own."""
    result = ortune.compare(path, b_rewrite=[name], budget=budget, store=store, no_why=True).result
    found = result.comparison
    if found is None:
        return result.outputs.what if result.outputs else "not compared", False
    if not found.ratio_low or not found.ratio_high:
        return f"{1 / found.ratio:.2f}x ({found.n_blocks} blocks)", True
    text = f"{1 / found.ratio:.2f}x ({1 / found.ratio_high:.2f}-{1 / found.ratio_low:.2f})"
    return (f"**{text}**" if found.verdict in ("faster", "slower") else text), True


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rewrites", nargs="*", default=list(MADE))
    parser.add_argument("--budget", default="15s")
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    heads = ("rewrite", "made for it", "real models") if asked.list else ("rewrite", "made for it", "gain")
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n| {' | '.join(heads)} |\n|---|---|---|")
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for name in asked.rewrites:
            for number, (title, maker) in enumerate(MADE[name].items()):
                folder = Path(scratch) / f"{name}-{number}"
                folder.mkdir()
                path = maker(folder)
                if not changes(path, name):
                    last, right = "not changed", False
                elif asked.list:
                    last, right = ", ".join(real(name)) or "none", True
                else:
                    last, right = brought(path, name, asked.budget, Path(scratch) / "store")
                failed |= not right
                print(f"| {name} | {title} | {last} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
