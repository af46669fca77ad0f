"""A model in float16 by ONNX Runtime's converter: what it makes, where it is proposed, what is said where not."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from rewrite_corpus import CORPUS, Sample

import zoo
from facts import facts
from graphs import drawn_by_name
from onnx_text import assemble
from ortune import rewrites
from ortune.graph.model.open import OpenModel, open_model
from ortune.inputs import workload as workloads
from ortune.inputs.feeds import make_feeds
from ortune.records import CaseTimes, Measured, PageSeen, Runtime, TrialDone
from ortune.rewrites._checks import problem
from ortune.targets.tool import ToolFailed, ToolProcess
from ortune.verbs.tune.across import gpu_features

ort.set_default_logger_severity(4)
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
NAME = "float32-to-float16"
HALF, SINGLE = TensorProto.FLOAT16, TensorProto.FLOAT


weight = partial(drawn_by_name, times=0.1)


def saved(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    *,
    made: int = SINGLE,
    functions: Sequence[onnx.FunctionProto] = (),
) -> OpenModel:
    """A model of ``x``, [4, 64], that gives ``y``."""
    output = helper.make_tensor_value_info("y", made, None)
    own = {"own": 1} if functions else None
    model = assemble(nodes, "float[4,64] x", [output], weights, opsets=own, functions=functions)
    onnx.save(model, path)
    return open_model(path)


def products(path: Path, more: int = 0) -> OpenModel:
    """Two products of matrices with an activation between; ``more`` are between too."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["b0"])]
    nodes += [helper.make_node("MatMul", [f"b{i - 1}", f"u{i}"], [f"b{i}"]) for i in range(1, more + 1)]
    nodes.append(helper.make_node("MatMul", [f"b{more}", "v2"], ["y"]))
    between = [weight(f"u{i}", 128, 128) for i in range(1, more + 1)]
    return saved(path, nodes, [weight("w", 64, 128), *between, weight("v2", 128, 64)])


def converted(source: OpenModel, folder: Path, text: str = NAME) -> rewrites.RewrittenFile:
    tool = ToolProcess(runtime=HERE, folder=folder)
    return rewrites.rewrite_model(source, [rewrites.parse(text)], folder / "made", tool)


def outputs(path: Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    found: list[np.ndarray] = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    return found


def error(made: Path, original: Path) -> float:
    x = {"x": np.random.default_rng(9).standard_normal((4, 64)).astype(np.float32)}
    (a,), (b,) = outputs(original, x), outputs(made, x)
    assert a.dtype == b.dtype
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def types(path: Path) -> dict[str, int]:
    return {tensor.name: tensor.data_type for tensor in onnx.load(path).graph.initializer}


def test_it_is_near_and_half_as_large_and_called_as_before(tmp_path: Path) -> None:
    source = products(tmp_path / "m.onnx")
    made = converted(source, tmp_path)
    assert made.modified
    facts(made.steps[0].result.what, "outputs keep")
    assert made.path.stat().st_size < 0.6 * source.path.stat().st_size
    assert set(types(made.path).values()) == {HALF}
    assert 0 < error(made.path, source.path) < 1e-3
    onnx.checker.check_model(str(made.path), full_check=True)
    opened = open_model(made.path)
    assert problem(opened.ir) == ""
    assert opened.ir.metadata_props[rewrites.MODEL_KEY] == NAME
    again = converted(opened, tmp_path / "again")
    (why,) = again.steps[0].result.reasons
    facts(why, "already float16")


def test_what_is_to_stay_stays(tmp_path: Path) -> None:
    source = products(tmp_path / "m.onnx")
    with pytest.raises(ToolFailed, match="no weights to convert to float16"):
        converted(source, tmp_path, f"{NAME}:leave=ends")
    three = products(tmp_path / "three.onnx", more=1)
    assert types(converted(three, tmp_path, f"{NAME}:leave=ends").path) == {
        "w": SINGLE,
        "u1": HALF,
        "v2": SINGLE,
    }


def test_operators_without_float16_stay_between_casts(tmp_path: Path) -> None:
    """CumSum is too coarse in it; Constant nodes in all their forms are constants as well."""
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Constant", [], ["w"], value=weight("w", 64, 64)),
        helper.make_node("Constant", [], ["axis"], value_int=1),
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("CumSum", ["a", "axis"], ["b"]),
        helper.make_node("Mul", ["b", "two"], ["y"]),
    ]
    source = saved(tmp_path / "m.onnx", nodes)
    made = converted(source, tmp_path)
    assert 0 < error(made.path, source.path) < 2e-3
    assert [n.op_type for n in onnx.load(made.path).graph.node].count("Cast") == 4


def test_functions_are_written_out(tmp_path: Path) -> None:
    body = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.float32(2), "two")),
        helper.make_node("Mul", ["p", "two"], ["q"]),
    ]
    twice = helper.make_function("own", "Twice", ["p"], ["q"], body, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Twice", ["a"], ["y"], domain="own"),
    ]
    source = saved(tmp_path / "m.onnx", nodes, [weight("w", 64, 64)], functions=[twice])
    assert 0 < error(converted(source, tmp_path).path, source.path) < 1e-3


