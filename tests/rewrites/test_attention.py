"""Attention as exporters write it becomes one operator; each near miss is told; the tools for whole graphs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from applied import apply, check, fused_by_ort, outputs, reason, run, values
from fused_forms import (
    ATTENTIONS,
    SIZE,
    WIDTH,
    Maker,
    attention_dynamo,
    attention_packed,
    attention_torch,
    norm_torch,
)
from onnx import TensorProto, helper, numpy_helper
from optimised_models import optimised

import zoo
from facts import facts
from graphs import Graph
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.graph.model.save import save_model
from ortune.records import Runtime
from ortune.targets.tool import ToolFailed, ToolProcess

ATTENTION = "attention"
LENGTH = 5
SHAPE: list[int | str] = ["n", "length", WIDTH]
Form = Callable[[Maker, str, str | None], str]
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)


def mask_of(g: Graph, rank: int, queries: int, lowest: float = float(np.finfo(np.float32).min)) -> str:
    """A mask that hides the last two keys, from the input for one that no optimiser folds."""
    hidden = np.zeros((1,) * (rank - 2) + (queries, LENGTH), np.float32)
    hidden[..., -2:] = lowest
    return g.weight(hidden)


@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_in_every_form(form: Form) -> None:
    g = Graph()
    kinds = check(
        ATTENTION,
        g.model(SHAPE, [form(g, "x", None)]),
        [values(1, LENGTH, WIDTH), values(3, 7, WIDTH), values(2, 1, WIDTH)],
    )
    assert kinds["MultiHeadAttention"] == 1
    assert not kinds["Softmax"] + kinds["Transpose"] + kinds["IsNaN"]


@pytest.mark.parametrize("form", ATTENTIONS)
@pytest.mark.parametrize(("rank", "queries"), [(4, 1), (4, LENGTH), (2, LENGTH), (3, 1)])
def test_a_mask_of_any_rank_is_kept(form: Form, rank: int, queries: int) -> None:
    g = Graph()
    kinds = check(
        ATTENTION,
        g.model(SHAPE, [form(g, "x", mask_of(g, rank, queries))]),
        [values(1, LENGTH, WIDTH), values(3, LENGTH, WIDTH)],
    )
    assert kinds["MultiHeadAttention"] == 1
    assert not kinds["Softmax"]


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_opsets(opset: int) -> None:
    g = Graph()
    y = attention_packed(g, "x", mask_of(g, 4, 1))
    kinds = check(ATTENTION, g.model(SHAPE, [y], opset=opset), [values(2, LENGTH, WIDTH)])
    assert kinds["MultiHeadAttention"] == 1


def test_what_onnx_runtime_leaves_of_the_newer_exporter(tmp_path: Path) -> None:
    g = Graph()
    model = g.model(SHAPE, [attention_dynamo(g, "x", mask_of(g, 4, 1))])
    assert fused_by_ort(model, tmp_path)["Softmax"] == 1
    assert fused_by_ort(apply(ATTENTION, model)[0], tmp_path)["MultiHeadAttention"] == 1


def test_a_mask_that_hides_all_keeps_what_it_was() -> None:
    """A row whose mask leaves nothing is uniform where the mask is finite; an infinite one is left to the guard."""
    lowest = float(np.finfo(np.float32).min)
    g = Graph()
    hidden = g.weight(np.full((1, 1, LENGTH, LENGTH), lowest, np.float32))
    check(ATTENTION, g.model(SHAPE, [attention_dynamo(g, "x", hidden)]), [values(2, LENGTH, WIDTH)])
    g = Graph()
    hidden = g.weight(np.full((1, 1, LENGTH, LENGTH), -np.inf, np.float32))
    assert "may be infinite" in reason(ATTENTION, g.model(SHAPE, [attention_dynamo(g, "x", hidden)]))


def test_near_misses_are_told() -> None:
    g = Graph()
    y = attention_torch(g, "x", None)
    weights = next(node.output[0] for node in g.nodes if node.op_type == "Softmax")
    why = reason(ATTENTION, g.model(SHAPE, [y, weights]))
    assert weights in why
    assert "used elsewhere" in why
    g = Graph(np.float64)
    y = attention_packed(g, "x", None)
    assert "float32" in reason(ATTENTION, g.model(SHAPE, [y], dtype=TensorProto.DOUBLE))
    g = Graph()
    plain = g.op("MatMul", g.op("Softmax", g.op("MatMul", "x", g.op("Transpose", "x", perm=[0, 2, 1]))), "x")
    assert "not split into heads" in reason(ATTENTION, g.model(SHAPE, [plain]))
    g = Graph()
    assert "no Softmax" in reason(ATTENTION, g.model(SHAPE, [g.op("Softmax", "x", axis=-1)]))


def test_queries_of_one_batch_that_are_spread_over_many_are_left() -> None:
    """The products broadcast the batch, and the operator does not."""
    g = Graph()
    learned = g.weight(values(1, 3, WIDTH))
    shape = g.weight(np.array([0, 0, WIDTH // SIZE, SIZE], np.int64))
    q = g.op(
        "Transpose", g.op("Reshape", g.op("Add", learned, g.op("ReduceMax", "x")), shape), perm=[0, 2, 1, 3]
    )
    k = g.op("Transpose", g.op("Reshape", "x", shape), perm=[0, 2, 3, 1])
    v = g.op("Transpose", g.op("Reshape", "x", shape), perm=[0, 2, 1, 3])
    weights = g.op("Softmax", g.op("MatMul", q, k), axis=-1)
    joined = g.op("Transpose", g.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    y = g.op("Reshape", joined, g.weight(np.array([0, 0, WIDTH], np.int64)))
    assert "different batch sizes" in reason(ATTENTION, g.model(SHAPE, [y]))


def weighted(
    g: Graph,
    q: str,
    k: str,
    v: str,
    *,
    scale: float = 0.5,
    rows: tuple[int, int] = (0, 0),
) -> str:
    """Attention to what is flat."""
    shape = g.weight(np.array([*rows, WIDTH // SIZE, SIZE], np.int64))
    turned = [g.op("Reshape", each, shape) for each in (q, k, v)]
    heads = [
        g.op("Transpose", each, perm=perm)
        for each, perm in zip(turned, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    ]
    scores = g.op("Mul", g.op("MatMul", heads[0], heads[1]), g.number(scale))
    joined = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), heads[2]), perm=[0, 2, 1, 3])
    return g.op("Reshape", joined, g.weight(np.array([0, 0, WIDTH], np.int64)))


def test_weights_with_batches_of_their_own_are_left() -> None:
    g = Graph()
    q = g.op("MatMul", "x", g.weight(values(4, WIDTH, WIDTH)))
    k, v = (g.op("MatMul", "x", g.weight(values(WIDTH, WIDTH, seed=seed))) for seed in (1, 2))
    model = g.model([1, LENGTH, WIDTH], [weighted(g, q, k, v)])
    assert run(model, values(1, LENGTH, WIDTH))[0].shape == (4, LENGTH, WIDTH)
    assert "different batch sizes" in reason(ATTENTION, model)


@pytest.mark.parametrize(("axis", "one"), [(0, False), (2, True), (-1, True)])
def test_what_is_split_off_a_batch_is_another_batch(axis: int, one: bool) -> None:
    g = Graph()
    wide = g.op("MatMul", "x", g.weight(values(WIDTH, WIDTH if not axis else 3 * WIDTH)))
    sizes = [1, 3, 3] if not axis else [WIDTH] * 3
    parts = [f"part{n}" for n in range(3)]
    g.nodes.append(
        helper.make_node("Split", [wide, g.weight(np.array(sizes, np.int64))], parts, axis=axis, name="split")
    )
    # The shapes that are inferred are not declared.
    model = g.model([1 if axis else 7, LENGTH, WIDTH], [weighted(g, *parts)])
    if one:
        assert check(ATTENTION, model, [values(1, LENGTH, WIDTH)])["MultiHeadAttention"] == 1
        return
    assert run(model, values(7, LENGTH, WIDTH))[0].shape == (3, LENGTH, WIDTH)
    assert "different batch sizes" in reason(ATTENTION, model)


def test_a_scale_of_zero_is_none_for_the_operator() -> None:
    g = Graph()
    q, k, v = (g.op("MatMul", "x", g.weight(values(WIDTH, WIDTH, seed=seed))) for seed in range(3))
    model = g.model([1, LENGTH, WIDTH], [weighted(g, q, k, v, scale=0.0)])
    assert "scale of zero" in reason(ATTENTION, model)


@pytest.mark.parametrize("rows", [(0, 0), (0, -1)])
def test_a_row_of_unknown_width_may_be_several_positions(rows: tuple[int, int]) -> None:
    """What is fed is twice as wide as the heads, where the rows may be split further."""
    g = Graph()
    model = g.model(["n", LENGTH, "width"], [weighted(g, "x", "x", "x", rows=rows)])
    check(ATTENTION, model, [values(2, LENGTH, WIDTH if rows == (0, 0) else 2 * WIDTH)])


@pytest.mark.parametrize(("name", "count"), [("minilm-int8", 6), ("ppocrv4-rec", 2)])
def test_on_real_models(name: str, count: int, tmp_path: Path) -> None:
    opened = open_model(zoo.model_path(name))
    made = opened.ir.clone()
    assert f"{count} MultiHeadAttention" in rewrites.find(ATTENTION).apply(made).what
    save_model(made, tmp_path / "made.onnx")
    rng = np.random.default_rng(0)
    feeds = {"x": rng.random((2, 3, 48, 64), np.float32)}
    if name == "minilm-int8":
        shown = np.ones((2, 9), np.int64)
        shown[1, 5:] = 0
        feeds = {
            "input_ids": rng.integers(0, 3000, (2, 9)),
            "attention_mask": shown,
            "token_type_ids": np.zeros((2, 9), np.int64),
        }
    pairs = zip(outputs(tmp_path / "made.onnx", feeds), outputs(opened.path, feeds), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=2e-5)


# ONNX Runtime's tool for transformers


def image_block(g: Graph) -> str:
    """A block of a vision transformer: no mask, so that the session's own optimiser leaves the attention."""
    attended = attention_torch(g, "x", None)
    rng = np.random.default_rng(5)
    weight = g.weight((rng.standard_normal((WIDTH, WIDTH)) * 0.4).astype(np.float32))
    projected = g.op("Add", g.op("MatMul", attended, weight), g.weight(rng.standard_normal(WIDTH) * 0.1))
    return norm_torch(g, g.op("Add", projected, "x"), 2, WIDTH, 3)


