"""Transposes alike that meet behind other operators become one, or none, and every number stays."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from applied import apply, check, fused_by_ort, outputs, reason, run, values
from onnx import TensorProto, helper
from optimised_models import optimised

import zoo
from graphs import Graph
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model

MERGED = "merged-transposes"
LAST, FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
"""Channels to the last axis, and back."""
SHAPE: list[int | str] = ["n", 3, 4, 5]


def ints(g: Graph, *numbers: int) -> str:
    return g.weight(np.array(numbers, np.int64))


def turned(g: Graph, operator: str = "Neg", order: list[int] | None = None) -> str:
    """Something of x, with its axes in another order."""
    return g.op("Transpose", g.op(operator, "x"), perm=order or LAST)


def same(model: onnx.ModelProto, *, opset: int = 17) -> tuple[Counter[str], onnx.ModelProto]:
    """What the rewrite makes of a model, whose outputs stay bit by bit."""
    made, result, kinds = apply(MERGED, model)
    assert result.modified, result.reasons
    again, repeated, _ = apply(MERGED, made)
    assert not repeated.modified
    assert again == made
    for x in (values(2, 3, 4, 5), values(1, 3, 4, 5, seed=1)):
        for ours, theirs in zip(run(made, x), run(model, x), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    return kinds, made


def ways(g: Graph) -> dict[str, str]:
    """Two ways to each place where they meet, named for it."""
    row, whole = g.weight(values(3)), g.weight(values(4, 5, 3))
    a, b = turned(g), turned(g, "Abs")
    pads = g.op("Pad", a, ints(g, 0, 1, 2, 0, 0, 0, 1, 3))
    return {
        "Pow": g.op("Add", g.op("Pow", a, g.number(2)), g.op("Pow", b, g.number(2))),
        "Mul": g.op("Add", g.op("Mul", a, row), g.op("Mul", whole, b)),
        "Clip": g.op("Max", g.op("Clip", a, g.number(-1), g.number(1)), b, g.op("Relu", a)),
        "Where": g.op("Where", g.op("Greater", a, g.number(0)), g.op("Exp", b), a),
        "Softmax": g.op("Mul", g.op("Softmax", a, axis=2), g.op("Softmax", b, axis=1)),
        "Reduce": g.op("Div", a, g.op("ReduceMax", b, axes=[1, 2])),
        "Sum": g.op("Div", a, g.op("ReduceSum", b, ints(g, -1))),
        "Pad": g.op("Concat", pads, g.op("Pad", b, ints(g, 0, 1, 2, 0, 0, 0, 1, 3)), axis=1),
        "Slice": g.op(
            "Add",
            g.op("Slice", a, ints(g, 0, 3), ints(g, 2, 0), ints(g, 3, -2), ints(g, 1, -1)),
            g.op("Slice", b, ints(g, 1, 1), ints(g, 4, 3), ints(g, 2, 3)),
        ),
        "Concat": g.op("Concat", g.op("Tanh", a), g.op("Sigmoid", b), axis=-1),
        "Quantize": g.op(
            "Add", g.op("DequantizeLinear", g.op("QuantizeLinear", a, g.number(0.1)), g.number(0.1)), b
        ),
    }


@pytest.mark.parametrize("name", list(ways(Graph())))
@pytest.mark.parametrize("opset", [13, 17])
def test_one_transpose_is_left(name: str, opset: int) -> None:
    g = Graph()
    chosen = ways(g)[name]
    kept = {chosen}
    for node in reversed(g.nodes):  # what leads there alone
        kept |= set(node.input) if node.output[0] in kept else set()
    g.nodes = [node for node in g.nodes if node.output[0] in kept]
    before = sum(node.op_type == "Transpose" for node in g.nodes)
    kinds, _ = same(g.model([*SHAPE], [chosen], opset=opset))
    assert before == 2
    assert kinds["Transpose"] == 1


def test_what_onnx_runtime_leaves_is_one_transpose_less_or_two(tmp_path: Path) -> None:
    g = Graph()
    model = g.model([*SHAPE], [g.op("Add", g.op("Relu", turned(g)), g.op("Sigmoid", turned(g, "Abs")))])
    assert fused_by_ort(model, tmp_path)["Transpose"] == 2
    _, made = same(model)
    assert fused_by_ort(made, tmp_path)["Transpose"] == 1
    opened = open_model(zoo.model_path("oww-melspectrogram"))
    assert optimised(opened.path, tmp_path)["Transpose"] == 2
    copy = opened.ir.clone()
    assert rewrites.find(MERGED).apply(copy).modified
    save_model(copy, tmp_path / "made.onnx")
    # The one that is left becomes part of the product behind it.
    assert optimised(tmp_path / "made.onnx", tmp_path)["Transpose"] == 0
    x = np.random.default_rng(0).standard_normal((1, 8000), dtype=np.float32)
    ours, theirs = (outputs(path, {"input": x}) for path in (tmp_path / "made.onnx", opened.path))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-4, atol=1e-4)


def test_only_what_onnx_runtime_leaves_is_proposed() -> None:
    g = Graph()
    direct = ir.serde.deserialize_model(g.model([*SHAPE], [g.op("Add", turned(g), turned(g, "Abs"))]))
    assert not rewrites.find(MERGED).proposes(direct, None)
    g = Graph()
    behind = ir.serde.deserialize_model(
        g.model([*SHAPE], [g.op("Add", g.op("Exp", turned(g)), turned(g, "Abs"))])
    )
    assert "1 place" in rewrites.find(MERGED).proposes(behind, None)[0][1]


@pytest.mark.parametrize("new", [0, 1, 3, -1])
@pytest.mark.parametrize("dropped", ["Squeeze", "Reshape"])
@pytest.mark.parametrize("order", [[0, 2, 3, 1], [3, 2, 0, 1], [2, 1, 3, 0]])
def test_axes_of_one_element_come_and_go(order: list[int], dropped: str, new: int) -> None:
    g = Graph()
    ends = []
    for operator in ("Neg", "Abs"):
        pooled = g.op("ReduceMax", g.op(operator, "x"), axes=[2])  # n, 3, 1, 5
        way = g.op("Transpose", pooled, perm=order)
        if dropped == "Squeeze":
            way = g.op("Squeeze", way, ints(g, order.index(2) - 4))
        else:
            sizes = [{0: -1, 1: 3, 3: 5}[axis] for axis in order if axis != 2]
            way = g.op("Reshape", way, ints(g, *sizes))
        ends.append(g.op("Unsqueeze", g.op("Tanh", way), ints(g, new)))
    kinds, _ = same(g.model([*SHAPE], [g.op("Sub", *ends)]))
    assert kinds["Transpose"] <= 1
    assert kinds["Reshape"] == 0


def test_a_reshape_that_does_more_is_left() -> None:
    for sizes in ([-1, 15], [0, 5, 3], [-1, 3, 5], [2, 5, -1]):
        g = Graph()
        ways = [
            g.op("Reshape", g.op("Transpose", g.op("ReduceMax", x, axes=[2]), perm=LAST), ints(g, *sizes))
            for x in ("x", g.op("Neg", "x"))
        ]
        assert "no equal Transposes" in reason(MERGED, g.model(["n", 3, 4, 5], [g.op("Add", *ways)]))


def test_a_real_model_from_tensorflow(tmp_path: Path) -> None:
    opened = open_model(zoo.model_path("basic-pitch"))
    copy = opened.ir.clone()
    assert rewrites.find(MERGED).proposes(copy, None)
    assert rewrites.find(MERGED).apply(copy).modified
    save_model(copy, tmp_path / "made.onnx")
    assert optimised(tmp_path / "made.onnx", tmp_path)["Transpose"] <= 2
    assert optimised(opened.path, tmp_path)["Transpose"] >= 10
    (name,) = (v.name for v in opened.ir.graph.inputs)
    x = np.random.default_rng(0).standard_normal((1, 43844, 1), dtype=np.float32)
    pairs = zip(outputs(tmp_path / "made.onnx", {name: x}), outputs(opened.path, {name: x}), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_one_meeting_after_another() -> None:
    g = Graph()
    first = g.op("Add", g.op("Relu", turned(g)), g.op("Sigmoid", turned(g, "Abs")))
    second = g.op("Mul", g.op("Tanh", first), g.op("Neg", turned(g, "Sign")))
    kinds, _ = same(g.model([*SHAPE], [second]))
    assert kinds["Transpose"] == 1


def test_transposes_behind_one_another_all_go() -> None:
    g = Graph()
    ways = (turned(g, operator) for operator in ("Neg", "Abs"))
    y = g.op("Mul", *(g.op("Sigmoid", g.op("Transpose", way, perm=FIRST)) for way in ways))
    kinds, _ = same(g.model(SHAPE, [y]))
    assert kinds["Transpose"] == 2


@pytest.mark.parametrize(("opset", "axes"), [(13, [1, 2]), (18, [2, -3])])
def test_a_reduction_that_drops_what_was_moved_needs_none(opset: int, axes: list[int]) -> None:
    g = Graph()
    given = [ints(g, *axes)] if opset >= 18 else []
    attributes = {} if opset >= 18 else {"axes": axes}
    y = g.op("ReduceMean", g.op("Relu", turned(g)), *given, keepdims=0, **attributes)
    model = g.model([*SHAPE], [y], opset=opset)
    kinds = check(MERGED, model, [values(2, 3, 4, 5)])
    assert kinds["Transpose"] == 0


def test_a_reduction_that_leaves_another_order_is_left() -> None:
    g = Graph()
    y = g.op("ReduceMean", g.op("Relu", turned(g)), axes=[0], keepdims=0)
    assert "no equal Transposes" in reason(MERGED, g.model([*SHAPE], [y]))


def test_a_transpose_that_others_read_is_told() -> None:
    g = Graph()
    a, b = turned(g), turned(g, "Abs")
    y = g.op("Add", g.op("Relu", a), b)
    why = reason(MERGED, g.model([*SHAPE], [y, a]))
    assert f"'{a}' is also used" in why


def test_what_broadcasts_to_something_larger_is_told() -> None:
    g = Graph()
    column, row = (
        g.op("Transpose", g.op("ReduceMax", "x", axes=[axis]), perm=[0, 2, 3, 1]) for axis in (2, 3)
    )
    y = g.op("Add", g.op("Relu", column), g.op("Neg", row))
    assert "may be larger" in reason(MERGED, g.model([2, 3, 400, 500], [y]))
    g = Graph()
    small = g.op("Transpose", g.op("ReduceMax", "x", axes=[2, 3]), perm=LAST)
    other = g.op("Transpose", g.op("ReduceMin", "x", axes=[2, 3]), perm=LAST)
    y = g.op("Add", g.op("Mul", small, g.weight(values(40, 50, 3))), other)
    assert "may be larger" in reason(MERGED, g.model([2, 3, 400, 500], [y]))
    g = Graph()
    gate = g.op("Sigmoid", g.op("Transpose", g.op("ReduceMax", "x", axes=[2, 3]), perm=LAST))
    kinds, _ = same(g.model([*SHAPE], [g.op("Mul", gate, turned(g))]))
    assert kinds["Transpose"] == 1


def test_other_orders_axes_and_opsets_are_left() -> None:
    g = Graph()
    y = g.op("Add", g.op("Relu", turned(g)), g.op("Relu", turned(g, "Abs", [0, 3, 2, 1])))
    assert "no equal Transposes" in reason(MERGED, g.model([1, 4, 4, 4], [y]))
    g = Graph()
    y = g.op("Add", g.op("Relu", turned(g)), g.op("Relu", turned(g, "Abs")))
    assert "no equal Transposes" in reason(MERGED, g.model([*SHAPE], [y], opset=12))
    # Over an inner axis the operator would turn the tensor by itself.
    g = Graph()
    y = g.op("Add", g.op("Softmax", turned(g)), turned(g, "Abs"))
    assert "no equal Transposes" in reason(MERGED, g.model([*SHAPE], [y]))
    # What transpose-before-concat would turn round again.
    g = Graph()
    y = g.op("Concat", g.op("Relu", turned(g, "Neg", FIRST)), turned(g, "Abs", FIRST), axis=1)
    assert "no equal Transposes" in reason(MERGED, g.model([*SHAPE], [y]))


def test_a_list_of_scales_is_along_an_axis_and_stays() -> None:
    g = Graph()
    scales = g.weight(np.full(3, 0.1))
    zero = g.weight(np.zeros(3, np.int8))
    q = g.op("QuantizeLinear", turned(g), scales, zero, axis=3)
    y = g.op("Add", g.op("DequantizeLinear", q, scales, zero, axis=3), turned(g, "Abs"))
    assert "no equal Transposes" in reason(MERGED, g.model([*SHAPE], [y]))


def test_a_single_number_that_is_computed_stays_as_it_is() -> None:
    g = Graph()
    number = g.op("ReduceMax", "x", axes=[0, 1, 2, 3], keepdims=0)
    y = g.op("Add", g.op("Sub", turned(g), number), turned(g, "Abs"))
    kinds, _ = same(g.model([*SHAPE], [y]))
    assert kinds["Transpose"] == 1


def test_what_a_branch_reads_is_used_elsewhere() -> None:
    g = Graph()
    a = turned(g)
    y = g.op("Add", g.op("Relu", a), g.op("Relu", turned(g, "Abs")))
    out = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    branch = helper.make_graph([helper.make_node("Identity", [a], ["inner"], name="b")], "b", [], [out])
    go = g.op("Greater", g.op("ReduceMax", "x", axes=[0, 1, 2, 3], keepdims=0), g.number(0))
    chosen = g.op("If", go, then_branch=branch, else_branch=branch)
    model = g.model([2, 3, 4, 5], [y, chosen])
    assert f"'{a}' is also used" in reason(MERGED, model)
