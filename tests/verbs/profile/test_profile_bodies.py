"""Nodes without a name in bodies, with real ONNX Runtime: each graph numbers its own from 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import ortune
from ortune.records import ProfiledNode

MODEL = """
<ir_version: 8, opset_import: ["" : 17]>
bodies (bool a, bool b, float[32,32] x, float[64,64] z, int64 turns) => (float[32,32] y, float[64,64] u)
{
    p = MatMul (x, w)
    h = If (a) <
        then_branch = t () => (float[32,32] t1) { t0 = MatMul (p, w)  t1 = Tanh (t0) },
        else_branch = e () => (float[32,32] e1) { e1 = Neg (p) }
    >
    u = If (b) <
        then_branch = r () => (float[64,64] r1) { r0 = MatMul (z, v)  r1 = Relu (r0) },
        else_branch = o () => (float[64,64] o1) { o1 = Neg (z) }
    >
    y = If (a) <
        then_branch = l () => (float[32,32] l1) {
            l1 = Loop (turns, a, h) <
                body = k (int64 i, bool c, float[32,32] s) => (bool c1, float[32,32] s1) {
                    q = MatMul (s, w)  s1 = Tanh (q)  c1 = Identity (c)
                }
            >
        },
        else_branch = m () => (float[32,32] m1) { m1 = Neg (h) }
    >
}
"""
TURNS = 5


@pytest.fixture
def model(tmp_path: Path) -> Path:
    model = onnx.parser.parse_model(MODEL)
    draw = np.random.default_rng(0)
    for name, size in (("w", 32), ("v", 64)):
        weight = draw.standard_normal((size, size)).astype(np.float32) / size
        model.graph.initializer.append(numpy_helper.from_array(weight, name))
    onnx.save(model, tmp_path / "m.onnx")
    inputs = {"a": True, "b": True, "x": np.ones((32, 32), np.float32), "z": np.ones((64, 64), np.float32)}
    np.savez(tmp_path / "in.npz", turns=TURNS, **inputs)
    return tmp_path / "m.onnx"


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("level", ["all", "disable"])
def test_each_body_keeps_its_nodes_their_shapes_and_their_time(model: Path, level: str) -> None:
    folder = model.parent
    result = ortune.profile(
        model,
        inputs=folder / "in.npz",
        set=["intra=1", f"level={level}"],
        no_peak=True,
        store=folder / "store",
    ).result
    products = {node.name: node for node in result.nodes if node.op_type == "MatMul"}

    def about(node: ProfiledNode) -> tuple[float, float | None, tuple[str, ...], str, int | None]:
        return node.calls, node.flops, node.originals, node.inside, node.output_bytes

    small, large = 2 * 32**3, 2 * 64**3
    assert {name: about(node) for name, node in products.items()} == {
        "MatMul_0": (1, small, ("MatMul#0",), "", 4 * 32**2),
        "If_1/MatMul_0": (1, small, ("If#1/then_branch/MatMul#0",), "If_1", 4 * 32**2),
        "If_2/MatMul_0": (1, large, ("If#2/then_branch/MatMul#0",), "If_2", 4 * 64**2),
        "If_3/Loop_0/MatMul_0": (
            TURNS, TURNS * small, ("If#3/then_branch/Loop#0/MatMul#0",), "If_3/Loop_0", 4 * 32**2,
        ),
    }  # fmt: skip
    (together,) = (operator for operator in result.operators if operator.op_type == "MatMul")
    assert sum(node.time_ns for node in products.values()) == pytest.approx(together.time_ns)
    assert not [node.name for node in result.nodes if not node.originals]


@pytest.mark.usefixtures("few_runs")
def test_a_name_that_looks_like_a_number_keeps_its_origin(model: Path) -> None:
    named = onnx.load(model)
    named.graph.node[2].attribute[0].g.node[0].name = "MatMul_0"
    onnx.save(named, model)
    folder = model.parent
    result = ortune.profile(
        model, inputs=folder / "in.npz", set=["intra=1"], no_peak=True, store=folder / "store"
    ).result
    origins = {node.name: node.originals for node in result.nodes if node.op_type == "MatMul"}
    assert origins["If_2/MatMul_0"] == ("MatMul_0",) and origins["MatMul_0"] == ("MatMul#0",)


BRANCHES = """
<ir_version: 8, opset_import: ["" : 17]>
branches (bool a, float[32,32] x, float[64,32] z) => (float[n,32] y) <bool b = {1}>
{
    c = Xor (a, b)
    y = If (c) <
        then_branch = t () => (float[n,32] t1) { t0 = MatMul (x, w)  t1 = FIRST (t0) },
        else_branch = e () => (float[n,32] e1) { e0 = MatMul (z, w)  e1 = Relu (e0) }
    >
}
"""


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize("first", ["Tanh", "Relu"])
@pytest.mark.parametrize("taken", ["then", "else"])
@pytest.mark.parametrize("named", [False, True], ids=["without names", "of one name"])
def test_of_nodes_that_both_branches_have_the_one_is_named_whose_branch_ran(
    tmp_path: Path, taken: str, first: str, named: bool
) -> None:
    model = onnx.parser.parse_model(BRANCHES.replace("FIRST", first))
    if named:
        for branch in model.graph.node[1].attribute:
            branch.g.node[0].name = "product"
    weight = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    values = {name: np.ones((rows, 32), np.float32) for name, rows in (("x", 32), ("z", 64))}
    np.savez(tmp_path / "in.npz", a=taken == "else", **values)
    answer = ortune.profile(
        tmp_path / "m.onnx",
        inputs=tmp_path / "in.npz",
        set=["intra=1"],
        no_peak=True,
        store=tmp_path / "store",
    )
    (product,) = (node for node in answer.result.nodes if node.op_type == "MatMul")
    place = "product" if named else "MatMul#0"
    assert product.name == f"If#1/{taken}_branch/{place}"
    assert product.originals == ((place,) if named else (product.name,))
    assert product.flops == 2 * 32 * 32 * (32 if taken == "then" else 64)
    assert answer.result.side is not None and answer.result.side.label == "m.onnx"


IN_A_LOOP = """
<ir_version: 8, opset_import: ["" : 17]>
turns (int64 turns, float[48,48] x) => (float[48,48] y)
<int64 two = {2}, int64 zero = {0}, bool on = {1}>
{
    y = Loop (turns, on, x) <
        body = k (int64 i, bool c, float[48,48] s) => (bool c1, float[48,48] s1) {
            c1 = Identity (c)
            r = Mod (i, two)
            odd = Equal (r, zero)
            s1 = If (odd) <
                then_branch = t () => (float[48,48] t1) { t0 = MatMul (s, w)  t1 = Tanh (t0) },
                else_branch = e () => (float[48,48] e1) { e0 = MatMul (w, s)  e1 = Tanh (e0) }
            >
        }
    >
}
"""


@pytest.mark.usefixtures("few_runs")
def test_both_branches_of_one_run_have_a_row_each(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(IN_A_LOOP)
    weight = np.random.default_rng(0).standard_normal((48, 48)).astype(np.float32) / 48
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "in.npz", turns=5, x=np.ones((48, 48), np.float32))
    answer = ortune.profile(
        tmp_path / "m.onnx",
        inputs=tmp_path / "in.npz",
        set=["intra=1"],
        no_peak=True,
        store=tmp_path / "store",
    )
    calls = {node.name: node.calls for node in answer.result.nodes if node.op_type == "MatMul"}
    # Turns 0, 2 and 4 take one branch, 1 and 3 the other.
    assert calls == {
        "Loop#0/If#3/then_branch/MatMul#0": 3,
        "Loop#0/If#3/else_branch/MatMul#0": 2,
    }