def by_tool(
    name: str, model: onnx.ModelProto, folder: Path, runtime: Runtime = HERE
) -> tuple[rewrites.RewrittenFile, onnx.ModelProto]:
    onnx.save(model, folder / "given.onnx")
    opened = open_model(folder / "given.onnx")
    spec = rewrites.completed(rewrites.parse(name), opened.ir, None)  # type: ignore[arg-type]
    made = rewrites.rewrite_model(
        opened, [spec], folder / "made", ToolProcess(runtime=runtime, folder=folder)
    )
    return made, onnx.load(made.path)


def test_the_tool_for_transformers_fuses_and_outputs_stay(tmp_path: Path) -> None:
    g = Graph()
    model = g.model(SHAPE, [image_block(g)])
    made, proto = by_tool("transformers-fusion", model, tmp_path)
    step = made.steps[0].result
    assert step.modified
    assert "1 Attention" in step.what
    assert "SkipLayerNormalization" in step.what
    onnx.checker.check_model(proto)
    x = values(2, LENGTH, WIDTH)
    np.testing.assert_allclose(run(proto, x)[0], run(model, x)[0], rtol=1e-4, atol=2e-5)
    again = rewrites.find("transformers-fusion").refuses
    assert again is not None
    assert again(open_model(made.path).ir)


