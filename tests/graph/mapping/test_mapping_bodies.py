"""Branches that move out, bodies that stay, functions, and nodes without names."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
from mapping_models import BOTH, f32, mapped, of_file, session, written

import zoo
from facts import facts
from ortune.graph.mapping import as_logged, originals
from ortune.graph.mapping.build import NOT_FOUND
from ortune.graph.model.open import open_model
from ortune.trace.ort_profile import read_profile


def test_a_branch_that_is_always_taken() -> None:
    text = """g (float[4] x) => (float[4] y) {
        k = Constant<value = bool[1] {1}>()
        s = Sin(x)
        o = If (k) <
            then_branch = t () => (float[4] o1) { a = Exp(s)  b = Relu(a)  o1 = Neg(b) },
            else_branch = e () => (float[4] o2) { c = Cos(s)  o2 = Abs(c) }
        >
        y = Tanh(o)
    }"""
    found = mapped(text).mapping
    expected = ["/s/Sin", "/a/Exp", "/b/Relu", "/o1/Neg", "/y/Tanh"]
    assert [name for (name,) in found.originals.values()] == expected
    assert found.vanished == ("/o/If", "/c/Cos", "/o2/Abs")
    facts(found.why["/c/Cos"], "branch", "never taken")
    facts(found.why["/o/If"], "condition", "constant")


def test_a_branch_of_one_node_and_a_branch_within_a_branch() -> None:
    text = """g (float[4] x, bool c) => (float[4] y) {
        k = Constant<value = bool[1] {0}>()
        s = Sin(x)
        o = If (c) <
            then_branch = t () => (float[4] o1) {
                a = Exp(s)
                b = If (k) <
                    then_branch = t2 () => (float[4] p1) { p1 = Cos(a) },
                    else_branch = e2 () => (float[4] p2) { p2 = Sqrt(a) }
                >
                o1 = Neg(b)
            },
            else_branch = e () => (float[4] o2) { d = Cos(s)  o2 = Neg(d) }
        >
        y = Tanh(o)
    }"""
    found = mapped(text)
    assert found.of("Sqrt") == [("/p2/Sqrt",)]
    assert found.of("Neg") == [("/o2/Neg",), ("/o1/Neg",)]
    assert found.mapping.vanished == ("/b/If", "/p1/Cos")


def test_bodies_that_stay() -> None:
    text = """g (float[4] x, int64 n) => (float[4] y) {
        k = Constant<value = bool {1}>()
        z = Loop (n, k, x) <body = b (int64 i, bool c, float[4] v) => (bool c2, float[4] v2) {
            c2 = Identity(c)
            d = Identity(v)
            e = Exp(d)
            t = MatMul(e, w)
            u = Add(t, bias)
            v2 = Relu(u)
        }>
        y = Tanh(z)
    }"""
    found = mapped(text, {"w": f32(4, 4), "bias": f32(4)})
    assert found.of("Loop") == [("/z/Loop",)]
    assert found.of("Gemm") == [("/t/MatMul", "/u/Add")]
    assert found.of("Relu") == [("/v2/Relu",)]
    assert found.mapping.vanished == ("/d/Identity",)


FUNCTIONS = """g (float[4,4] x) => (float[4,4] y) {
    p = local.block(x, w)
    q = local.block(p, w2)
    y = Exp(q)
}
<domain: "local", opset_import: ["" : 17]> block (a, k) => (o) { m = MatMul(a, k)  n = Relu(m)  o = Tanh(n) }
"""


def test_each_call_of_a_function_has_its_own_nodes() -> None:
    found = mapped(FUNCTIONS, {"w": f32(4, 4), "w2": f32(4, 4)})
    assert found.of("MatMul") == [("/m/MatMul",), ("/m/MatMul_2",)]
    assert found.of("Relu") == [("/n/Relu",), ("/n/Relu_2",)]
    assert found.of("Tanh") == [("/o/Tanh",), ("/o/Tanh_2",)]
    assert not found.mapping.vanished


UNNAMED = """g (float[1,16,8,8] x) => (float[1,32,8,8] y) {
    k = Constant<value_float = 2.0>()
    m = Mul(x, k)
    c = Conv<pads=[1,1,1,1]>(m, w)
    d = Conv<pads=[1,1,1,1]>(m, w2)
    e = Relu(d)
    j = Concat<axis=1>(c, e)
    y = HardSwish(j)
}"""


@pytest.mark.parametrize("level", BOTH)
def test_nodes_without_names_are_found_in_a_profile(level: str, tmp_path: Path) -> None:
    path, saved = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(written(UNNAMED, {"w": f32(16, 16, 3, 3), "w2": f32(16, 16, 3, 3)}, named=False), path)
    run = session(
        path,
        level,
        optimized_model_filepath=str(saved),
        enable_profiling=True,
        profile_file_prefix=str(tmp_path / "p"),
    )
    run.run(None, {"x": f32(1, 16, 8, 8)})
    trace = read_profile(Path(run.end_profiling()))
    logged = list(zip(trace.name.texts, trace.nodes.op_type, strict=True))
    found = as_logged(originals(open_model(path).ir, open_model(saved).ir), logged)
    assert {*found.originals, *found.inserted} == {name for name, _ in logged}
    # Their places in the file: the Constant is the first.
    assert found.originals["Mul_0"] == ("Mul#1",)
    assert {found.originals[name] for name in found.originals if "Conv" in found.operators[name]} == {
        ("Conv#2",),
        ("Conv#3", "Relu#4"),
    }
    assert found.originals["Concat_4"] == ("Concat#5",)
    tail = [name for name, op in logged if op in ("HardSwish", "HardSigmoid", "Mul") and name != "Mul_0"]
    assert {found.originals[name] for name in tail} == {("HardSwish#6",)}


@pytest.mark.parametrize("name", ["ppocrv2-cls", "silero-vad"])
@pytest.mark.parametrize("level", BOTH)
def test_real_models(name: str, level: str) -> None:
    found = of_file(zoo.model_path(name), level).mapping
    assert not found.unmapped
    assert NOT_FOUND not in found.why.values()
    fused = [v for k, v in found.originals.items() if found.operators[k] in ("Conv", "FusedConv")]
    if name == "silero-vad":
        ending = ("encoder/0/reparam_conv/Conv", "encoder/0/activation/Relu")
        assert [v for v in fused if v[0].endswith(ending[0]) and v[-1].endswith(ending[1])]
    else:
        assert ("Conv@1", "BatchNormalization@1", "Relu@0") in fused
        assert found.why["Shape@0"].startswith("computed once")


def test_the_levels_agree_on_what_a_node_stands_for() -> None:
    """Blocks change names and no more: which nodes were fused is known at level extended by the names of values."""
    plain, blocked = (of_file(zoo.model_path("ppocrv4-rec"), level).mapping for level in BOTH)
    if "ReorderInput" not in blocked.operators.values():
        pytest.skip("this processor has no kernels for blocked values")
    assert len(blocked.inserted) > 50
    different = set(plain.originals.values()) ^ set(blocked.originals.values())
    assert len(different) <= 4, different  # a Transpose may become a part of a ReorderInput


def test_the_order_of_a_graph_does_not_matter() -> None:
    text = "g (float[4] x) => (float[4] y, float[4] z) { a = Sin(x)  b = Cos(x)  y = Exp(a)  z = Neg(b) }"
    before = written(text, {})
    after = onnx.ModelProto()
    after.CopyFrom(before)
    del after.graph.node[:]
    after.graph.node.extend([before.graph.node[i] for i in (1, 3, 2, 0)])
    found = originals(ir.from_proto(before), ir.from_proto(after))
    assert found.originals == {name: (name,) for name in ("/b/Cos", "/z/Neg", "/a/Sin", "/y/Exp")}
