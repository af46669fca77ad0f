"""Ten sources of the usual kinds converted, checked and tuned; planted faults told; files that hold code refused."""

from __future__ import annotations

import contextlib
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

import made_runtimes
import ortune
import ten_sources
from ortune import launcher, platform
from ortune.errors import OrtuneError
from ortune.measuring.watcher import Watcher
from ortune.runtimes.converters import SKLEARN, TENSORFLOW, TORCH, Converter
from ortune.verbs.convert import run as convert
from ortune.verbs.convert.options import Options
from ten_sources import SmallSource

pytestmark = pytest.mark.long
FREE_BYTES = 16 << 30


def python_of(converter: Converter) -> str:
    return made_runtimes.require(converter.name).runtime.python


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources, and the files that the frameworks write of them."""
    place = tmp_path_factory.mktemp("sources")
    ten_sources.write(place, python_of, TORCH, TENSORFLOW)
    return place


@pytest.mark.parametrize("source", ten_sources.TEN, ids=lambda source: source.text)
def test_a_source_is_converted_checked_and_tuned(
    source: SmallSource, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answer = ortune.convert(
        source.text, dynamic=source.dynamic, tune=True, budget="90s", output="tuned.onnx", force=True,
        source_python=python_of(source.converter),
    )  # fmt: skip
    assert answer.verdict == "written", answer.summary()
    last = answer.result.conversions[-1]
    assert last.ok and {case.level for case in last.cases} == {"all", "disable"}
    assert {axis.name for axis in last.axes if axis.status == "open"} >= source.axes
    assert answer.result.tuned is not None
    entries = {entry.key: entry.value for entry in onnx.load("tuned.onnx").metadata_props}
    told = json.loads(entries["ortune.source"])
    if answer.result.tuned.bundle:  # a busy machine confirms nothing in this time
        about = json.loads((Path(answer.result.tuned.bundle) / "ortune.json").read_text())
        assert about["source"] == told
    assert (told["exporter"], told["opset"]) == (last.exporter, last.opset)
    assert told["versions"] == answer.result.versions and "sets of inputs" in told["checked"]


@pytest.mark.parametrize("source", ["booster", "booster_of_three", "named_columns"])
def test_boosters_of_every_form_are_converted(
    source: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    more = {"output": "booster.onnx", "force": True, "source_python": python_of(SKLEARN)}
    answer = ortune.convert(f"fitted_sources:{source}", framework="sklearn", **more)
    assert answer.verdict == "written", answer.summary()
    assert answer.result.conversions[-1].ok


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("of_two_outputs", "several outputs (this one has 2)"),
        ("trees_of_two_outputs", "several outputs (this one has 2)"),
        ("of_two_labels", "several outputs (this one has 2)"),
        ("linear", "another booster than gbtree (this one has gblinear)"),
    ],
)
def test_what_a_converter_does_not_support_is_named(
    source: str, cause: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two outputs, XGBoost's converter writes one silently, and of others it raises an error without a cause."""
    monkeypatch.chdir(folder)
    more = {"output": "refused.onnx", "force": True, "source_python": python_of(SKLEARN)}
    answer = ortune.convert(f"fitted_sources:{source}", framework="sklearn", **more)
    assert answer.verdict == "not-converted"
    (attempt,) = answer.result.conversions
    assert "onnxmltools" in attempt.failed and cause in attempt.failed


