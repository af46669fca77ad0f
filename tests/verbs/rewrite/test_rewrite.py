"""``ortune rewrite``: what a model calls for, rewrites applied by hand, and the outputs checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner

import ortune
from edited_models import squeezenet
from onnx_text import model_of, saved
from ortune.cli import main
from ortune.errors import InputError, UsageError
from ortune.graph.model.open import open_model
from ortune.records import OutputDifference
from ortune.rewrites import made_by
from ortune.verbs.rewrite.run import _may_differ, exit_code
from planted import convolutions


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small convolution net behind a scale, whose weights are graph inputs, as old exporters write them."""
    path = convolutions(tmp_path / "m.onnx")
    proto = onnx.load(path)
    first = proto.graph.node[0]
    scale = onnx.helper.make_node("Mul", [first.input[0], "gain"], ["scaled"])
    first.input[0] = "scaled"
    proto.graph.node.insert(0, scale)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0.5, np.float32), "gain"))
    for tensor in proto.graph.initializer:
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.save(proto, path)
    return path


def test_without_names_it_lists_what_fits_and_writes_nothing(model: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    answer = ortune.rewrite(model)
    assert answer.verdict == "listed"
    row = [each.rewrite.name for each in answer.result.called_for if each.in_row]
    # What takes the weights out of the inputs comes first: the other finds no constants before.
    assert row[:2] == ["initializers-out-of-inputs", "affine-into-weights"]
    assert f"ortune rewrite {model} {' '.join(row)}" in " ".join(answer.summary().split())
    assert {p for p in tmp_path.iterdir() if p.name != "lock"} == set(before)


def test_a_model_is_written_beside_the_old_one_which_stays(model: Path, tmp_path: Path) -> None:
    was = model.read_bytes()
    answer = ortune.rewrite(model, "initializers-out-of-inputs", "affine-into-weights")
    result = answer.result
    assert (answer.verdict, exit_code(answer), result.path) == ("written", 0, "m-rewritten.onnx")
    assert model.read_bytes() == was
    new = open_model(tmp_path / "m-rewritten.onnx")
    assert made_by(new.ir) == ("initializers-out-of-inputs", "affine-into-weights")
    assert result.outputs is not None and result.outputs.ok and result.outputs.relative_l2 < 1e-5
    assert (result.nodes_before, result.nodes_after) == (11, 7)
    assert result.operators == {"BatchNormalization": -3, "Mul": -1}
    assert [step.modified for step in result.steps] == [True, True]
    assert answer.summary().endswith(f"next:\nortune compare {model} m-rewritten.onnx\n")


def test_nothing_is_replaced_unasked(model: Path, tmp_path: Path) -> None:
    there = tmp_path / "m-rewritten.onnx"
    there.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        ortune.rewrite(model, "initializers-out-of-inputs")
    with pytest.raises(UsageError, match="already exists"):
        ortune.rewrite(model, "initializers-out-of-inputs", output=model)
    assert there.read_text() == "mine"
    ortune.rewrite(model, "initializers-out-of-inputs", output=model, force=True)
    assert len(open_model(model).ir.graph.inputs) == 1


def test_links_are_followed_where_they_were_typed_and_only_there(model: Path, tmp_path: Path) -> None:
    link, real = tmp_path / "m-rewritten.onnx", tmp_path / "real.onnx"
    link.symlink_to(real)
    with pytest.raises(UsageError, match="output is a symbolic link"):
        ortune.rewrite(model, "initializers-out-of-inputs")
    assert link.is_symlink() and not real.exists()
    ortune.rewrite(model, "initializers-out-of-inputs", output=link)
    assert link.is_symlink() and len(open_model(real).ir.graph.inputs) == 1


def test_a_dry_run_says_what_each_would_change_and_why_not(model: Path, tmp_path: Path) -> None:
    answer = ortune.rewrite(model, "hard-swish", "initializers-out-of-inputs", dry_run=True)
    first, second = answer.result.steps
    assert answer.verdict == "dry-run"
    assert not first.modified
    assert second.modified and "16" in second.what
    assert answer.result.outputs is None
    assert "hard-swish (exact): nothing to change" in answer.summary()
    assert not list(tmp_path.glob("*rewritten*"))


def test_what_changes_nothing_is_not_written(model: Path, tmp_path: Path) -> None:
    answer = ortune.rewrite(model, "hard-swish")
    assert (answer.verdict, answer.result.path) == ("unchanged", "")
    assert not list(tmp_path.glob("*rewritten*"))


def test_outputs_beyond_the_tolerance_are_not_written(model: Path, tmp_path: Path) -> None:
    answer = ortune.rewrite(model, "initializers-out-of-inputs", "affine-into-weights", tolerance=1e-12)
    assert (answer.verdict, exit_code(answer), answer.result.path) == ("wrong-output", 1, "")
    # An exact rewrite must not change the outputs: a larger tolerance is no way out.
    assert "accept with" not in answer.result.headline
    assert not list(tmp_path.glob("*rewritten*"))


def test_weights_beside_the_model_stay_beside_it(tmp_path: Path) -> None:
    proto = squeezenet(64)
    for tensor in proto.graph.initializer:
        proto.graph.input.append(
            onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    onnx.save(
        proto, tmp_path / "big.onnx", save_as_external_data=True, location="big.weights", size_threshold=0
    )
    weights = tmp_path / "new.onnx.data"
    weights.write_text("mine")
    with pytest.raises(UsageError, match="already exists"):
        ortune.rewrite("big.onnx", "initializers-out-of-inputs", output="new.onnx")
    assert weights.read_text() == "mine" and not (tmp_path / "new.onnx").exists()
    weights.unlink()
    answer = ortune.rewrite("big.onnx", "initializers-out-of-inputs", output="new.onnx")
    assert answer.verdict == "written"
    (tmp_path / "big.weights").unlink()
    new = open_model(tmp_path / "new.onnx")
    assert {Path(tensor.file.path).name for tensor in new.external} == {"new.onnx.data"}


def test_what_must_be_set_with_it_is_said(model: Path) -> None:
    answer = ortune.rewrite(model, "ort-optimized-model:level=extended")
    assert answer.verdict == "written"
    assert answer.result.settings == {"graph_optimization_level": "disable"}
    assert answer.result.hardware_bound
    assert "graph_optimization_level=disable" in answer.summary()


def test_a_budget_is_taken_as_tolerance(model: Path) -> None:
    names = ("initializers-out-of-inputs", "affine-into-weights")
    refused = ortune.rewrite(model, *names, tolerance="snr>=300dB")
    assert refused.verdict == "wrong-output"
    assert "SNR" in refused.result.outputs.what
    assert ortune.rewrite(model, *names, tolerance="cosine>=0.999").verdict == "written"


def test_the_rewrites_of_a_plan_are_applied_too(model: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"rewrites": [{"name": "initializers-out-of-inputs"}]}')
    result = ortune.rewrite(model, "affine-into-weights", plan=plan).result
    assert [step.rewrite.name for step in result.steps] == [
        "initializers-out-of-inputs",
        "affine-into-weights",
    ]
    assert result.nodes_after == 7


def test_names_longer_than_a_terminal_are_told_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = squeezenet()
    long = [f"some_exporter_calls_this_dimension_of_the_image_{place}" for place in "nchw"]
    for dim, name in zip(proto.graph.input[0].type.tensor_type.shape.dim, long, strict=True):
        dim.dim_param = name
    onnx.save(proto, tmp_path / "long.onnx")
    answer = ortune.rewrite("long.onnx", shape={proto.graph.input[0].name: (1, 3, 224, 224)})
    spec = next(each.rewrite for each in answer.result.called_for if each.rewrite.name == "fixed-dimensions")
    told = "".join(answer.summary().split())
    assert all(f"{name}={size}" in told for name, size in spec.params.items())
    assert answer.summary().count("behaviour") == 1


def test_a_model_that_draws_random_numbers_is_said_to_differ_from_itself(tmp_path: Path) -> None:
    # Which numbers are drawn is ONNX Runtime's to say: here all that is needed is that they may differ.
    text = """<ir_version: 8, opset_import: ["" : 17]> noisy (float[8] x) => (float[8] y)
    { r = RandomNormalLike (x)  y = Add (r, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "noisy.onnx")
    noisy, still = open_model(tmp_path / "noisy.onnx"), open_model(convolutions(tmp_path / "m.onnx"))
    for found in (OutputDifference(ok=False), OutputDifference(ok=False, comparable=False)):
        assert "draws random numbers (RandomNormalLike)" in _may_differ(noisy, found)
        assert _may_differ(still, found) == ""


def test_a_model_that_differs_from_itself_is_not_called_wrong(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> noisy (float[64,64] x) => (float[64,64] y)
    { a = Identity (x)  b = Identity (a)  r = RandomNormalLike (b)  y = Add (r, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "noisy.onnx")
    answer = ortune.rewrite(tmp_path / "noisy.onnx", "no-op-nodes", output=tmp_path / "new.onnx")
    assert answer.verdict == "written" and (tmp_path / "new.onnx").is_file()
    assert any("RandomNormalLike" in note for note in answer.result.notes)


def test_a_length_that_hangs_on_values_is_said_to(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> long (float[1,64] x) => (int64[n] y)
    <int64 zero = {0}, int64 one = {1}, float thousand = {1000}, int64[2] axes = {0, 1}>
    { m = MatMul (x, w)  a = Abs (m)  k = Mul (a, thousand)  c = Cast <to = 7> (k)  s = Squeeze (c, axes)
      y = Range (zero, s, one) }"""
    proto = onnx.parser.parse_model(text)
    weights = np.random.default_rng(0).standard_normal((64, 1)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "long.onnx")
    answer = ortune.rewrite("long.onnx", "dynamic-int8")
    assert (answer.verdict, answer.result.outputs.comparable) == ("wrong-output", False)
    said = " ".join(answer.summary().split())
    assert "has shape" in said and "depend on values (Range)" in said


def product_net(folder: Path) -> Path:
    """Two convolutions, as a quantizer takes them up."""
    draw = np.random.default_rng(2)
    weights = {
        "a": draw.normal(size=(8, 3, 3, 3)).astype(np.float32),
        "b": draw.normal(size=(4, 8, 3, 3)).astype(np.float32),
    }
    text = """g (float[1,3,12,12] x) => (float[1,4,8,8] y) {
        [conv0] c = Conv (x, a) [relu] r = Relu (c) [conv1] y = Conv (r, b)
    }"""
    return saved(folder / "net.onnx", model_of(text, weights=weights))


@pytest.mark.parametrize(("real", "name"), [(True, "static-int8"), (False, "static-int8:operators=products")])
def test_a_model_is_calibrated_on_the_inputs_of_this_command(real: bool, name: str, tmp_path: Path) -> None:
    model = product_net(tmp_path)
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.random.default_rng(1).random((1, 3, 12, 12), np.float32))
    answer = ortune.rewrite(model, name, **({"inputs": inputs} if real else {}))
    assert answer.verdict == "written"
    kinds = {node.op_type for node in onnx.load(answer.result.path).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    notes = " ".join(answer.result.notes)
    assert ("synthetic" in notes) != real
    assert ("--inputs" in notes) != real


def test_no_model_is_calibrated_on_what_is_no_number(tmp_path: Path) -> None:
    x = np.random.default_rng(1).random((1, 3, 12, 12), np.float32)
    x[0, 1, 2, 3] = np.nan
    np.savez(tmp_path / "x.npz", x=x)
    with pytest.raises(InputError, match="1 NaN or infinite value"):
        ortune.rewrite(product_net(tmp_path), "static-int8", inputs=tmp_path / "x.npz")


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda model: ortune.compare(model, b_rewrite="static-int8", budget=5), id="compare"),
        pytest.param(
            lambda model: ortune.bench(model, rewrite="static-int8:operators=products", budget=5), id="bench"
        ),
        pytest.param(lambda model: ortune.look(model, rewrite="static-int8:activations=s8"), id="look"),
    ],
)
def test_where_a_model_cannot_be_calibrated_a_command_that_can_is_named(
    ask: Callable[[Path], object], tmp_path: Path
) -> None:
    model = product_net(tmp_path)
    with pytest.raises(UsageError) as refused:
        ask(model)
    assert "calibrated on inputs" in refused.value.what
    # What is named does what was asked for.
    inputs = tmp_path / "x.npz"
    np.savez(inputs, x=np.random.default_rng(1).random((1, 3, 12, 12), np.float32))
    told = re.search(r"ortune (.* --inputs PATH)", refused.value.do)
    assert told is not None, refused.value.do
    words = shlex.split(told[1].replace("PATH", str(inputs)))
    main.register("rewrite", "check")
    result = CliRunner().invoke(main.app, words)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "net-rewritten.onnx").is_file()
