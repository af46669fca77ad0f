"""Activations that exceed their calibrated range are named by every verb that runs a quantized model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ortune
from facts import facts
from onnx_text import model_of, saved
from simulated_machine import Lab, measuring_on

CLIPPED = "QNT019"
QUANTIZED = """
g (float[N,16] x) => (float[N,16] y)
<float s = {SCALE}, uint8 z = {128}>
{
    h = MatMul (x, w)
    q = QuantizeLinear (h, s, z)
    d = DequantizeLinear (q, s, z)
    y = MatMul (d, w)
}
"""
FLOAT = "g (float[N,16] x) => (float[N,16] y) { h = MatMul (x, w) y = MatMul (h, w) }"
W = {"w": np.random.default_rng(3).normal(size=(16, 16)).astype(np.float32)}


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with measuring_on(Lab(3)):
        yield


def made(folder: Path, scale: str = "") -> Path:
    """A model whose activations reach from about -30 to 30; without a scale, in float."""
    text = QUANTIZED.replace("SCALE", scale) if scale else FLOAT
    return saved(folder / f"m{scale}.onnx", model_of(text, weights=W))


def real(folder: Path) -> Path:
    np.savez(folder / "x.npz", x=np.random.default_rng(5).normal(size=(4, 16)).astype(np.float32))
    return folder / "x.npz"


def found(answer: Any) -> list[Any]:
    every = (*answer.alerts, *getattr(answer.result, "findings", ()))
    return [finding for finding in every if finding.code == CLIPPED]


def test_generated_inputs_are_no_proof(tmp_path: Path) -> None:
    for answer in (
        ortune.look(made(tmp_path, "0.01"), budget=20, store=tmp_path / "store"),
        ortune.bench(made(tmp_path, "0.01"), budget=20, processes=3, store=tmp_path / "store"),
    ):
        (finding,) = found(answer)
        assert finding.severity == "note" and finding.where == ("h",)
        facts(finding.evidence, "-1.28", "1.27")
        assert "--inputs" in finding.fix and "calibrate" not in finding.fix


def test_real_inputs_are_said_before_the_answer(tmp_path: Path) -> None:
    answer = ortune.look(made(tmp_path, "0.01"), inputs=real(tmp_path), budget=20, store=tmp_path / "store")
    (finding,) = found(answer)
    assert finding in answer.alerts and finding.severity == "warning" and "calibrate" in finding.fix


def test_compare_names_the_side(tmp_path: Path) -> None:
    sides = made(tmp_path), made(tmp_path, "0.01")
    answer = ortune.compare(*sides, inputs=real(tmp_path), budget=10, store=tmp_path / "store")
    (finding,) = found(answer)
    assert finding.what.startswith("B: ")


def test_a_range_that_holds_them_is_no_finding(tmp_path: Path) -> None:
    assert not found(ortune.look(made(tmp_path, "0.3"), budget=20, store=tmp_path / "store"))
