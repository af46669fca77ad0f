"""What a call may feed is a default and no constant, whoever asks; below IR version 4 nothing of the kind is fed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from ortune import rewrites
from ortune.graph.constants import constant, is_constant, is_overridable, scalar, stored
from ortune.graph.cost import costs
from ortune.graph.model.open import OpenModel, open_model

TEXT = """
<ir_version: {version}, opset_import: ["" : 8]>
weights (float[4] x{inputs}) => (float[4] y)
<float[4] w = {{1,2,3,4}}>
{{
    n = Neg (w)
    y = Add (x, n)
}}
"""


def opened(folder: Path, version: int, inputs: str) -> OpenModel:
    onnx.save(onnx.parser.parse_model(TEXT.format(version=version, inputs=inputs)), folder / "m.onnx")
    return open_model(folder / "m.onnx")


@pytest.mark.parametrize(
    ("version", "inputs", "fed"),
    [(8, "", False), (8, ", float[4] w", True), (3, ", float[4] w", False)],
    ids=["constant", "default", "old"],
)
def test_a_default_is_no_constant_for_anybody(version: int, inputs: str, fed: bool, tmp_path: Path) -> None:
    model = opened(tmp_path, version, inputs)
    weight = model.ir.graph.initializers["w"]
    copied = model.ir.clone().graph.initializers["w"]
    for value in (weight, copied):
        assert is_overridable(value) == fed
        assert is_constant(value) != fed
        assert (constant(value) is None) == fed
        np.testing.assert_array_equal(constant(value, defaults=True), [1, 2, 3, 4])
        assert stored(value) is value.const_value
    negated = costs(model.ir, {"x": (4,)}).nodes[0]
    assert (negated.times == 0) != fed
    changed = rewrites.find("constant-folding").apply(model.ir.clone())
    assert changed.modified != fed


def test_numbers_of_a_constant_node_are_what_they_say() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        numbers (float x) => (float y, int64[2] z, float u)
        {
            one = Constant <value_float = 1.5> ()
            two = Constant <value_ints = [2, 3]> ()
            many = Constant <value = float[2] {1, 2}> ()
            y = Add (x, one)
            z = Identity (two)
            u = ReduceSum <keepdims = 0> (many)
        }
    """
    values = {v.name: v for node in ir.from_proto(onnx.parser.parse_model(text)).graph for v in node.outputs}
    assert scalar(values["one"]) == 1.5
    np.testing.assert_array_equal(constant(values["two"]), np.array([2, 3], np.int64))
    assert scalar(values["two"]) is None and constant(values["many"], most=1) is None
    assert constant(values["y"]) is None and stored(values["y"]) is None
