"""Quantized models that are right, and wrong in one place each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphs import QuantizedGraph


def product(path: Path, bias_scale: float | None, size: float = 0.4, *, signed: bool = False) -> Path:
    """A Gemm between pairs; a bias with a scale of its own is read wrong by the fused QGemm, one without is right."""
    g = QuantizedGraph(3)
    grid = {"zero": 3, "kind": np.int8} if signed else {}
    x = g.pair("x", 0.02, **grid)
    weight, scale = g.int8(g.draw.normal(size=(64, 32)).astype(np.float32) * 0.1)
    bias = g.int32(g.draw.uniform(-size, size, 32), bias_scale or 0.02 * scale)
    y = g.pair(g.add("Gemm", x, weight, bias, name="fc"), 0.05, **grid)
    g.add("Relu", y, out="y", name="last")
    return g.save(path, [8, 64], [8, 32])
