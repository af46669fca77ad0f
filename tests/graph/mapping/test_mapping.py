"""Nodes of optimised graphs lead back to the user's own: each fusion to exactly the nodes that it replaced."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from mapping_models import BOTH, f32, ints, mapped

from facts import facts

RESIDUAL = """g (float[1,16,8,8] x) => (float[1,16,8,8] y) {
    c = Conv<pads=[1,1,1,1]>(x, w)
    b = BatchNormalization(c, one, zero, zero, one)
    r = Relu(b)
    d = Conv<pads=[1,1,1,1]>(r, w2, zero)
    a = Add(d, r)
    s = Relu(a)
    y = MaxPool<kernel_shape=[1,1]>(s)
}"""


def residual() -> dict[str, np.ndarray]:
    return {
        "w": f32(16, 16, 3, 3),
        "w2": f32(16, 16, 3, 3),
        "one": np.ones(16, np.float32),
        "zero": f32(16) * 0,
    }


@pytest.mark.parametrize("level", BOTH)
def test_a_fused_convolution_is_convolution_normalization_and_activation(level: str) -> None:
    found = mapped(RESIDUAL, residual(), level)
    assert ("/c/Conv", "/b/BatchNormalization", "/r/Relu") in found.mapping.originals.values()
    assert not found.mapping.unmapped
    assert not found.mapping.vanished


def test_an_addition_and_activation_that_blocks_took_in() -> None:
    """The node is named for the convolution alone; no value tells what else is in it."""
    found = mapped(RESIDUAL, residual(), "all").mapping
    if "ReorderInput" not in found.inserted:
        pytest.skip("this processor has no kernels for blocked values")
    assert found.originals["d_nchwc"] == ("/d/Conv", "/a/Add", "/s/Relu")
    assert found.originals["y_nchwc"] == ("/y/MaxPool",)
    assert found.inserted.keys() == {"ReorderInput", "ReorderOutput"}
    facts(found.inserted["ReorderInput"], "into", "/c/Conv")
    facts(found.inserted["ReorderOutput"], "out of", "/y/MaxPool")


def test_what_runs_on_blocked_values_without_a_name_for_them() -> None:
    text = """g (float[1,16,8,8] x) => (float[1,16,8,8] y) {
        a = Conv<pads=[1,1,1,1]>(x, w)
        b = Sigmoid(a)
        m = Mul(a, b)
        c = Conv<pads=[1,1,1,1]>(x, w)
        p = Mul(m, c)
        y = Conv<pads=[1,1,1,1]>(p, w)
    }"""
    for level in BOTH:
        found = mapped(text, {"w": f32(16, 16, 3, 3)}, level)
        ours = {operator: found.of(operator) for operator in ("QuickGelu", "Sigmoid", "Mul")}
        swish = ours["QuickGelu"] or [(*ours["Sigmoid"][0], *ours["Mul"][0])]
        assert swish == [("/b/Sigmoid", "/m/Mul")]
        assert ours["Mul"][-1:] == [("/p/Mul",)]
        # The first and the second convolution compute the same, and one of them is left.
        assert ("/a/Conv", "/c/Conv") in found.of("Conv")
        assert len(found.mapping.merged) == 1


GATED = """g (float[1,16,8,8] x) => (float[1,16,8,8] y) {
    a = Conv<pads=[1,1,1,1]>(x, w)
    s = %s(a)
    m = Mul(a, s)
    b = Conv<pads=[1,1,1,1]>(m, w2)
    t = %s(b)
    n = Mul(b, t)
    c = Conv<pads=[1,1,1,1]>(m, w3)
    p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(m)
    k = Concat<axis=1>(n, c, p)
    y = Conv(k, w4)
}"""
GATED_WEIGHTS = {
    "w": f32(16, 16, 3, 3),
    "w2": f32(16, 16, 3, 3),
    "w3": f32(16, 16, 3, 3),
    "w4": f32(16, 48, 1, 1),
}


@pytest.mark.parametrize("gate", ["Sigmoid", "HardSigmoid<alpha=0.16666667>"])
@pytest.mark.parametrize("level", BOTH)
@pytest.mark.parametrize("named", [True, False])
def test_what_reads_a_gated_activation_does_not_stand_for_it(gate: str, level: str, named: bool) -> None:
    """Between blocked nodes no value has a name, and an activation of two nodes is one there or in its convolution."""
    found = mapped(GATED % (gate, gate), GATED_WEIGHTS, level, named=named).mapping
    seen = Counter(name for names in found.originals.values() for name in names)
    assert max(seen.values()) == 1
    assert not found.vanished
    heads = {operator(names[0]) for node, names in found.originals.items() if found.operators[node] == "Conv"}
    assert heads == {"Conv"}
    assert ["MaxPool"] in [[operator(name) for name in names] for names in found.originals.values()]


def operator(name: str) -> str:
    """Of a node that is called after it."""
    return name.rpartition("/")[2].partition("#")[0]


def test_what_has_a_node_of_its_own_is_in_no_other() -> None:
    """Both convolutions take in a Pad, so that what they read is not what the convolutions of the model read."""
    text = """g (float[1,16,8,8] x) => (float[1,16,7,7] y) {
        a = Conv<pads=[1,1,1,1]>(x, w)
        s = Sigmoid(a)
        m = Mul(a, s)
        p = Pad(m, pads)
        b = Conv(p, w2)
        q = Pad(m, pads)
        c = Conv(q, w3)
        y = Add(b, c)
    }"""
    pads = np.array([0, 0, 0, 0, 0, 0, 1, 1], np.int64)
    found = mapped(text, {**GATED_WEIGHTS, "pads": pads}, "all")
    convolutions = {frozenset(names) for names in found.of("Conv")}
    assert not any({"/s/Sigmoid", "/m/Mul"} & names for names in convolutions)
    assert {"/c/Conv", "/q/Pad"} in convolutions


def test_a_fused_node_is_named_for_its_product() -> None:
    text = """g (float[2,4,8] x, float[2,4,8] z) => (float[2,4,4] y) {
        h = Mul(x, half)
        t = Transpose<perm=[0,2,1]>(z)
        y = MatMul(h, t)
    }"""
    (product,) = mapped(text, {"half": np.array(0.5, np.float32)}).of("FusedMatMul")
    assert product == ("/y/MatMul", "/h/Mul", "/t/Transpose")


def test_products_norms_and_activations_of_a_transformer() -> None:
    text = """g (float[2,3,8] x, float[2,3,8] z) => (float[2,3,8] y) {
        m = MatMul(x, w)
        a = Add(m, bias)
        s = Add(a, z)
        l = LayerNormalization<axis=-1>(s, scale, bias)
        k = Div(l, root)
        e = Erf(k)
        p = Add(e, one)
        q = Mul(l, p)
        y = Mul(q, half)
    }"""
    numbers = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    weights = {
        "w": f32(8, 8),
        "bias": f32(8),
        "scale": f32(8),
        **{k: np.array(v) for k, v in numbers.items()},
    }
    found = mapped(text, weights)
    assert found.of("Gemm") == [("/m/MatMul", "/a/Add")]
    assert found.of("SkipLayerNormalization") == [("/l/LayerNormalization", "/s/Add")]
    assert found.of("Gelu") == [("/k/Div", "/e/Erf", "/p/Add", "/q/Mul", "/y/Mul")]
    assert found.mapping.inserted["gemm_input_reshape"] == "reshape for /m/MatMul"


def test_a_norm_written_out() -> None:
    text = """g (float[2,3,8] x) => (float[2,3,8] y) {
        m = ReduceMean<axes=[-1]>(x)
        d = Sub(x, m)
        p = Pow(d, two)
        v = ReduceMean<axes=[-1]>(p)
        e = Add(v, small)
        r = Sqrt(e)
        n = Div(d, r)
        g = Mul(n, scale)
        b = Add(g, bias)
        y = MatMul(b, w)
    }"""
    numbers = {"two": np.array(2, np.float32), "small": np.array(1e-5, np.float32)}
    found = mapped(text, {"w": f32(8, 8), "bias": f32(8), "scale": f32(8), **numbers})
    (norm,) = found.of("LayerNormalization")
    assert len(norm) == 9
    assert found.of("MatMul") == [("/y/MatMul",)]


def test_quantized_operators_stand_for_what_surrounded_them() -> None:
    text = """g (float[1,8,8,8] x) => (float[1,8,8,8] y) {
        xq = QuantizeLinear(x, s, u)
        xd = DequantizeLinear(xq, s, u)
        wd = DequantizeLinear(wq, s, i)
        c = Conv<pads=[1,1,1,1]>(xd, wd)
        cq = QuantizeLinear(c, s, u)
        cd = DequantizeLinear(cq, s, u)
        m = MaxPool<kernel_shape=[1,1]>(cd)
        mq = QuantizeLinear(m, s, u)
        y = DequantizeLinear(mq, s, u)
    }"""
    zeros = {"u": np.array(128, np.uint8), "i": np.array(0, np.int8), "s": np.array(0.1, np.float32)}
    found = mapped(text, {"wq": ints(np.int8, 8, 8, 3, 3), **zeros})
    quantized = ("/c/Conv", "/xd/DequantizeLinear", "/wd/DequantizeLinear", "/cq/QuantizeLinear")
    assert found.of("QLinearConv") == [quantized]
    assert found.of("MaxPool") == [("/m/MaxPool", "/cd/DequantizeLinear", "/mq/QuantizeLinear")]
    assert found.of("QuantizeLinear") == [("/xq/QuantizeLinear",)]


def test_a_product_that_quantizes_as_it_goes() -> None:
    text = """g (float[4,8] x) => (float[4,8] y) {
        q, qs, qz = DynamicQuantizeLinear(x)
        i = MatMulInteger(q, w, qz, wz)
        c = Cast<to=1>(i)
        s = Mul(qs, ws)
        m = Mul(c, s)
        y = Add(m, bias)
    }"""
    weights = {"w": ints(np.uint8, 8, 8), "wz": np.array(3, np.uint8), "ws": np.array(0.1, np.float32)}
    found = mapped(text, {**weights, "bias": f32(8)})
    (product,) = found.of("DynamicQuantizeMatMul")
    assert [name.rpartition("/")[2] for name in product] == [
        "MatMulInteger", "DynamicQuantizeLinear", "Cast", "Mul", "Mul", "Add",
    ]  # fmt: skip


def test_what_vanishes_says_why() -> None:
    text = """g (float[2,8] x) => (float[2,8] y) {
        t = Transpose(w)
        i = Identity(x)
        a = MatMul(i, t)
        b = MatMul(x, t)
        c = Tanh(a)
        d = Tanh(b)
        e = Add(c, d)
        r = Dropout(e)
        y = Exp(r)
    }"""
    found = mapped(text, {"w": f32(8, 8)}).mapping
    assert found.vanished == ("/t/Transpose", "/i/Identity", "/r/Dropout")
    assert found.why["/t/Transpose"].startswith("computed once")
    assert found.why["/i/Identity"] == found.why["/r/Dropout"]
    facts(found.why["/i/Identity"], "passes its input")
    assert ("/a/MatMul", "/b/MatMul") in found.originals.values()
    assert ("/c/Tanh", "/d/Tanh") in found.originals.values()
    assert ("/e/Add",) in found.originals.values()


def test_transposes_that_cancel_do_not_hide_in_what_was_between() -> None:
    text = """g (float[2,3,4] x) => (float[2,3,4] y) {
        t = Transpose<perm=[0,2,1]>(x)
        r = Relu(t)
        e = Exp(r)
        a = Add(e, k)
        y = Transpose<perm=[0,2,1]>(a)
    }"""
    found = mapped(text, {"k": f32(4, 1)}).mapping
    assert list(found.originals.values()) == [("/r/Relu",), ("/e/Exp",), ("/a/Add",)]
    assert found.vanished == ("/t/Transpose", "/y/Transpose")


def test_several_nodes_made_of_one_and_one_made_of_several() -> None:
    gathers = """g (float[2,3,4] x) => (float[2,4] y) {
        a = Gather<axis=1>(x, i0)
        b = Gather<axis=1>(x, i1)
        c = Gather<axis=1>(x, i2)
        d = Mul(a, b)
        y = Add(d, c)
    }"""
    found = mapped(gathers, {f"i{i}": np.array(i) for i in range(3)})
    assert found.of("Split") == [("/a/Gather", "/b/Gather", "/c/Gather")]
    assert len(found.mapping.inserted) == 3
    softened = mapped("g (float[4] x) => (float[4] y) { a = Sin(x)  b = HardSwish(a)  y = Exp(b) }")
    of = softened.mapping.originals
    assert set(of.values()) == {("/a/Sin",), ("/b/HardSwish",), ("/y/Exp",)}
    assert len(of) > 3, "ONNX Runtime has no kernel for HardSwish and takes its definition"
    assert not softened.mapping.unmapped
