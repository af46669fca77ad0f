"""uint8 weights become int8: which do, and that outputs stay the same bit by bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from facts import facts
from onnx_text import assemble
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import RewriteSpec

ort.set_default_logger_severity(4)
NAME = "uint8-weights-to-int8"
EXACT = "session.x64quantprecision"
"""With it ONNX Runtime sums pairs of 8-bit products in 32 bits on every CPU."""


def tensor(name: str, array: object, dtype: type) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array, dtype), name)


def quantized(path: Path, *, low: int = 0, high: int = 256, shared: bool = True) -> Path:
    """Products in every form: a convolution by channels, a Gemm, two integer products, one without a zero point."""
    rng = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return tensor(name, rng.integers(low, high, shape), np.uint8)

    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w0", "s0", "z0"], ["w0d"], axis=0),
        helper.make_node("Conv", ["xd", "w0d"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s1", "z"], ["cq"]),
        helper.make_node("QLinearConv", ["cq", "s1", "z", "w1", "s", "z1", "s2", "z"], ["dq"]),
        helper.make_node("DequantizeLinear", ["dq", "s2", "z"], ["d"]),
        helper.make_node("Flatten", ["d"], ["f"]),
        helper.make_node("DequantizeLinear", ["w2", "s"], ["w2d"]),
        helper.make_node("QuantizeLinear", ["f", "s2", "z"], ["fq"]),
        helper.make_node("DequantizeLinear", ["fq", "s2", "z"], ["fd"]),
        helper.make_node("MatMul", ["fd", "w2d"], ["g"]),
        helper.make_node("DynamicQuantizeLinear", ["g"], ["gq", "gs", "gz"]),
        helper.make_node("MatMulInteger", ["gq", "w3", "gz", "z1" if shared else "z3"], ["h"]),
        helper.make_node("MatMulInteger", ["gq", "w3" if shared else "w4", "gz"], ["y"]),
        # Not a weight: it is added, and both sides of a sum have one type.
        helper.make_node("DequantizeLinear", ["b", "s"], ["bd"]),
        helper.make_node("Add", ["g", "bd"], ["k"]),
    ]
    onnx.save(
        assemble(
            nodes,
            "float[1,4,6,6] x",
            "int32[1,9] h, int32[1,9] y, float[1,8] k",
            [
                tensor("s", 0.02, np.float32),
                tensor("s0", rng.random(8) / 50, np.float32),
                tensor("s1", 0.1, np.float32),
                tensor("s2", 0.5, np.float32),
                tensor("z", 120, np.uint8),
                tensor("z0", np.full(8, 128), np.uint8),
                tensor("z1", 126, np.uint8),
                weight("w0", 8, 4, 3, 3),
                weight("w1", 4, 8, 1, 1),
                weight("w2", 64, 8),
                weight("w3", 8, 9),
                *([] if shared else [weight("w4", 8, 9), tensor("z3", 126, np.uint8)]),
                tensor("b", rng.integers(0, 256, 8), np.uint8),
            ],
            name="quantized",
        ),
        path,
    )
    return path


def run(path: Path, *, level: ort.GraphOptimizationLevel, exact: bool) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    if exact:
        options.add_session_config_entry(EXACT, "1")
    x = np.random.default_rng(1).standard_normal((1, 4, 6, 6)).astype(np.float32) * 2
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})


@pytest.mark.parametrize(
    ("low", "high", "exact", "level"),
    [
        pytest.param(0, 256, True, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, id="exact sums"),
        pytest.param(97, 160, False, ort.GraphOptimizationLevel.ORT_ENABLE_ALL, id="saturate nowhere"),
        pytest.param(97, 160, False, ort.GraphOptimizationLevel.ORT_DISABLE_ALL, id="as written"),
    ],
)
def test_outputs_are_bit_equal(
    low: int, high: int, exact: bool, level: ort.GraphOptimizationLevel, tmp_path: Path
) -> None:
    # For exact sums ONNX Runtime makes uint8 weights of int8 ones again, and fails on those that two nodes read.
    opened = open_model(quantized(tmp_path / "m.onnx", low=low, high=high, shared=not exact))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made")
    assert made.modified
    onnx.checker.check_model(str(made.path), full_check=True)
    before, after = (run(path, level=level, exact=exact) for path in (opened.path, made.path))
    for old, new in zip(before, after, strict=True):
        assert np.ptp(old) > 0
        np.testing.assert_array_equal(new, old)


def test_weights_of_products_alone_are_changed(tmp_path: Path) -> None:
    opened = open_model(quantized(tmp_path / "m.onnx"))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made")
    graph = onnx.load(made.path).graph
    unsigned = {w.name for w in graph.initializer if w.data_type == TensorProto.UINT8}
    assert unsigned == {"z", "b"}
    signed = [w for w in graph.initializer if w.data_type == TensorProto.INT8]
    # w3 and z1 are stored once, although two nodes read each.
    assert len([w for w in signed if len(w.dims) > 1]) == 4
    again = rewrites.rewrite_model(open_model(made.path), [RewriteSpec(name=NAME)], tmp_path / "again")
    (why,) = again.steps[0].result.reasons
    facts(why, "no quantized product", "uint8 weights")


def test_a_zero_point_that_is_computed_keeps_its_weight(tmp_path: Path) -> None:
    onnx.save(
        assemble(
            [helper.make_node("MatMulInteger", ["a", "w", "", "z"], ["y"])],
            "uint8[2,4] a, uint8 z",
            "int32[2,4] y",
            [tensor("w", np.eye(4), np.uint8)],
        ),
        tmp_path / "m.onnx",
    )
    assert not rewrites.rewrite_model(
        open_model(tmp_path / "m.onnx"), [RewriteSpec(name=NAME)], tmp_path / "made"
    ).modified
