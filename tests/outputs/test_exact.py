"""What ONNX's reference gives in double precision, and where it gives nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from ortune.graph.model.open import open_model
from ortune.outputs.exact import Evaluations, evaluate
from ortune.outputs.files import Array

X = np.float32([[-300.0, -100.2, -0.4, 0.6, 99.9, 300.0]])


def exact(text: str, folder: Path) -> dict[str, Array] | None:
    return evaluate(ir.from_proto(onnx.parser.parse_model(text)), {"x": X})


SEQUENCES = """
<ir_version: 8, opset_import: ["" : 17]>
sequences (float[1,6] x) => (float[1,6] y, seq(float[1,n]) s) <int64[2] parts = {{{parts}}}>
{{
    y = Neg (x)
    s = SplitToSequence <axis = 1> (x, parts)
}}
"""


@pytest.mark.parametrize("parts", ["3,3", "2,4"], ids=["equal", "unequal"])
def test_a_sequence_beside_a_tensor_is_left_out(parts: str, tmp_path: Path) -> None:
    found = exact(SEQUENCES.format(parts=parts), tmp_path)
    assert found is not None and list(found) == ["y"]
    assert found["y"].dtype == np.float64


QUANTIZED = """
<ir_version: 10, opset_import: ["" : 21]>
quantized (float[1,6] x) => (float[1,6] y) <float s = {{1.0}}{weights}>
{{
    q = QuantizeLinear <{attributes}> (x, s{zero})
    y = DequantizeLinear (q, s{zero})
}}
"""


@pytest.mark.parametrize(
    ("attributes", "weights", "zero", "low", "high"),
    [
        ("axis = 0", "", "", 0, 255),
        ("output_dtype = 2", "", "", 0, 255),
        ("output_dtype = 3", "", "", -128, 127),
        ("output_dtype = 5", "", "", -300, 300),
        ("output_dtype = 3", ", int8 z = {-28}", ", z", -100, 155),
    ],
    ids=["no type", "uint8", "int8", "int16", "zero point"],
)
def test_values_are_cut_off_at_the_ends_of_the_type_that_the_node_names(
    attributes: str, weights: str, zero: str, low: int, high: int, tmp_path: Path
) -> None:
    found = exact(QUANTIZED.format(attributes=attributes, weights=weights, zero=zero), tmp_path)
    assert found is not None
    np.testing.assert_array_equal(found["y"], np.clip(np.rint(X), low, high))


@pytest.mark.parametrize(
    "attributes",
    ["output_dtype = 17", "output_dtype = 22", "output_dtype = 1", "block_size = 2, axis = 1"],
    ids=["float8", "int4", "float", "blocks"],
)
def test_quantizations_that_are_not_known_give_nothing(attributes: str, tmp_path: Path) -> None:
    assert exact(QUANTIZED.format(attributes=attributes, weights="", zero=""), tmp_path) is None


@pytest.mark.parametrize("wide", [True, False])
def test_a_constant_node_has_its_numbers_wherever_they_lie(tmp_path: Path, *, wide: bool) -> None:
    """Inside the model file, where a large one is read from later, and in a file of weights."""
    numbers = np.arange(4000, dtype=np.float32).reshape(40, 100)
    nodes = [
        onnx.helper.make_node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(numbers, "w")),
        onnx.helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    sides = [
        onnx.helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [1, 40]), ("y", [1, 100]))
    ]
    graph = onnx.helper.make_graph(nodes, "g", sides[:1], sides[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "inline.onnx")
    onnx.save(
        model,
        tmp_path / "apart.onnx",
        save_as_external_data=True,
        location="apart.data",
        convert_attribute=True,
    )
    for name in ("inline.onnx", "apart.onnx"):
        found = evaluate(open_model(tmp_path / name).ir, {"x": np.ones((1, 40), np.float32)}, wide=wide)
        assert found is not None
        np.testing.assert_array_equal(found["y"], numbers.sum(axis=0, keepdims=True))


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("MaxPool <kernel_shape = [2, 2], ceil_mode = 1> (x)", "misread"),
        ('MaxPool <kernel_shape = [2, 2], auto_pad = "SAME_LOWER"> (x)', "misread"),
        ("com.example.Own (x)", "operators"),
        ("RandomNormalLike (x)", "random"),
        ("MaxPool <kernel_shape = [2, 2]> (x)", ""),
    ],
)
def test_what_the_evaluator_computes_otherwise_is_no_unknown_operator(
    node: str, why: str, tmp_path: Path
) -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>\n'
        f"g (float[1,1,4,4] x) => (float[a,b,c,d] y) {{ y = {node} }}"
    )
    model = ir.from_proto(onnx.parser.parse_model(text))
    assert Evaluations(tmp_path, None).evaluate(model, "0", []).why == why
