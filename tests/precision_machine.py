"""A simulated machine for lower precision: a model with inputs, and a processor with bfloat16 and slow steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import simulated_machine
import simulated_trial
from onnx_text import assemble
from ortune import targets
from ortune.records import Plan

OPENVINO = "OpenVINOExecutionProvider"


def with_bfloat16(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor has VNNI and bfloat16; outputs in bfloat16 are those of this machine's number type."""
    features = (*simulated_machine.HOST.features, "avx512_vnni", "avx512_bf16", "amx_bf16")
    host = msgspec.structs.replace(simulated_machine.HOST, features=features)
    monkeypatch.setattr(simulated_machine, "HOST", host)


def slow_host(monkeypatch: pytest.MonkeyPatch, *, tool_s: float = 4.0) -> None:
    """A run takes 10 ms, a start 1 s, and a file of a quantizer as long as it is given."""
    monkeypatch.setattr(simulated_trial, "RUN_NS", 10e6)
    monkeypatch.setattr(simulated_trial, "START_S", 1.0)
    monkeypatch.setattr(simulated_machine, "TOOL_S", tool_s)


def places_reached(plans: Iterable[Plan]) -> Counter[str]:
    """How many plans there are of each target."""
    return Counter(targets.target_of(plan).name for plan in plans)


def products(folder: Path, *, infinite: bool = False) -> Path:
    """Two products, and inputs for them; between them, if wanted, values that are infinite and masked later."""
    rng = np.random.default_rng(5)
    weights = [
        numpy_helper.from_array((rng.standard_normal((64, 64)) * 0.12).astype(np.float32), name)
        for name in "ab"
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["m"], name="first"),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("MatMul", ["r", "b"], ["y"], name="second"),
    ]
    if infinite:
        # The first product is computed from minus infinity, and only where it is no number is known of it.
        nodes = [
            helper.make_node("Relu", ["x"], ["positive"]),
            helper.make_node("Log", ["positive"], ["logarithm"]),
            helper.make_node("MatMul", ["logarithm", "a"], ["m"], name="first"),
            helper.make_node("IsNaN", ["m"], ["lost"]),
            helper.make_node("MatMul", ["x", "b"], ["second_out"], name="second"),
            helper.make_node("Where", ["lost", "second_out", "x"], ["y"]),
        ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 64])
    (folder / "data").mkdir(parents=True)
    onnx.save(assemble(nodes, "float[8,64] x", [y], weights, name="products"), folder / "m.onnx")
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((8, 64)).astype(np.float32)
        np.savez(folder / "data" / f"{seed}.npz", x=x)
    return folder / "m.onnx"
