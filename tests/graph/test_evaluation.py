"""What a node computes is said by ONNX's reference evaluator, for shapes, scalars and constant folding alike."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from ortune.graph.constants import one_number
from ortune.graph.evaluation import Array, evaluate


def node(op: str, n_inputs: int = 1, **attributes: object) -> ir.Node:
    inputs = [ir.Value(name=f"x{i}") for i in range(n_inputs)]
    return ir.node(op, inputs, attributes)  # type: ignore[arg-type]


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("made", "inputs", "result"),
    [
        (node("Div", 2), (ints(-7, 7), ints(2, -2)), [-3, -3]),
        (node("Concat", 2, axis=0), (ints(1), ints(2, 3)), [1, 2, 3]),
        (node("Unsqueeze", 2), (np.array(5), ints(0)), [5]),
        (node("Range", 3), (np.array(1), np.array(9), np.array(3)), [1, 4, 7]),
        (node("NonZero"), (np.array([False, True, True]),), [[1, 2]]),
        (node("Round"), (np.array([0.5, 1.5], np.float32),), [0.0, 2.0]),
    ],
    ids=lambda case: case.op_type if isinstance(case, ir.Node) else "",
)
def test_a_node_computes_as_onnx_says(made: ir.Node, inputs: tuple[Array, ...], result: list[float]) -> None:
    for _ in range(2):  # the second time it is kept, and another array
        computed = evaluate(made, 17, inputs)
        assert computed is not None
        assert computed[0].tolist() == result
        computed[0][...] = 0


@pytest.mark.parametrize(
    ("made", "inputs"),
    [
        (node("ConstantOfShape"), (ints(1 << 20, 1 << 20),)),
        (node("Expand", 2), (np.zeros(1, np.float32), ints(1 << 40))),
        (node("Tile", 2), (np.zeros(1, np.float32), ints(1 << 40))),
        (node("Range", 3), (np.array(0), np.array(1 << 50), np.array(1))),
        (node("Add", 2), (np.zeros((100, 1)), np.zeros((1, 100)))),
    ],
    ids=lambda case: case.op_type if isinstance(case, ir.Node) else "",
)
def test_a_large_result_is_not_computed(made: ir.Node, inputs: tuple[Array, ...]) -> None:
    assert evaluate(made, 17, inputs, most_bytes=1 << 15) is None


def test_what_contradicts_itself_has_no_result() -> None:
    assert evaluate(node("Reshape", 2), 17, (ints(1, 2, 3), ints(2, 2))) is None
    assert evaluate(node("Gather", 2), 17, (ints(1, 2), np.array(7))) is None
    assert evaluate(node("Unknown"), 17, (ints(1),)) is None
    # Of axes in mixed order before opset 13 the evaluator makes other sizes than ONNX says.
    assert evaluate(node("Unsqueeze", axes=[2, 0]), 11, (ints(1, 2),)) is None


def test_a_scalar_may_be_computed_from_integers() -> None:
    numbers = [ir.node("Constant", [], {"value_int": n}) for n in (-7, 2)]
    quotient = ir.node("Div", [number.outputs[0] for number in numbers])
    computed = one_number(quotient.outputs[0])
    assert computed is not None
    assert computed.tolist() == -3
