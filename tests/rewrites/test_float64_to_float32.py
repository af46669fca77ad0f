"""Models in float64 become float32 inside: what is left of float64, and how near the outputs are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from facts import facts
from onnx_text import assemble, model_of, saved
from ortune import rewrites
from ortune.graph.model.open import open_model
from ortune.records import Plan, RewriteSpec
from ortune.rules import Facts
from ortune.rules.precision import float64

ort.set_default_logger_severity(4)
NAME = "float64-to-float32"
DOUBLE = TensorProto.DOUBLE


def masked(path: Path) -> Path:
    """Two products, and a Softmax whose mask is the lowest float64, all over one row."""
    rng = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(rng.standard_normal((16, 16)) / 4, "w0"),
        numpy_helper.from_array(rng.standard_normal((16, 8)) / 4, "w1"),
        numpy_helper.from_array(np.float64(np.finfo(np.float64).min), "lowest"),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"]),
        helper.make_node("Cast", ["few"], ["n"], to=DOUBLE),
        helper.make_node("Mul", ["a", "n"], ["b"]),
        helper.make_node("Where", ["mask", "lowest", "b"], ["c"]),
        helper.make_node("Softmax", ["c"], ["d"], axis=-1),
        helper.make_node("MatMul", ["d", "w1"], ["y"]),
    ]
    onnx.save(
        assemble(
            nodes, "double[4,16] x, int32[1] few, bool[4,16] mask", "double[4,8] y", weights, name="masked"
        ),
        path,
    )
    return path


def run(path: Path, feeds: dict[str, np.ndarray]) -> np.ndarray:
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]


def test_outputs_keep_their_type_and_move_by_rounding_alone(tmp_path: Path) -> None:
    opened = open_model(masked(tmp_path / "m.onnx"))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made")
    assert made.modified
    onnx.checker.check_model(str(made.path), full_check=True)
    assert made.path.stat().st_size < 0.8 * opened.path.stat().st_size
    mask = np.random.default_rng(1).random((4, 16)) < 0.3
    mask[2] = True
    feeds = {
        "x": np.random.default_rng(0).standard_normal((4, 16)),
        "few": np.array([3], np.int32),
        "mask": mask,
    }
    before, after = run(opened.path, feeds), run(made.path, feeds)
    assert after.dtype == np.float64
    assert 0 < np.abs(after - before).max() < 1e-6 * np.abs(before).max()
    again = rewrites.rewrite_model(open_model(made.path), [RewriteSpec(name=NAME)], tmp_path / "again")
    (why,) = again.steps[0].result.reasons
    facts(why, "no float64 weights")


def test_only_casts_at_the_edges_are_left(tmp_path: Path) -> None:
    opened = open_model(masked(tmp_path / "m.onnx"))
    made = onnx.load(rewrites.apply_all(opened, [RewriteSpec(name=NAME)], tmp_path / "made"))
    doubles = [n for n in made.graph.node for a in n.attribute if a.name == "to" and a.i == DOUBLE]
    assert [n.output[0] for n in doubles] == ["y"]
    assert {w.data_type for w in made.graph.initializer} == {TensorProto.FLOAT}


@pytest.mark.parametrize(("dtype", "proposed"), [(np.float64, True), (np.float32, False)])
def test_it_is_proposed_for_float64_alone(dtype: type, proposed: bool, tmp_path: Path) -> None:
    kind = "double" if dtype is np.float64 else "float"
    text = f"g ({kind}[2,4] x) => ({kind}[2,4] y) {{ y = MatMul (x, w) }}"
    saved(tmp_path / "m.onnx", model_of(text, weights={"w": np.eye(4, dtype=dtype)}))
    model = open_model(tmp_path / "m.onnx").ir
    names = {
        spec.name for spec, _ in rewrites.proposals(model, ("numerics",), objective="latency", target="cpu")
    }
    assert (NAME in names) is proposed


def test_the_rule_names_the_rewrite_and_then_says_where_float64_is_left(tmp_path: Path) -> None:
    opened = open_model(masked(tmp_path / "m.onnx"))
    (before,) = float64.find(Facts(model=opened))
    facts(before.what, "computes in float64 (1 input, 2 weights, 1 Cast)")
    assert (before.safety, before.plan) == ("numerics", Plan(rewrites=(RewriteSpec(name=NAME),)))
    made = rewrites.rewrite_model(opened, [RewriteSpec(name=NAME)], tmp_path / "made")
    (after,) = float64.find(Facts(model=open_model(made.path)))
    facts(after.what, "inputs and outputs", "float64 (1 input, 1 Cast)")
    assert after.plan is None and after.fix.startswith("export in float32")