@pytest.mark.parametrize(
    ("source", "options", "rule", "better", "mended"),
    [
        ("swish", {"opset": 12, "exporter": "torchscript"}, "GRA004", "swish", {"opset": 18}),
        ("plain_norm", {"opset": 16, "exporter": "torchscript"}, "GRA011", "plain_norm", {"opset": 17}),
        ("tanh_gelu", {"opset": 19, "exporter": "torchscript"}, "GRA012", "tanh_gelu", {"opset": 20}),
        ("attention", {}, "GRA013", "attention", {"opset": 23}),
        ("swish_by_hand", {}, "GRA017", "swish", {}),
    ],
)  # fmt: skip
def test_what_an_exporter_left_is_named_with_what_mends_it(
    source: str,
    options: dict[str, object],
    rule: str,
    better: str,
    mended: dict[str, object],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    more = {"output": "left.onnx", "force": True, "source_python": python_of(TORCH)}
    answer = ortune.convert(f"torch_sources:{source}", **options, **more)
    (finding,) = (each for each in answer.result.findings if each.code == rule)
    wanted = f"--opset {mended['opset']}" if mended else f"torch.nn.functional.hard{better}"
    assert wanted in finding.fix and wanted in answer.summary()
    answer = ortune.convert(f"torch_sources:{better}", **mended, **more)
    assert answer.verdict == "written" and rule not in [each.code for each in answer.result.findings]


def test_what_to_fix_is_said_before_the_file_is_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has to export again need not wait for the rest, nor find the sentence below the answer."""
    monkeypatch.chdir(folder)
    said: list[tuple[str, bool]] = []
    options = Options(
        source="torch_sources:swish_by_hand", output=Path("said.onnx"), source_python=python_of(TORCH)
    )
    answer = convert.run(options, Watcher(say=lambda text: said.append((text, Path("said.onnx").exists()))))
    assert answer.verdict == "written" and Path("said.onnx").exists()
    ((text, was_there),) = ((text, there) for text, there in said if "GRA017" in text)
    assert not was_there and "--dynamic batch" in text and "said.onnx" in text
    assert any("--dynamic batch" in note for note in answer.result.notes)


def test_an_exporter_that_writes_another_opset_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    more = {"opset": 12, "force": True, "source_python": python_of(TORCH)}
    answer = ortune.convert("resnet.pt2", exporter="dynamo", output="older.onnx", **more)
    (note,) = (note for note in answer.result.notes if "--opset" in note)
    assert f"dynamo wrote opset {answer.result.conversions[0].opset}" in note and note in answer.summary()
    answer = ortune.convert("torch_sources:swish", exporter="torchscript", output="older.onnx", **more)
    assert answer.result.conversions[0].opset == 12
    assert not any("--opset" in note for note in answer.result.notes)


def test_a_model_above_2_gb_is_written_with_its_weights_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Protobuf ends at 2 GB: what the exporter writes, what is checked and what is delivered are two files each."""
    left = platform.memory_left_bytes()
    if left is not None and left < FREE_BYTES:
        pytest.skip(f"{FREE_BYTES >> 30} GiB of memory are not free")
    ten_sources.write(tmp_path, python_of)
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "written" / "wide.onnx"
    place.parent.mkdir()
    answer = ortune.convert(
        "torch_sources:wide",
        dynamic="batch",
        output=str(place),
        exporter="dynamo",
        source_python=python_of(TORCH),
    )
    (conversion,) = answer.result.conversions
    assert answer.verdict == "written" and conversion.ok
    assert {case.level for case in conversion.cases} == {"all", "disable"}
    assert {axis.name: axis.status for axis in conversion.axes} == {"batch": "open"}
    data = [path for path in place.parent.iterdir() if path != place]
    assert sum(path.stat().st_size for path in data) > 2 << 30 > 1 << 20 > place.stat().st_size
    session = ort.InferenceSession(str(place), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: np.ones((5, 13500), np.float32)})
    assert y.shape == (5, 13500) and np.isfinite(y).all() and np.any(y)


def test_frozen_branches_are_found_by_other_values_and_sizes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    python = python_of(TORCH)
    answer = ortune.convert(
        "torch_sources:by_value", exporter="torchscript", output="by_value.onnx", source_python=python
    )
    fault = answer.result.conversions[0].fault
    assert answer.verdict == "wrong-output" and fault is not None and fault.kind == "frozen-branch"
    assert not Path("by_value.onnx").exists()
    answer = ortune.convert(
        "torch_sources:by_size",
        dynamic="seq",
        exporter="torchscript",
        output="by_size.onnx",
        source_python=python,
    )
    (conversion,) = answer.result.conversions
    assert conversion.fault is not None and conversion.fault.kind == "frozen-branch"
    assert [(axis.name, axis.status) for axis in conversion.axes] == [("seq", "frozen")]