def test_heads_and_kind_are_read_from_the_graph() -> None:
    g = Graph()
    model = ir.serde.deserialize_model(g.model(SHAPE, [image_block(g)]))
    ((params, why),) = rewrites.find("transformers-fusion").proposes(model, None)
    assert params == {"model": "bert", "heads": "2", "hidden": str(WIDTH)}
    assert "1 attention" in why


def test_what_is_no_transformer_is_refused_and_says_why() -> None:
    refuses = rewrites.find("transformers-fusion").refuses
    assert refuses is not None
    assert "not a transformer" in refuses(open_model(zoo.model_path("ppocrv2-cls")).ir)[0]


def test_a_transformer_without_anything_to_fuse_is_left(tmp_path: Path) -> None:
    g = Graph()
    scores = g.op("MatMul", "x", g.op("Transpose", "x", perm=[0, 2, 1]))
    model = g.model(SHAPE, [g.op("MatMul", g.op("Softmax", scores, axis=-1), "x")])
    made, _ = by_tool("transformers-fusion", model, tmp_path)
    assert not made.modified
    (why,) = made.steps[0].result.reasons
    facts(why, "the tool", "same graph")


# Single optimisers off


def test_the_saved_graph_is_without_what_is_left_out(tmp_path: Path) -> None:
    g = Graph()
    onnx.save(g.model(SHAPE, [image_block(g)]), tmp_path / "m.onnx")
    source, tool = open_model(tmp_path / "m.onnx"), ToolProcess(runtime=HERE, folder=tmp_path)

    def made(text: str) -> list[str]:
        path = rewrites.apply_all(source, [rewrites.parse(text)], tmp_path / "made", tool)
        return [node.op_type for node in onnx.load(path).graph.node]

    assert "SkipLayerNormalization" in made("ort-optimized-model")
    assert "SkipLayerNormalization" not in made("ort-optimized-model:without=SkipLayerNormFusion")
    with pytest.raises(ToolFailed, match="does not know an optimiser 'NoSuchFusion'"):
        made("ort-optimized-model:without=NoSuchFusion")


