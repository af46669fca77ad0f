"""``ortune bisect``: a planted defect is named, in models with the same names, with others, and with fused nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortune
from edited_models import squeezenet
from facts import facts
from onnx_text import assemble, model_of, saved
from ortune.engines.bisection import observing, value_statistics
from ortune.errors import InputError, UsageError
from ortune.measuring.watcher import Watcher
from ortune.verbs.bisect.result import BisectResult
from planted import (
    attribute,
    convolutions,
    counted,
    half_precision,
    middle,
    rewritten_elsewhere,
    weight,
    with_defaults,
)
from simulated_machine import Lab, measuring_on
from zoo import model_path


@pytest.fixture(autouse=True, scope="module")
def asked_once() -> Iterator[None]:
    """What a model answers is real, and asked for once by all tests."""
    with measuring_on(Lab(0)):
        yield


Plant = Callable[[onnx.ModelProto, onnx.NodeProto], None]


@pytest.fixture(autouse=True)
def _own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))


def bisected(a: Path, b: onnx.ModelProto, folder: Path) -> BisectResult:
    """With a tolerance, which spares the two processes that tell how far the model's own rounding moves it."""
    path = folder / "b.onnx"
    onnx.save(b, path)
    return ortune.bisect(a, path, tolerance="1e-6").result


def names(result: BisectResult) -> tuple[list[str], list[str]]:
    first = result.partings[0]
    return [node.name for node in first.a], [node.name for node in first.b]


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        pytest.param("oww-embedding", False, marks=pytest.mark.long),
        pytest.param("basic-pitch", True, marks=pytest.mark.long),
    ],
)
def test_a_weight_that_changed_in_the_middle_is_named(tmp_path: Path, name: str, renamed: bool) -> None:
    a = model_path(name)
    model = onnx.load(a)
    node = middle(model, "Conv")
    planted = node.name
    weight(model, node)
    if renamed:
        counted(model)
    found = bisected(a, model, tmp_path)
    assert names(found) == ([planted], [node.name])
    (change,) = found.partings[0].changes
    assert change.part == "weight"
    assert change.relative_l2 and change.relative_l2 > 1e-3
    assert all(pair.equal for pair in found.partings[0].inputs)
    assert planted in found.headline


def long(*values: Any, id: str) -> Any:
    return pytest.param(*values, id=id, marks=pytest.mark.long)


SLOPE = partial(attribute, name="alpha", factor=1.5), "LeakyRelu", ["relu1"], ["relu1"]
EPSILON = partial(attribute, name="epsilon", factor=1e3), "BatchNormalization", ["norm1"], ["norm1"]
HALF = half_precision, "BatchNormalization", [], ["to_half"]


@pytest.mark.parametrize(
    ("plant", "operator", "a", "b", "renamed"),
    [
        # Of a weight tell the values that are looked at in parts too, and the model that is fused.
        long(weight, "Conv", ["conv1"], ["conv1"], False, id="weight-same-names"),
        long(weight, "Conv", ["conv1"], ["conv1"], True, id="weight-other-names"),
        long(*SLOPE, False, id="slope-same-names"),
        pytest.param(*SLOPE, True, id="slope-other-names"),
        pytest.param(*EPSILON, False, id="epsilon-same-names"),
        long(*EPSILON, True, id="epsilon-other-names"),
        long(*HALF, False, id="half-precision-same-names"),
        pytest.param(*HALF, True, id="half-precision-other-names"),
    ],
)
def test_what_was_planted_in_a_convolution_net_is_named(
    tmp_path: Path, plant: Plant, operator: str, a: list[str], b: list[str], renamed: bool
) -> None:
    path = convolutions(tmp_path / "a.onnx")
    model = onnx.load(path)
    plant(model, middle(model, operator))
    numbers = {node.name: f"N{i}" for i, node in enumerate(model.graph.node)}
    if renamed:
        counted(model)
        b = [numbers[name] for name in b]
    mine, theirs = names(bisected(path, model, tmp_path))
    assert (mine, theirs[:1]) == (a, b)


def dilated(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """The taps of a convolution of 3 x 3 stand twice as far apart; what it makes is as large as before."""
    kept = [a for a in node.attribute if a.name not in ("pads", "dilations")]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in DILATED.items())])


DILATED = {"dilations": [2, 2], "pads": [2, 2, 2, 2]}


def padded(model: onnx.ModelProto) -> onnx.NodeProto:
    """A convolution of 3 x 3 in the middle."""
    found = [
        n for n in model.graph.node if any(a.name == "pads" and list(a.ints) == [1] * 4 for a in n.attribute)
    ]
    return [n for n in found if n.op_type == "Conv"][3]