def _weights(model: onnx.ModelProto) -> None:
    tensor = next(each for each in model.graph.initializer if len(each.dims) == 2)
    values = numpy_helper.to_array(tensor).copy()
    values[0] *= 1.5
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _axis(model: onnx.ModelProto) -> None:
    output = model.graph.output[0]
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("Transpose", ["before"], [output.name], perm=[1, 0]))
    del output.type.tensor_type.shape.dim[:]
    output.type.tensor_type.shape.dim.add()
    output.type.tensor_type.shape.dim.add()


def _batch(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        size = value.type.tensor_type.shape.dim[0]
        size.Clear()
        size.dim_value = 4
    del model.graph.value_info[:]


def _activation(model: onnx.ModelProto) -> None:
    node = [each for each in model.graph.node if each.op_type == "Relu"][-1]
    for each in model.graph.node:
        for i, name in enumerate(each.input):
            if name == node.output[0]:
                each.input[i] = node.input[0]
    model.graph.node.remove(node)


def _overflow(model: onnx.ModelProto) -> None:
    last = model.graph.node[-1]
    steps = [
        helper.make_node("Mul", [last.input[0], "large"], ["o1"]),
        helper.make_node("Cast", ["o1"], ["o2"], to=onnx.TensorProto.FLOAT16),
        helper.make_node("Cast", ["o2"], ["o3"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["o3", "little"], ["o4"]),
    ]
    last.input[0] = "o4"
    nodes = [*list(model.graph.node)[:-1], *steps, last]
    kept = [onnx.NodeProto.FromString(each.SerializeToString()) for each in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    for name, value in (("large", 1e8), ("little", 1e-8)):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(value), name))


@pytest.mark.parametrize(
    ("plant", "kind", "named"),
    [
        (_weights, "values", "weight"), (_axis, "axes-swapped", "Transpose"), (_batch, "frozen-size", "fixed"),
        (_activation, "values", "Relu"), (_overflow, "overflow", "Cast"),
    ],
)  # fmt: skip
def test_a_planted_fault_is_found_and_named(
    plant: Callable[[onnx.ModelProto], None],
    kind: str,
    named: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    python = python_of(TORCH)
    if not Path("right.onnx").exists():
        assert ortune.convert("resnet.pt2", output="right.onnx", source_python=python).verdict == "written"
    model = onnx.load("right.onnx")
    plant(model)
    onnx.save(model, "wrong.onnx")
    answer = ortune.convert("resnet.pt2", "wrong.onnx", verify=True, source_python=python)
    fault = answer.result.conversions[0].fault
    assert answer.verdict == "wrong-output" and convert.exit_code(answer) == 1
    assert fault is not None and fault.kind == kind
    again, *bisect = answer.result.again
    assert again.startswith("ortune convert resnet.pt2 ") and bool(bisect) == (fault.node is not None)
    assert named in answer.summary()


class Writes:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self) -> tuple[object, tuple[Path, str]]:
        return (Path.write_text, (self.place, "it ran"))


def _planted(name: str, into: str, content: Callable[[bytes], bytes]) -> None:
    """The ResNet's archive with every entry changed whose name has ``into``; one is added where none has."""
    with zipfile.ZipFile("resnet.pt2") as source, zipfile.ZipFile(name, "w") as target:
        names = source.namelist()
        for each in names:
            data = source.read(each)
            target.writestr(each, content(data) if into in each else data)
        if not any(into in each for each in names):
            target.writestr(into, content(b""))


def _sympy(code: str) -> Callable[[bytes], bytes]:
    return lambda data: data.replace(b"Symbol('s", code.encode() + b" + Symbol('s")


def _guard(code: str) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        program = json.loads(data)
        return json.dumps(program | {"guards_code": [code]}).encode()

    return change


def _target(data: bytes) -> bytes:
    program = json.loads(data)
    program["graph_module"]["graph"]["nodes"][0]["target"] = "torch.os.getpid"
    return json.dumps(program).encode()


def test_a_program_that_would_run_code_is_refused_and_nothing_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    ran = folder / "it-ran"
    evil = pickle.dumps(Writes(ran))
    code = f"__import__('pathlib').Path('{ran}').write_text('it ran')"
    Path("pickle.pt2").write_bytes(evil)
    _planted("inputs.pt2", "sample_inputs", lambda _: evil)
    _planted("weight.pt2", "weights/weight_0", lambda _: evil)
    _planted("size.pt2", "models/", _sympy(code))
    _planted("guard.pt2", "models/", _guard(code))
    _planted("target.pt2", "models/", _target)
    _planted("library.pt2", "resnet/data/aotinductor/model/a.so", lambda _: b"\x7fELF")
    for name in ("pickle", "inputs", "size", "target", "library"):
        with pytest.raises(OrtuneError) as error:
            ortune.convert(f"{name}.pt2", output=f"{name}.onnx", source_python=python_of(TORCH))
        assert error.value.code == "source-refused", name
        assert not ran.exists(), name
    # Guards are left out, and a weight is bytes alone: nothing is unpickled, whatever these are.
    for name in ("guard", "weight"):
        with contextlib.suppress(OrtuneError):
            ortune.convert(f"{name}.pt2", output=f"{name}.onnx", source_python=python_of(TORCH))
    assert not ran.exists()
    pickle.loads(evil)  # the plant is real
    assert ran.exists()


def test_tensorflow_files_that_hold_code_are_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    python = python_of(TENSORFLOW)
    for name in ("code.keras", "calls_python"):
        with pytest.raises(OrtuneError) as error:
            ortune.convert(name, output="code.onnx", source_python=python)
        assert error.value.code == "source-refused", name
    assert not Path("it-ran-in-keras").exists()


REACHING = """
import os, sys
import tensorflow as tf

mark = os.path.abspath("it-ran-in-tensorflow")


def prints(x):
    tf.print("text", output_stream="file://" + mark)
    return {"y": x * 2}


def debugs(x):
    return {"y": tf.raw_ops.DebugIdentityV2(input=x, debug_urls=["file://" + mark], tfdbg_run_id="a")}


def reads(x):
    return {"y": x + tf.cast(tf.strings.length(tf.io.read_file("/etc/passwd")), tf.float32)}


@tf.function
def inner(x):
    tf.io.write_file(mark, "text")
    return x


def nested(x):
    return {"y": tf.cond(tf.reduce_sum(x) > 1e9, lambda: inner(x), lambda: x * 2)}


for function in (prints, debugs, reads, nested):
    module = tf.Module()
    module.f = tf.function(function, input_signature=[tf.TensorSpec([None, 3])])
    tf.saved_model.save(module, function.__name__, signatures={"serving_default": module.f})
lite = tf.lite.TFLiteConverter.from_concrete_functions([tf.function(
    lambda x: inner(x) * 2, input_signature=[tf.TensorSpec([1, 3])]).get_concrete_function()])
lite.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
lite._experimental_allow_all_select_tf_ops = True
open("lite.tflite", "wb").write(lite.convert())
"""


def test_operators_that_reach_for_files_are_named_and_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    python = python_of(TENSORFLOW)
    done = launcher.run([python, "-c", REACHING], limit_s=300.0, folder=tmp_path)
    assert done.code == 0, done.log.decode()[-2000:]
    operators = {
        "prints": "PrintV2",
        "debugs": "DebugIdentityV2",
        "reads": "ReadFile",
        "nested": "WriteFile",
        "lite.tflite": "WriteFile",
    }
    for name, operator in operators.items():
        with pytest.raises(OrtuneError, match=operator) as error:
            ortune.convert(name, output="m.onnx", source_python=python)
        assert error.value.code == "source-refused"
    assert not Path("it-ran-in-tensorflow").exists()