# Packages of others


@pytest.mark.parametrize("name", ["onnxsim", "onnxslim", "onnxscript-optimizer"])
def test_a_package_of_others_is_proposed_only_where_it_is(name: str, tmp_path: Path) -> None:
    g = Graph()
    model = g.model(SHAPE, [image_block(g)])
    onnx.save(model, tmp_path / "m.onnx")
    opened, package = open_model(tmp_path / "m.onnx"), rewrites.find(name).needs
    found = {spec.name for spec, _ in rewrites.proposals(opened.ir)}
    assert name not in found
    found = {spec.name for spec, _ in rewrites.proposals(opened.ir, packages=(package,))}
    assert name in found
    if importlib.util.find_spec(package) is None:
        with pytest.raises(ToolFailed, match=f"install it there: pip install {package}"):
            by_tool(name, model, tmp_path)
        return
    _, proto = by_tool(name, model, tmp_path)
    x = values(2, LENGTH, WIDTH)
    np.testing.assert_allclose(run(proto, x)[0], run(model, x)[0], rtol=1e-4, atol=2e-5)
    assert len(proto.graph.node) <= len(model.graph.node)


@pytest.mark.parametrize("name", ["onnxsim", "onnxslim", "transformers-fusion"])
def test_weights_that_one_protobuf_cannot_hold_are_refused_in_the_unit_of_the_limit(name: str) -> None:
    g = Graph()
    model = ir.from_proto(g.model(SHAPE, [image_block(g)]))
    assert rewrites.find(name).refuses(model) == ()
    halves = ir.Tensor(np.broadcast_to(np.float16(0), (1 << 30,)), name="big")
    model.graph.initializers["big"] = ir.Value(name="big", const_value=halves)
    facts(" ".join(rewrites.find(name).refuses(model)), "2.0 GiB", "2 GiB")


def test_nothing_of_the_tool_is_lost_to_the_session(tmp_path: Path) -> None:
    """What was fused stays fused when the session optimises it once more."""
    g = Graph()
    made, _ = by_tool("transformers-fusion", g.model(SHAPE, [image_block(g)]), tmp_path)
    assert optimised(made.path, tmp_path)["SkipLayerNormalization"] == 1


# Subgraphs and functions


def inside(kind: str, form: Form) -> onnx.ModelProto:
    """The attention in a branch of an If, or in a function of the model."""
    g = Graph()
    y = form(g, "x", mask_of(g, 4, 1))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    constants = [
        helper.make_node("Constant", [], [weight.name], name=f"{weight.name}_node", value=weight)
        for weight in g.weights
    ]
    x, out = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "out"))
    functions = []
    if kind == "function":
        block = helper.make_function("local", "Block", ["x"], [y], [*constants, *g.nodes], opsets[:1])
        functions, nodes = [block], [helper.make_node("Block", ["x"], ["out"], name="block", domain="local")]
    else:
        then = helper.make_graph(
            g.nodes, "then", [], [helper.make_tensor_value_info(y, TensorProto.FLOAT, None)], g.weights
        )
        other = helper.make_graph(
            [helper.make_node("Identity", ["x"], ["same"], name="same")],
            "else",
            [],
            [helper.make_tensor_value_info("same", TensorProto.FLOAT, None)],
        )
        nodes = [
            helper.make_node(
                "Constant", [], ["yes"], name="yes", value=numpy_helper.from_array(np.array(True))
            ),
            helper.make_node("If", ["yes"], ["out"], name="if", then_branch=then, else_branch=other),
        ]
    graph = helper.make_graph(nodes, "g", [x], [out])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=functions)


@pytest.mark.parametrize("kind", ["branch", "function"])
@pytest.mark.parametrize("form", ATTENTIONS)
def test_attention_inside_a_branch_or_a_function(kind: str, form: Form) -> None:
    model = inside(kind, form)
    proto, result, _ = apply(ATTENTION, model)
    assert result.modified, result.reasons
    x = values(2, LENGTH, WIDTH)
    np.testing.assert_allclose(run(proto, x)[0], run(model, x)[0], rtol=1e-4, atol=2e-5)
