"""What a static quantizer leaves that serves no integer kernel: pairs that only round, and weights computed anew."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from onnx_text import model_of
from ortune.rewrites._mended_pairs import mend_pairs

Weights = Mapping[str, NDArray[np.generic]]
STEP = {"s": np.float32(0.05), "z": np.uint8(128)}
X = np.random.default_rng(2).uniform(-3, 3, (2, 8)).astype(np.float32)


def mended(proto: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """The model after the repairs, and what is said of them."""
    model = ir.from_proto(proto)
    said = mend_pairs(model, ir.from_proto(proto))
    return ir.to_proto(model), said


def output(proto: onnx.ModelProto, x: NDArray[np.float32] = X) -> NDArray[np.float32]:
    """What ONNX Runtime computes, node by node as the graph has it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": x})
    return np.asarray(result)


def kinds(proto: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def test_pairs_around_an_operator_without_an_integer_kernel_are_removed() -> None:
    """Erf has none: what is rounded before and behind it is computed in float all the same."""
    text = """g (float[2,8] x) => (float[2,8] y) {
        xq = QuantizeLinear (x, s, z)
        xd = DequantizeLinear (xq, s, z)
        e = Erf (xd)
        eq = QuantizeLinear (e, s, z)
        ed = DequantizeLinear (eq, s, z)
        y = Tanh (ed)
    }"""
    plain = model_of("g (float[2,8] x) => (float[2,8] y) { e = Erf (x) y = Tanh (e) }")
    before = model_of(text, weights=STEP)
    after, said = mended(before)
    assert kinds(after) == ["Erf", "Tanh"] and not after.graph.initializer
    assert said == ("2 pairs of QuantizeLinear and DequantizeLinear without an integer kernel removed",)
    assert not np.array_equal(output(before), output(plain))
    np.testing.assert_array_equal(output(after), output(plain))


def test_pairs_that_an_integer_kernel_reads_or_writes_stay() -> None:
    text = """g (float[2,8] x) => (float[2,4] y) {
        xq = QuantizeLinear (x, s, z)
        xd = DequantizeLinear (xq, s, z)
        wd = DequantizeLinear (w, ws, wz)
        m = MatMul (xd, wd)
        mq = QuantizeLinear (m, s, z)
        md = DequantizeLinear (mq, s, z)
        y = Erf (md)
    }"""
    weight = np.random.default_rng(1).integers(-60, 60, (8, 4)).astype(np.int8)
    before = model_of(text, weights={**STEP, "w": weight, "ws": np.float32(0.01), "wz": np.int8(0)})
    after, said = mended(before)
    assert kinds(after) == kinds(before) and said == ()
    np.testing.assert_array_equal(output(after), output(before))


@pytest.mark.parametrize(
    ("operator", "shape", "axis", "channels", "dtype", "zero"),
    [
        ("MatMul", (8, 4), None, 0, np.int8, 3),
        ("MatMul", (8, 4), 1, 4, np.int8, 0),
        ("MatMul", (8, 4), None, 4, np.int8, -7),  # the axis is 1 where it is not given
        ("MatMul", (8, 4), -1, 4, np.uint8, 120),
        ("MatMul", (8, 4), 0, 8, np.uint8, None),
    ],
)
def test_a_weight_that_no_integer_kernel_reads_is_float_again(
    operator: str,
    shape: tuple[int, ...],
    axis: int | None,
    channels: int,
    dtype: type[np.generic],
    zero: int | None,
) -> None:
    """What reads it has no pair on its other side, so each call would compute the weight from its bits."""
    rng = np.random.default_rng(4)
    of = f"<axis={axis}>" if axis is not None else ""
    names = "w, ws" if zero is None else "w, ws, wz"
    text = f"""g (float[2,8] x) => (float[2,4] y) {{
        wd = DequantizeLinear {of} ({names})
        y = {operator} (x, wd)
    }}"""
    low, high = (0, 255) if dtype is np.uint8 else (-127, 127)
    scale = rng.uniform(0.01, 0.2, channels) if channels else np.asarray(0.02)
    weights: dict[str, NDArray[np.generic]] = {
        "w": rng.integers(low, high, shape).astype(dtype),
        "ws": scale.astype(np.float32),
    }
    if zero is not None:
        weights["wz"] = np.full(scale.shape, zero, dtype)
    before = model_of(text, weights=weights)
    after, said = mended(before)
    assert kinds(after) == [operator]
    assert [(i.data_type, tuple(i.dims)) for i in after.graph.initializer] == [
        (onnx.TensorProto.FLOAT, shape)
    ]
    assert said == ("1 weight that was dequantized in every run is stored in float again",)
    np.testing.assert_array_equal(output(after), output(before))


def test_a_convolution_that_lacks_a_pair_behind_it_loses_the_others() -> None:
    """Its result is not quantized, so there is no integer kernel: the pair before it and its weight go, too."""
    text = """g (float[1,2,4,4] x) => (float[1,3,2,2] y) {
        xq = QuantizeLinear (x, s, z)
        xd = DequantizeLinear (xq, s, z)
        wd = DequantizeLinear <axis=0> (w, ws, wz)
        y = Conv (xd, wd)
    }"""
    rng = np.random.default_rng(6)
    weight = rng.integers(-127, 127, (3, 2, 3, 3)).astype(np.int8)
    scale = rng.uniform(0.01, 0.1, 3).astype(np.float32)
    after, said = mended(
        model_of(text, weights={**STEP, "w": weight, "ws": scale, "wz": np.zeros(3, np.int8)})
    )
    assert kinds(after) == ["Conv"] and len(said) == 2
    x = rng.uniform(-3, 3, (1, 2, 4, 4)).astype(np.float32)
    plain = model_of(
        "g (float[1,2,4,4] x) => (float[1,3,2,2] y) { y = Conv (x, wd) }",
        weights={"wd": weight.astype(np.float32) * scale[:, None, None, None]},
    )
    np.testing.assert_array_equal(output(after, x), output(plain, x))
