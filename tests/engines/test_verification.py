"""A written model is run beside its source before anything is said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest

from ortune.engines.verification import verify
from ortune.errors import ModelError, RuntimeNotFound
from ortune.graph.model.open import open_model
from ortune.measuring.input_options import InputOptions
from ortune.records import Plan, Verification
from simulated_machine import Lab, tools_of
from wrong_models import gemm

LAB = Lab(0)


@pytest.fixture(autouse=True, scope="module")
def asked_once() -> Iterator[None]:
    """What a model answers is real, and asked for once by all tests."""
    with tools_of(LAB):
        yield


SOURCE = """
<ir_version: 8, opset_import: ["" : 17]>
source (float[2,4] x) => (float[2,4] y)
<int64[2] shape = {4,2}, int64[2] back = {2,4}>
{
    r = Reshape (x, shape)
    z = Relu (r)
    y = Reshape (z, back)
}
"""
SAME = SOURCE.replace("z = Relu (r)", "r2 = Identity (r) z = Relu (r2)")
OTHER = SOURCE.replace("Relu", "Sigmoid")
OTHER_SHAPE = SOURCE.replace("y = Reshape (z, back)", "y = Identity (z)").replace("[2,4] y", "[4,2] y")
BROKEN = SOURCE.replace("back = {2,4}", "back = {3,4}")
FOREIGN = SOURCE.replace('"" : 17]', '"" : 17, "own" : 1]').replace("Relu", "own.Secret")
ALIEN = FOREIGN.replace("r = Reshape (x, shape)", "w = Identity (x) r = Reshape (w, shape)")


def written(folder: Path, name: str, text: str) -> Path:
    onnx.save(onnx.parser.parse_model(text), folder / name)
    return folder / name


def verification(
    folder: Path, new: str, *, source: str = SOURCE, runtime: str | None = None, moves: bool = False
) -> Verification:
    before, after = written(folder, "source.onnx", source), written(folder, "new.onnx", new)
    return verified(before, after, runtime=runtime, moves=moves)


def verified(source: Path, new: Path, *, runtime: str | None = None, moves: bool = False) -> Verification:
    machine = LAB.machine()
    try:
        return verify(
            open_model(source),
            new,
            (),
            plan=Plan(),
            runtime=runtime,
            inputs=InputOptions(),
            scratch=new.parent,
            machine=machine,
            line=lambda text: None,
            moves=moves,
        )
    finally:
        machine.close()


def test_equal_outputs_are_told_with_what_ran_them(tmp_path: Path) -> None:
    shown = verification(tmp_path, SAME)
    assert (shown.status, shown.reason) == ("equal", "")
    assert shown.runtime.startswith("onnxruntime")
    assert shown.outputs is not None and shown.outputs.ok


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (OTHER, "outputs of the fixed model differ"),
        (OTHER_SHAPE, "shape"),
        (BROKEN, "does not run"),
        (FOREIGN, "does not run"),
    ],
    ids=["values", "shape", "run", "load"],
)
def test_a_model_that_is_another_one_is_refused(tmp_path: Path, new: str, why: str) -> None:
    with pytest.raises(ModelError, match=why) as refused:
        verification(tmp_path, new)
    assert refused.value.code == "not-verified"
    assert "Nothing was written" in refused.value.do


def test_what_fixes_may_move_is_told_and_another_shape_is_refused(tmp_path: Path) -> None:
    assert verification(tmp_path, OTHER, moves=True).status == "moved"
    with pytest.raises(ModelError, match="shape"):
        verification(tmp_path, OTHER_SHAPE, moves=True)


def test_a_source_that_the_optimiser_makes_wrong_refuses_no_right_model(tmp_path: Path) -> None:
    source = gemm(tmp_path / "source.onnx")

    def against_it(name: str, change: Callable[[onnx.NodeProto, onnx.ModelProto], None]) -> Verification:
        model = onnx.load(source)
        (node,) = (node for node in model.graph.node if node.name == "fc")
        change(node, model)
        onnx.save(model, tmp_path / name)
        return verified(source, tmp_path / name)

    def through_identity(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
        # An operator between bias and Gemm that no level takes away: nothing is fused, so the outputs are right.
        bias = node.input[2]
        at = list(model.graph.node).index(node)
        model.graph.node.insert(at, onnx.helper.make_node("Max", [bias, bias], ["kept"]))
        node.input[2] = "kept"

    # As the wrong source, which reads its bias as next to nothing.
    def without_bias(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
        del node.input[2]

    assert against_it("right.onnx", through_identity).status == "equal"
    assert against_it("as-wrong.onnx", lambda node, model: None).status == "equal"
    with pytest.raises(ModelError, match="outputs of the fixed model differ"):
        against_it("other.onnx", without_bias)


def test_a_source_that_does_not_run_proves_nothing(tmp_path: Path) -> None:
    shown = verification(tmp_path, ALIEN, source=FOREIGN)
    assert (shown.status, shown.reason, shown.outputs) == ("not-verified", "source", None)
    assert "--custom-ops" in shown.what


def test_a_runtime_that_is_named_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(RuntimeNotFound):
        verification(tmp_path, SAME, runtime=str(tmp_path / "none"))
