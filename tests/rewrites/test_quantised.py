"""Fewer bits through ONNX Runtime's quantisers: what they make, what is left out, what is said where they cannot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from facts import facts
from onnx_text import assemble, dims, model_of, saved
from ortune import rewrites
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs.feed_files import write_feeds
from ortune.records import FeedRef, Runtime
from ortune.targets.tool import ToolFailed, ToolProcess

ort.set_default_logger_severity(4)
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
SHAPE = (1, 8, 12, 12)
NEAR = 0.08
"""Relative L2: without VNNI a product of 8 bits saturates at 16, which costs 5 % where it else costs 4."""


def convolutions(path: Path, opset: int = 17) -> OpenModel:
    """Three convolutions and a Gemm, of an exporter that gave its nodes no names."""
    rng = np.random.default_rng(1)

    shapes = {"w0": (32, 8, 3, 3), "w1": (32, 32, 3, 3), "w2": (32, 32, 3, 3), "w3": (32, 10), "b3": (10,)}
    text = """convolutions (float[1,8,12,12] x) => (float[1,10] y) {
        a = Conv <pads = [1,1,1,1]> (x, w0)
        b = Relu (a)
        c = Conv <pads = [1,1,1,1]> (b, w1)
        d = Relu (c)
        e = Conv <pads = [1,1,1,1]> (d, w2)
        f = GlobalAveragePool (e)
        g = Flatten (f)
        y = Gemm (g, w3, b3)
    }"""
    weights = {name: rng.standard_normal(shape).astype(np.float32) * 0.1 for name, shape in shapes.items()}
    saved(path, model_of(text, opset, weights, ir_version=7))
    return open_model(path)


def matrices(path: Path) -> OpenModel:
    """Two products of matrices, and the activation between."""
    rng = np.random.default_rng(2)
    shapes = {"w0": (64, 128), "w1": (128, 64)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) * 0.1 for name, shape in shapes.items()}
    text = (
        "matrices (float[n,64] x) => (float[n,64] y) { a = MatMul (x, w0)  b = Relu (a)  y = MatMul (b, w1) }"
    )
    saved(path, model_of(text, weights=weights))
    return open_model(path)


def fed(folder: Path, shape: tuple[int, ...]) -> tuple[FeedRef, ...]:
    refs = []
    for seed in range(3):
        values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        write_feeds(folder / f"feeds-{seed}", {"x": values})
        refs.append(FeedRef(name=str(seed), path=str(folder / f"feeds-{seed}")))
    return tuple(refs)


def kinds(path: Path) -> list[str]:
    return [n.op_type for n in onnx.load(path).graph.node]


def error(made: Path, original: Path, shape: tuple[int, ...]) -> float:
    x = {"x": np.random.default_rng(9).standard_normal(shape).astype(np.float32)}
    a, b = (
        ort.InferenceSession(str(p), providers=["CPUExecutionProvider"]).run(None, x)[0]
        for p in (original, made)
    )
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


@pytest.mark.parametrize("text", ["static-int8", "static-int8:activations=s8,calibration=percentile"])
def test_static_is_near_smaller_and_stamped(text: str, tmp_path: Path) -> None:
    source = convolutions(tmp_path / "m.onnx")
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, SHAPE))
    made = rewrites.rewrite_model(source, [rewrites.parse(text)], tmp_path / "made", tool)
    assert made.modified
    assert "over 3 inputs" in made.steps[0].result.what
    assert kinds(made.path).count("DequantizeLinear") > 6
    assert made.path.stat().st_size < source.path.stat().st_size / 2
    assert 0 < error(made.path, source.path, SHAPE) < NEAR
    opened = open_model(made.path)
    assert opened.ir.metadata_props[rewrites.MODEL_KEY] == "static-int8"
    again = rewrites.rewrite_model(opened, [rewrites.parse(text)], tmp_path / "again", tool)
    (why,) = again.steps[0].result.reasons
    facts(why, "already", "quantized operators")


def test_an_old_opset_loads_with_scales_by_the_channel(tmp_path: Path) -> None:
    """DequantizeLinear has no axis below opset 13, and the quantiser writes one all the same."""
    source = convolutions(tmp_path / "m.onnx", opset=11)
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, SHAPE))
    made = rewrites.apply_all(source, [rewrites.parse("static-int8")], tmp_path / "made", tool)
    assert 0 < error(made, source.path, SHAPE) < NEAR


def test_what_is_to_stay_stays(tmp_path: Path) -> None:
    """The first and last product and an operator by name, though the exporter named no node."""
    source = convolutions(tmp_path / "m.onnx")
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, SHAPE))
    spec = rewrites.parse("static-int8:operators=products,leave=ends")
    made = onnx.load(rewrites.apply_all(source, [spec], tmp_path / "made", tool))
    floats = {i.name for i in made.graph.initializer if i.data_type == TensorProto.FLOAT and len(i.dims) > 1}
    assert {"w0", "w3"} <= floats
    assert not {"w1", "w2"} & floats


def test_static_needs_inputs_and_says_so(tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    with pytest.raises(ToolFailed, match="needs inputs to calibrate on"):
        rewrites.apply_all(
            convolutions(tmp_path / "m.onnx"), [rewrites.parse("static-int8")], tmp_path / "made", tool
        )


@pytest.mark.parametrize(
    ("text", "holds", "limit"),
    [
        ("dynamic-int8", "MatMulInteger", 0.05),
        ("weight-only-bits", "MatMulNBits", 0.02),
        ("weight-only-bits:bits=4,products=float32", "MatMulNBits", 0.2),
    ],
)
def test_matrices_without_calibration(text: str, holds: str, limit: float, tmp_path: Path) -> None:
    source = matrices(tmp_path / "m.onnx")
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    made = rewrites.apply_all(source, [rewrites.parse(text)], tmp_path / "made", tool)
    assert kinds(made).count(holds) == 2
    assert made.stat().st_size < source.path.stat().st_size / 2
    assert 0 < error(made, source.path, (5, 64)) < limit


def test_no_weights_no_quantiser(tmp_path: Path) -> None:
    text = "g (float[4,4] x) => (float[4,4] y) { y = MatMul (x, x) }"
    saved(tmp_path / "m.onnx", model_of(text))
    for name in ("dynamic-int8", "static-int8", "weight-only-bits"):
        result = rewrites.rewrite_model(
            open_model(tmp_path / "m.onnx"), [rewrites.parse(name)], tmp_path / name,
            ToolProcess(runtime=HERE, folder=tmp_path),
        )  # fmt: skip
        assert not result.modified
        assert "constant float32 weights" in result.steps[0].result.reasons[0]


def test_an_environment_without_onnx_is_told_what_to_install(tmp_path: Path) -> None:
    lacking = tmp_path / "python"
    lacking.write_text(
        f"#!{sys.executable}\nimport runpy, sys\nsys.modules['onnx'] = None\n"
        "at = next(i for i, a in enumerate(sys.argv) if i and not a.startswith('-'))\n"
        "sys.argv = sys.argv[at:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    lacking.chmod(0o755)
    tool = ToolProcess(runtime=Runtime(python=str(lacking), ort_version=ort.__version__), folder=tmp_path)
    with pytest.raises(
        ToolFailed, match=r"the package onnx is missing .* install it there: pip install onnx"
    ):
        rewrites.apply_all(
            matrices(tmp_path / "m.onnx"), [rewrites.parse("dynamic-int8")], tmp_path / "made", tool
        )


def test_other_inputs_make_another_model(tmp_path: Path) -> None:
    """What was calibrated on other values must not be taken from what was made before."""
    refs = fed(tmp_path, SHAPE)
    tools = [ToolProcess(runtime=HERE, folder=tmp_path, feeds=feeds) for feeds in (refs, refs[:1], refs)]
    one, two, three = (tool.identity for tool in tools)
    assert one == three != two
    file = next(Path(refs[0].path).iterdir())
    file.write_bytes(file.read_bytes() + b"\0")
    assert tools[0].identity != one


def test_they_are_proposed_where_allowed_and_where_the_weights_are(tmp_path: Path) -> None:
    def names(opened: OpenModel, *allow: str) -> set[str]:
        return {spec.name for spec, _ in rewrites.proposals(opened.ir, allow)}

    family = {name for name, rewrite in rewrites.all_rewrites().items() if rewrite.family == rewrites.FAMILY}
    assert len(family) == 5
    net, products = convolutions(tmp_path / "c.onnx"), matrices(tmp_path / "m.onnx")
    assert names(net, "numerics") & family == {"static-int8"}
    assert names(products, "numerics") & family == {"static-int8", "dynamic-int8"}
    assert names(products, "dynamic-int8") & family == {"dynamic-int8"}
    assert not names(net) & family
    assert not names(products) & family


def test_weights_in_constant_nodes_count(tmp_path: Path) -> None:
    """As Paddle and others write them: the quantisers find them, so proposals must."""
    proto = onnx.load(matrices(tmp_path / "m.onnx").path)
    nodes = [helper.make_node("Constant", [], [w.name], value=w) for w in proto.graph.initializer]
    del proto.graph.initializer[:]
    for node in reversed(nodes):
        proto.graph.node.insert(0, node)
    onnx.save(proto, tmp_path / "c.onnx")
    opened = open_model(tmp_path / "c.onnx")
    assert {"static-int8", "dynamic-int8"} <= {
        spec.name for spec, _ in rewrites.proposals(opened.ir, ["numerics"])
    }
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    for text, holds in (("dynamic-int8", "MatMulInteger"), ("weight-only-bits", "MatMulNBits")):
        made = rewrites.apply_all(opened, [rewrites.parse(text)], tmp_path / "made", tool)
        assert kinds(made).count(holds) == 2


@pytest.mark.parametrize("text", ["dynamic-int8", "static-int8"])
def test_products_that_only_branches_hold_are_named(text: str, tmp_path: Path) -> None:
    branches = """branches (float[4,64] x, bool flag) => (float[4,128] y) {
        y = If (flag) <
            then_branch = then () => (float[4,128] a) { a = MatMul (x, w) },
            else_branch = otherwise () => (float[4,128] b) { b = MatMul (x, w) }
        >
    }"""
    path = saved(tmp_path / "m.onnx", model_of(branches, weights={"w": np.ones((64, 128), np.float32)}))
    feeds = {"x": np.ones((4, 64), np.float32), "flag": np.asarray(True)}
    write_feeds(tmp_path / "feeds", feeds)
    refs = (FeedRef(name="0", path=str(tmp_path / "feeds")),)
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=refs)
    with pytest.raises(ToolFailed, match="MatMul nodes are inside If or Loop"):
        rewrites.apply_all(open_model(path), [rewrites.parse(text)], tmp_path / "made", tool)


@pytest.mark.parametrize("kind", ["BatchNormalization", "ConvTranspose", "depthwise"])
def test_forms_that_quantizers_break_are_right_all_the_same(kind: str, tmp_path: Path) -> None:
    """A bias that comes of a folded normalization, a transposed convolution, and one scale over unlike channels."""
    rng = np.random.default_rng(12)
    unlike = 2.0 ** np.linspace(-4, 4, 16).astype(np.float32)[:, None, None, None]
    weights = {
        "w0": 0.2 * rng.standard_normal((16, 8, 3, 3)),
        "w1": 0.2 * rng.standard_normal((16, 16, 3, 3)),
    }
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1] * 4)]
    if kind == "BatchNormalization":
        weights |= {"scale": rng.uniform(0.5, 2, 16), "shift": rng.uniform(-1, 1, 16)}
        weights |= {"mean": rng.uniform(-1, 1, 16), "variance": rng.uniform(0.5, 2, 16)}
        nodes.append(helper.make_node(kind, ["a", "scale", "shift", "mean", "variance"], ["b"]))
        nodes.append(helper.make_node("Conv", ["b", "w1"], ["y"]))
    elif kind == "ConvTranspose":
        weights["bias"] = rng.standard_normal(16)
        nodes.append(helper.make_node("Relu", ["a"], ["b"]))
        nodes.append(helper.make_node(kind, ["b", "w1", "bias"], ["y"], strides=[2, 2]))
    else:
        weights["w1"] = rng.standard_normal((16, 1, 3, 3)) * unlike
        weights["w2"] = 0.2 * rng.standard_normal((8, 16, 1, 1)) / unlike.reshape(1, 16, 1, 1)
        nodes.append(helper.make_node("Conv", ["a", "w1"], ["b"], group=16))
        nodes.append(helper.make_node("Conv", ["b", "w2"], ["y"]))
    path = tmp_path / "m.onnx"
    onnx.save(
        assemble(
            nodes,
            f"float[{dims(SHAPE)}] x",
            "float[] y",
            [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()],
            name="forms",
        ),
        path,
    )
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, SHAPE))
    specs = [rewrites.parse("cross-layer-equalization"), rewrites.parse("static-int8:range=7")]
    made = rewrites.apply_all(
        open_model(path), specs if kind == "depthwise" else specs[1:], tmp_path / "made", tool
    )
    assert 0 < error(made, path, SHAPE) < NEAR


@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose", "Gemm"])
def test_the_copy_of_a_shared_bias_takes_no_name_that_a_value_has(op_type: str, tmp_path: Path) -> None:
    """The quantizer's own copy of "bias1" is called "bias2", as the output of the second product is here."""
    rng = np.random.default_rng(5)
    side, shape = (3, SHAPE) if op_type != "Gemm" else (0, (256, 8))
    weights = {f"w{i}": 0.2 * rng.standard_normal((8, 8, *[side] * (2 if side else 0))) for i in range(2)}
    weights["bias1"] = rng.standard_normal(8)
    pads: dict[str, Any] = {"pads": [1] * 4} if side else {}
    nodes = [
        helper.make_node(op_type, ["x", "w0", "bias1"], ["a"], **pads),
        helper.make_node(op_type, ["x", "w1", "bias1"], ["bias2"], **pads),
        helper.make_node("Neg", ["bias2"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()]
    path = saved(
        tmp_path / "m.onnx", assemble(nodes, f"float[{dims(shape)}] x", f"float[{dims(shape)}] y", tensors)
    )
    tool = ToolProcess(runtime=HERE, folder=tmp_path, feeds=fed(tmp_path, shape))
    made = rewrites.apply_all(
        open_model(path), [rewrites.parse("static-int8:range=7")], tmp_path / "made", tool
    )
    assert 0 < error(made, path, shape) < NEAR
