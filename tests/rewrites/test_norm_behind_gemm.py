"""A batch normalisation beside a Gemm goes into its weights, as beside a convolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnx_text import assemble
from ortune import rewrites
from ortune.graph.model.open import open_model


@pytest.mark.parametrize("turned", [0, 1])
def test_a_batch_normalization_behind_a_gemm_goes_into_its_weights(tmp_path: Path, turned: int) -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (5, 3) if turned else (3, 5), **dict.fromkeys(("c", "s", "b", "m", "v"), (5,))}
    held = {name: rng.random(shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "c"], ["p"], transB=turned),
        helper.make_node("BatchNormalization", ["p", "s", "b", "m", "v"], ["y"]),
    ]
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, k]) for n, k in (("x", 3), ("y", 5))]
    path = tmp_path / "m.onnx"
    onnx.save(assemble(nodes, sides[:1], sides[1:], held), path)
    model = open_model(path).ir.clone()
    assert rewrites.find("affine-into-weights").apply(model).modified
    new = ir.to_proto(model)
    assert [node.op_type for node in new.graph.node] == ["Gemm"]
    x = {"x": rng.random((4, 3)).astype(np.float32)}
    made = [
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, x)[0]
        for data in (path.read_bytes(), new.SerializeToString())
    ]
    np.testing.assert_allclose(made[1], made[0], rtol=1e-5)


@pytest.mark.parametrize("scaled_first", [False, True])
@pytest.mark.parametrize("exponent", [-16, -3])
def test_a_scale_that_float16_cannot_hold_in_the_weights_stays(scaled_first: bool, exponent: int) -> None:
    """Each product would be zero in the weights, and their sum is not."""
    nodes = ["s = Mul (x, k)\n y = MatMul (s, w)", "p = MatMul (x, w)\n y = Mul (p, k)"]
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float16[1,1024] x) => (float16[1,1] y) '
        f"{{ {nodes[not scaled_first]} }}"
    )
    held = {"w": np.full((1024, 1), 2.0**-10), "k": np.full((), 2.0**exponent)}
    model.graph.initializer.extend(
        numpy_helper.from_array(v.astype(np.float16), name) for name, v in held.items()
    )
    changed = ir.from_proto(model)
    assert rewrites.find("affine-into-weights").apply(changed).modified == (exponent == -3)
    x = {"x": np.full((1, 1024), 2.0**13, np.float16)}
    before, after = (
        onnxruntime.InferenceSession(data.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, x
        )
        for data in (model, ir.to_proto(changed))
    )
    assert before[0].item() == after[0].item() == 2.0 ** (13 + exponent)


@pytest.mark.parametrize("between", ["", "Relu"])
def test_a_batch_normalization_before_a_gemm_goes_into_its_weights(tmp_path: Path, between: str) -> None:
    """Straight from what is fed, and behind an activation, where nothing says what shape it has."""
    rng = np.random.default_rng(0)
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4,3] x) => (float[4,5] y) {%s
        n = BatchNormalization (r, s, b, m, v)
        y = Gemm <transB = 1> (n, w, c)
    }"""
    model = parser.parse_model(text % (f"r = {between} (x)" if between else ""))
    if not between:
        model.graph.node[0].input[0] = "x"
    held = {"w": (5, 3), "c": (5,), **dict.fromkeys("sbmv", (3,))}
    weights = [numpy_helper.from_array(rng.random(shape).astype(np.float32), n) for n, shape in held.items()]
    model.graph.initializer.extend(weights)
    onnx.save(model, tmp_path / "m.onnx")
    changed = open_model(tmp_path / "m.onnx").ir.clone()
    assert rewrites.find("affine-into-weights").apply(changed).modified
    new = ir.to_proto(changed)
    assert [node.op_type for node in new.graph.node] == [*filter(None, [between]), "Gemm"]
    x = {"x": rng.standard_normal((4, 3)).astype(np.float32)}
    made = [
        onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, x)[0]
        for data in (model.SerializeToString(), new.SerializeToString())
    ]
    np.testing.assert_allclose(made[1], made[0], rtol=1e-5)
