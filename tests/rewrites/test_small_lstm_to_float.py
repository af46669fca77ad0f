"""``small-lstm-to-float``: what ONNX Runtime's quantizer makes of small LSTMs becomes LSTM again, larger ones stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

from facts import facts
from onnx_text import assemble
from ortune import rules
from ortune.graph.model.open import open_model
from ortune.rewrites.small_lstm_to_float import REWRITE
from ortune.rules import Facts
from rules.rule_facts import OLD_HOST


def quantized(folder: Path, *, hidden: int, directions: int, channels: bool) -> Path:
    """An LSTM with states to begin with and its quantized form, as ``float.onnx`` and ``quantized.onnx``."""
    rng = np.random.default_rng(0)
    shapes = {"w": (4 * hidden, 6), "r": (4 * hidden, hidden), "b": (8 * hidden,)}
    weights = [
        numpy_helper.from_array((rng.standard_normal((directions, *shape)) * 0.3).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, "batch", 6]),
        helper.make_tensor_value_info("h", TensorProto.FLOAT, [directions, "batch", hidden]),
    ]
    direction = "bidirectional" if directions == 2 else "reverse"
    node = helper.make_node(
        "LSTM", ["x", "w", "r", "b", "", "h"], ["y", "", "c"], "lstm", hidden_size=hidden, direction=direction
    )
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "c")]
    onnx.save(assemble([node], inputs, outputs, weights), folder / "float.onnx")
    quantize_dynamic(
        folder / "float.onnx", folder / "quantized.onnx", op_types_to_quantize=["LSTM"], per_channel=channels
    )  # fmt: skip
    return folder / "quantized.onnx"


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)


@pytest.mark.parametrize(("directions", "channels"), [(1, False), (2, False), (2, True)])
def test_a_small_one_is_float_again(directions: int, channels: bool, tmp_path: Path) -> None:
    path = quantized(tmp_path, hidden=16, directions=directions, channels=channels)
    opened = open_model(path)
    (found,) = rules.find_rule("QNT016").findings(Facts(model=opened))
    assert found.plan is not None and [spec.name for spec in found.plan.rewrites] == [REWRITE.name]
    model = opened.ir
    assert REWRITE.apply(model).modified
    assert {node.op_type for node in model.graph} == {"LSTM"}
    ir.save(model, tmp_path / "made.onnx")
    rng = np.random.default_rng(1)
    feeds = {
        "x": rng.standard_normal((7, 3, 6)).astype(np.float32),
        "h": rng.standard_normal((directions, 3, 16)).astype(np.float32),
    }
    wanted, was, made = (
        outputs(tmp_path / name, feeds) for name in ("float.onnx", "quantized.onnx", "made.onnx")
    )
    for one, before, new in zip(wanted, was, made, strict=True):
        # The rounding of weights stays, that of inputs and states goes.
        assert np.abs(new - one).max() < 0.03
        if not channels:  # weights of the whole range saturate on x86 without VNNI
            assert np.abs(new - before).max() < 0.05
    assert not REWRITE.apply(model).modified


def test_a_larger_one_stays_and_says_why(tmp_path: Path) -> None:
    path = quantized(tmp_path, hidden=64, directions=1, channels=False)
    opened = open_model(path)
    assert rules.find_rule("QNT016").findings(Facts(model=opened)) == []
    result = REWRITE.apply(opened.ir)
    assert not result.modified
    facts(result.reasons[0], "hidden size of 64")


def test_one_that_may_saturate_is_named_without_vnni(tmp_path: Path) -> None:
    path = quantized(tmp_path, hidden=64, directions=1, channels=True)
    rule = rules.find_rule("QNT009")
    (found,) = rule.findings(Facts(model=open_model(path), host=OLD_HOST))
    assert found.where == ("lstm_quant",)
    quantize_dynamic(
        tmp_path / "float.onnx", tmp_path / "seven.onnx", op_types_to_quantize=["LSTM"], per_channel=True,
        reduce_range=True,
    )  # fmt: skip
    assert rule.findings(Facts(model=open_model(tmp_path / "seven.onnx"), host=OLD_HOST)) == []