@pytest.mark.parametrize(
    ("name", "pick", "plant", "changed"),
    [
        ("light-squeezenet", padded, dilated, {"dilations", "pads"}),
        pytest.param(
            "ppocrv2-cls",
            lambda model: middle(model, "HardSigmoid"),
            partial(attribute, name="alpha", factor=1.5),
            {"alpha"},
            marks=pytest.mark.long,
        ),
    ],
    ids=["squeezenet", "ppocrv2-cls"],
)
def test_an_attribute_is_named_where_every_name_is_another(
    name: str,
    pick: Callable[[onnx.ModelProto], onnx.NodeProto],
    plant: Plant,
    changed: set[str],
    tmp_path: Path,
) -> None:
    model = squeezenet(64) if name == "light-squeezenet" else onnx.load(model_path(name))
    for i, node in enumerate(model.graph.node):
        node.name = f"{node.op_type}/{i}"
    onnx.save(model, tmp_path / "a.onnx")
    planted = pick(model)
    plant(model, planted)
    with_defaults(model, planted)
    told = rewritten_elsewhere(model)
    makers = {value: node.name for node in model.graph.node for value in node.output}
    onnx.save(model, tmp_path / "b.onnx")
    answer = ortune.bisect(tmp_path / "a.onnx", tmp_path / "b.onnx", tolerance="1e-6")
    found = answer.result
    first = found.partings[0]
    assert [told[node.name] for node in first.a] == [node.name for node in first.b] == [planted.name]
    assert {change.name for change in first.changes} == changed
    # Every value of the one is the right one of the other, behind the difference too.
    assert len(found.values) == found.n_values_a == found.n_values_b
    assert all(told[pair.node] == makers[pair.b] for pair in found.values)
    by_structure = sum(pair.matched_by == "structure" for pair in found.values)
    assert by_structure > 5
    assert f"{by_structure} by structure" in " ".join(answer.summary(verbose=True).split())


def sized(order: tuple[int, ...], factor: float = 2.0) -> onnx.ModelProto:
    """Two sizes of the input, cut out in this order, are multiplied with it; few elements, all alike in kind."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 5]) for n in ("x", "y")]
    stored = [numpy_helper.from_array(np.array(i, np.int64), f"at{i}") for i in (0, 1)]
    stored.append(numpy_helper.from_array(np.array(factor, np.float32), "k"))
    cuts = [helper.make_node("Gather", ["s", f"at{i}"], [f"size{i}"], f"gather{i}") for i in order]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        *cuts,
        *(helper.make_node("Cast", [f"size{i}"], [f"f{i}"], f"cast{i}", to=TensorProto.FLOAT) for i in order),
        helper.make_node("Sub", ["f0", "f1"], ["d"], "difference"),
        helper.make_node("Mul", ["k", "d"] if order[0] else ["d", "k"], ["m"], "times"),
        helper.make_node("Add", ["x", "m"], ["y"], "add"),
    ]
    return assemble(nodes, values[:1], values[1:], stored)


def test_values_of_few_elements_are_told_apart_by_what_they_are_computed_of(tmp_path: Path) -> None:
    onnx.save(sized((0, 1)), tmp_path / "a.onnx")
    other = sized((1, 0), factor=2.5)
    told = rewritten_elsewhere(other)
    found = bisected(tmp_path / "a.onnx", other, tmp_path)
    assert names(found) == (["times"], [told["times"]])
    makers = {value: node.name for node in other.graph.node for value in node.output}
    assert all(told[pair.node] == makers[pair.b] for pair in found.values)
    assert len(found.partings) == 1


def fused_convolutions(folder: Path) -> tuple[Path, onnx.ModelProto]:
    """The net, and ONNX Runtime's own graph of it, which lies beside it."""
    import onnxruntime as ort

    path = convolutions(folder / "a.onnx")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "fused.onnx")
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fused = onnx.load(folder / "fused.onnx")
    assert len(fused.graph.node) < len(onnx.load(path).graph.node)
    return path, fused


@pytest.mark.long  # two plans that differ by their fusions have nothing to find either, below
def test_a_fused_model_is_the_same_as_the_one_that_it_was_made_of(tmp_path: Path) -> None:
    path, _ = fused_convolutions(tmp_path)
    assert ortune.bisect(path, tmp_path / "fused.onnx").verdict == "same"


def test_a_fused_model_is_held_against_the_one_that_it_was_made_of(tmp_path: Path) -> None:
    """ONNX Runtime's own graph has fewer nodes, with other names; a defect in it is told in words of the user's."""
    path, fused = fused_convolutions(tmp_path)
    convs = [node for node in fused.graph.node if "Conv" in node.op_type]
    weight(fused, convs[1])
    mine, theirs = names(bisected(path, fused, tmp_path))
    assert mine[0] == "conv1" and set(mine) <= {"conv1", "norm1", "relu1"}
    assert theirs == [convs[1].name]


def test_two_plans_of_one_model_that_are_the_same_have_nothing_to_find(tmp_path: Path) -> None:
    answer = ortune.bisect(convolutions(tmp_path / "a.onnx"), b_set={"level": "disable"})
    assert answer.verdict == "same"
    assert not answer.result.partings


