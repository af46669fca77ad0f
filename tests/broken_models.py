"""Valid models that ONNX Runtime 1.32 runs without graph optimisation, and cannot load or run with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx

from onnx_text import model_of

RESHAPES = """
g (float[{rows},{columns}] x, int64[1,{n}] s) => (float[{out}] y)
<int64[1] count = {{{n}}}>
{{ [R1] r = Reshape (s, count) [R2] y = Reshape (x, r) }}
"""
"""A Reshape makes the shape of the next; the optimiser takes both for a chain, and the model does not load."""

RMS = """
g (float[{rows},1] x) => (float[{rows},{n}] y)
<float two = {{2.0}}, float tiny = {{1e-6}}, float[{n}] scale = {{{scale}}}>
{{
    [pow] p = Pow (x, two) [mean] m = ReduceMean <axes = [-1], keepdims = 1> (p) [eps] a = Add (m, tiny)
    [root] s = Sqrt (a) [div] d = Div (x, s) [mul] y = Mul (d, scale)
}}
"""
"""A norm whose scale broadcasts its only column; the fused node, from level extended on, takes no such scale."""

LAYER_NORM = """
g (float[4,1] x) => (float[4,3] y)
<float two = {2.0}, float tiny = {1e-6}, float[3] scale = {1.5,-2.0,1.0}, float[3] bias = {1.0,2.0,3.0}>
{
    [mean] u = ReduceMean <axes = [-1], keepdims = 1> (x) [less] c = Sub (x, u) [pow] p = Pow (c, two)
    [mean2] m = ReduceMean <axes = [-1], keepdims = 1> (p) [eps] a = Add (m, tiny) [root] s = Sqrt (a)
    [div] d = Div (c, s) [mul] e = Mul (d, scale) [add] y = Add (e, bias)
}
"""
"""The same with a mean and a bias; this fusion is one of level basic."""


def chained_reshapes(path: Path, rows: int = 2, columns: int = 2, out: str = "4") -> Path:
    """Does not load from level basic on."""
    n = len(out.split(","))
    return _saved(path, RESHAPES.format(rows=rows, columns=columns, n=n, out=out))


def mendable_reshapes(path: Path) -> Path:
    """As ``chained_reshapes``, of a shape that is an initializer and an input: a constant, it would be folded."""
    model = model_of(RESHAPES.format(rows=2, columns=2, n=1, out="4"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([[4]]), "s"))
    onnx.save(model, path)
    return path


def broad_rms(path: Path, rows: str = "1", scale: str = "1.5,-2.0") -> Path:
    """Fails in its first run from level extended on."""
    return _saved(path, RMS.format(rows=rows, n=len(scale.split(",")), scale=scale))


def broad_layer_norm(path: Path) -> Path:
    """Fails in its first run from level basic on."""
    return _saved(path, LAYER_NORM)


def short_bias(path: Path, channels: int = 4) -> Path:
    """Two convolutions share a bias that fits one of them: wrong at every level, and onnx.checker passes it."""
    text = f"""
    g (float[1,2,6,6] x, float[{channels},2,1,1] a, float[{2 * channels},2,1,1] b, float[{channels}] bias)
      => (float[1,{channels},6,6] y, float[1,{2 * channels},6,6] z)
    {{ [ConvA] y = Conv (x, a, bias) [ConvB] z = Conv (x, b, bias) }}
    """
    return _saved(path, text)


def _saved(path: Path, text: str) -> Path:
    model = model_of(text)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