def test_weights_that_do_not_fit_are_told(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Add", ["a", "large"], ["b"]),
        helper.make_node("Mul", ["b", "tiny"], ["y"]),
    ]
    large, tiny = (numpy_helper.from_array(np.float32([n]), m) for n, m in ((1e6, "large"), (1e-9, "tiny")))
    source = saved(tmp_path / "m.onnx", nodes, [weight("w", 64, 64), large, tiny])
    what = converted(source, tmp_path).steps[0].result.what
    assert "magnitudes above 65504 were clipped in 1 weight" in what
    assert "magnitudes below 6e-8" in what


def test_a_model_that_does_not_load_is_refused_with_the_reason(tmp_path: Path) -> None:
    """An operator inside Scan stays in float32, and the converter puts its Casts outside."""
    inner = helper.make_graph(
        [helper.make_node("Mul", ["r", "r"], ["s"]), helper.make_node("Max", ["s", "r"], ["t"])], "body",
        [helper.make_tensor_value_info("r", SINGLE, [64])], [helper.make_tensor_value_info("t", SINGLE, [64])],
    )  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Scan", ["a"], ["y"], num_scan_inputs=1, body=inner),
    ]
    source = saved(tmp_path / "m.onnx", nodes, [weight("w", 64, 64)])
    with pytest.raises(ToolFailed, match=r"does not load: .*"):
        converted(source, tmp_path)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "no float32 weights"),
        ([numpy_helper.from_array(np.ones((64, 64), np.float16), "w")], "the weights are already float16"),
    ],
)
def test_a_model_without_such_weights_says_so(
    given: list[onnx.TensorProto], why: str, tmp_path: Path
) -> None:
    to_half = helper.make_node("Cast", ["x"], ["h"], to=HALF)
    nodes = [to_half, helper.make_node("MatMul", ["h", given[0].name if given else "ht"], ["y"])]
    if not given:
        nodes.insert(1, helper.make_node("Transpose", ["h"], ["ht"]))
    source = saved(tmp_path / "m.onnx", nodes, given, made=HALF)
    made = converted(source, tmp_path)
    assert not made.modified
    (reason,) = made.steps[0].result.reasons
    assert why in reason


@pytest.mark.parametrize(
    ("target", "features", "allow", "expected"),
    [
        ("cpu", (), "numerics", False),
        ("web-wasm", (rewrites.SHADERS_OF_FLOAT16,), "numerics", False),
        ("openvino", (), "numerics", False),
        ("web-webgpu", (), "numerics", False),
        ("web-webgpu", (rewrites.SHADERS_OF_FLOAT16,), "numerics", True),
        ("web-webgpu", (rewrites.SHADERS_OF_FLOAT16,), NAME, True),
        ("web-webgpu", (rewrites.SHADERS_OF_FLOAT16,), "behaviour", False),
        ("cuda", (), "numerics", True),
        ("tensorrt", (), "numerics", True),
        ("coreml", (), "numerics", True),
        ("directml", (), "numerics", True),
    ],
)
def test_it_is_proposed_where_a_gpu_computes_in_it(
    target: str, features: tuple[str, ...], allow: str, expected: bool, tmp_path: Path
) -> None:
    model = products(tmp_path / "m.onnx").ir
    found = rewrites.proposals(model, [allow], target=target, features=features)
    assert (NAME in {spec.name for spec, _ in found}) == expected
    lacking = rewrites.lacking(model, [allow], target=target, features=features)
    assert lacking == ([(NAME, "shader-f16")] if target == "web-webgpu" and not features else [])


def test_what_the_adapter_has_is_what_the_page_recorded() -> None:
    def ran(page: PageSeen | None) -> Measured:
        times = CaseTimes(case="all", weight=1.0, latency_ns=(1,), first_ns=1)
        done = TrialDone(load_ns=1, cases=(times,), cpu_ns=1, wall_ns=1, n_runs=1, page=page)
        return Measured(plan="", done=done)

    assert gpu_features(ran(None)) == ()
    assert gpu_features(ran(PageSeen(browser="", isolated=True))) == ()
    assert gpu_features(ran(PageSeen(browser="", isolated=True, float16=True))) == ("shader-f16",)


@pytest.mark.parametrize("sample", CORPUS, ids=lambda s: s.name)
def test_on_the_corpus(sample: Sample, tmp_path: Path) -> None:
    """Converted, refused, or failed with a reason: never a model that does not load, or of other types."""
    original = sample.write(tmp_path)
    try:
        made = converted(open_model(original), tmp_path)
    except ToolFailed as error:
        assert error.what
        return
    assert made.modified or made.steps[0].result.reasons
    assert problem(open_model(made.path).ir) == ""
    for ours, theirs in zip(outputs(made.path, sample.feeds), outputs(original, sample.feeds), strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape


@pytest.mark.parametrize(("name", "limit"), [("silero-vad", 0.01), ("oww-embedding", 0.01)])
def test_real_models(name: str, limit: float, tmp_path: Path) -> None:
    path = zoo.model_path(name)
    source = open_model(path)
    made = converted(source, tmp_path)
    (case,) = workloads.propose(source.ir).cases
    feeds = {k: v for k, v in make_feeds(source.ir, case, seed=0).items() if isinstance(v, np.ndarray)}
    for ours, theirs in zip(outputs(made.path, feeds), outputs(path, feeds), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.linalg.norm(ours - theirs) <= limit * np.linalg.norm(theirs)