def test_where_nan_comes_up_first_is_told(tmp_path: Path) -> None:
    path = convolutions(tmp_path / "a.onnx")
    model = onnx.load(path)
    (variance,) = (tensor for tensor in model.graph.initializer if tensor.name == "v1")
    variance.CopyFrom(numpy_helper.from_array(np.full(8, -1, np.float32), "v1"))
    onnx.save(model, tmp_path / "b.onnx")
    answer = ortune.bisect(path, tmp_path / "b.onnx")
    found = answer.result
    (first,) = found.not_finite
    assert (first.side, first.node.name, first.n_nan) == ("B", "norm1", first.size)
    assert names(found) == (["norm1"], ["norm1"])
    assert "NaN" in answer.summary()


def test_a_node_with_bodies_is_one_step(tmp_path: Path) -> None:
    def model(factor: float) -> onnx.ModelProto:
        return model_of(f"""g (float[4] x) => (float[4] y) {{
            [sin] s = Sin (x)
            [sum] t = ReduceSum <keepdims = 0> (s)
            [odd] odd = IsNaN (t)
            [if] r = If (odd) <
                then_branch = same () => (float[4] z) <float[1] k = {{1.0}}> {{ z = Mul (s, k) }},
                else_branch = branch () => (float[4] z) <float[1] k = {{{factor}}}> {{ z = Mul (s, k) }}
            >
            [exp] y = Exp (r)
        }}""")

    onnx.save(model(2.0), tmp_path / "a.onnx")
    found = bisected(tmp_path / "a.onnx", model(2.1), tmp_path)
    assert names(found) == (["if"], ["if"])
    assert found.partings[0].a[0].bodies
    facts(found.headline, "bodies", "not compared")


def test_one_side_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="only one side"):
        ortune.bisect(convolutions(tmp_path / "a.onnx"))


def test_values_beyond_memory_are_looked_at_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "PART_BYTES", 5 * 8 * 16 * 16 * 4)
    monkeypatch.setattr(value_statistics, "KEPT", 500)
    path = convolutions(tmp_path / "a.onnx")
    model = onnx.load(path)
    weight(model, middle(model, "Conv"))
    lines: list[str] = []
    onnx.save(model, tmp_path / "b.onnx")
    found = ortune.bisect(
        path,
        tmp_path / "b.onnx",
        tolerance="1e-6",
        watcher=Watcher(step=lambda step: lines.append(step.text)),
    ).result
    assert any(line.endswith("part 2 of 2") for line in lines)
    assert names(found) == (["conv1"], ["conv1"])
    assert found.n_values_a == found.n_values_b == len(found.values) == 10


def test_a_model_with_other_input_names_is_paired_as_told(tmp_path: Path) -> None:
    path = convolutions(tmp_path / "a.onnx")
    model = onnx.load(path)
    model.graph.input[0].name = model.graph.node[0].input[0] = "image"
    onnx.save(model, tmp_path / "b.onnx")
    assert ortune.bisect(path, tmp_path / "b.onnx", map="x=image").verdict == "same"
    with pytest.raises(InputError, match="no input 'z'"):
        ortune.bisect(path, tmp_path / "b.onnx", map="z=image")


def test_what_a_setting_makes_of_the_graph_is_told_in_the_users_nodes(tmp_path: Path) -> None:
    """With the optimiser off the two plans are equal: the difference is in a fusion of ONNX Runtime's."""
    draw = np.random.default_rng(0)
    text = """g (float[4,32] x) => (float[4,32] y) <float r = {1.4142135}, float o = {1.0}, float h = {0.5}> {
        [product] m = MatMul (x, w)
        [div] d = Div (m, r)
        [erf] e = Erf (d)
        [add] a = Add (e, o)
        [times] p = Mul (m, a)
        [half] g = Mul (p, h)
        [tanh] y = Tanh (g)
    }"""
    weights = {"w": draw.normal(size=(32, 32)).astype(np.float32)}
    path = saved(tmp_path / "gelu.onnx", model_of(text, weights=weights))
    answer = ortune.bisect(path, b_set={"gelu_approximation": 1}, tolerance="1e-6")
    found = answer.result
    assert (answer.verdict, found.graphs) == ("found", "optimised")
    (a,), (b,) = found.partings[0].a, found.partings[0].b
    assert (a.operator, b.operator) == ("com.microsoft:Gelu", "com.microsoft:FastGelu")
    assert set(a.of) == {"div", "erf", "add", "times", "half"} == set(b.of)
    assert "which replaces" in found.headline


def test_another_way_to_the_same_values_is_no_difference(tmp_path: Path) -> None:
    """A factor that a rewrite moves on makes one value of that name another, and the next the same again."""

    def model(before: float, after: float) -> onnx.ModelProto:
        return model_of(f"""g (float[1,64] x) => (float[1,64] y) <float p = {{{before}}}, float q = {{{after}}}> {{
            [sin] s = Sin (x)
            [before] a = Mul (s, p)
            [after] b = Mul (a, q)
            [exp] y = Exp (b)
        }}""")

    onnx.save(model(3.0, 0.7), tmp_path / "a.onnx")
    onnx.save(model(0.7, 3.0), tmp_path / "b.onnx")
    assert ortune.bisect(tmp_path / "a.onnx", tmp_path / "b.onnx").verdict == "same"
