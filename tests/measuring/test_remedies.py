"""What an error says to do is true in each way that it is reached."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

import ortune
from facts import facts
from onnx_text import model_of, saved
from ortune.catalogue import knobs
from ortune.errors import MeasurementError, ModelError, OrtuneError, UsageError
from ortune.graph.model.open import open_model
from ortune.inputs import workload
from ortune.inputs.trial_fixes import cannot_feed
from ortune.measuring import failures
from ortune.measuring.executor import Arm
from ortune.records import Failed, Plan, ProviderSpec
from ortune.rewrites import find
from ortune.runtimes.runtimes import find_runtime
from ortune.targets.tool import ToolFailed

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
GOOD = f"{HEAD} g (float[1,4] x) => (float[1,4] y) {{ y = Relu (x) }}"


def failed(what: str, *, reason: str = "load-error", phase: str = "loading") -> Failed:
    return Failed(plan="", reason=reason, what=what, phase=phase)  # type: ignore[arg-type]


def said_of(path: Path) -> str:
    """What ONNX Runtime says of a file that it does not load."""
    with pytest.raises(Exception) as caught:
        ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return f"{type(caught.value).__name__}: {caught.value}"


def model_of_kind(kind: str, folder: Path) -> Path:
    path = folder / "m.onnx"
    model = onnx.parser.parse_model(GOOD)
    if kind == "vanished":
        return path
    if kind == "data vanished":
        weights = onnx.numpy_helper.from_array(np.ones((1, 4096), np.float32), "w")
        model.graph.initializer.append(weights)
        model.graph.node[0].CopyFrom(onnx.helper.make_node("Add", ["x", "w"], ["y"]))
        model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4096
        model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 4096
        onnx.save(model, path, save_as_external_data=True, location="w.data")
        (folder / "w.data").unlink()
        return path
    if kind == "unknown":
        model.graph.node[0].op_type = "Mystery"
    if kind == "foreign":
        model.graph.node[0].domain = "somebody"
        model.opset_import.append(onnx.helper.make_opsetid("somebody", 1))
    if kind == "invalid":
        model.graph.node[0].input[0] = "nobody"
    if kind == "no kernel":
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("vanished", "restore the file"),
        ("data vanished", "restore the file"),
        ("unknown", "--custom-ops"),
        ("foreign", "--custom-ops"),
        ("invalid", "export the model again"),
        ("no kernel", "with these types"),
    ],
)
def test_of_a_model_that_does_not_load(kind: str, told: str, tmp_path: Path) -> None:
    what = said_of(model_of_kind(kind, tmp_path))
    do = failures.remedy(failed(what, reason="unsupported" if "NotImplemented" in what else "load-error"))
    assert told in do, what
    assert ("--custom-ops" in do) == (kind in ("unknown", "foreign"))


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("FP16 precision mode is enabled but soc_model is not specified.", "qnn_device_model"),
        ("EPFail: anything else", "options of the execution provider"),
    ],
)
def test_of_a_provider_that_does_not_start(what: str, told: str) -> None:
    assert told in failures.remedy(failed(what))


@pytest.mark.parametrize(
    ("provider", "said", "what", "do"),
    [
        (
            "WebGpuExecutionProvider",
            "EPFail: Failed to get a WebGPU adapter: No supported adapters",
            "found no GPU",
            "doctor",
        ),
        (
            "CUDAExecutionProvider",
            "CUDA failure 100: no CUDA-capable device is detected ; GPU=-1",
            "no NVIDIA GPU",
            "nvidia-smi",
        ),
        (
            "CUDAExecutionProvider",
            "CUDA failure 35: CUDA driver version is insufficient for CUDA runtime version",
            "driver",
            "update",
        ),
        (
            "CUDAExecutionProvider",
            "Failed to load library libonnxruntime_providers_cuda.so with error: libcublasLt.so.12: cannot open shared "
            "object file: No such file or directory",
            "library of CUDA or cuDNN is missing",
            "runtime add cuda",
        ),
        ("CUDAExecutionProvider", "CUDA failure 2: out of memory ; GPU=0", "memory of the GPU is full", "smaller"),
    ],
)  # fmt: skip
def test_an_error_of_a_device_begins_with_a_plain_sentence(
    provider: str, said: str, what: str, do: str, tmp_path: Path
) -> None:
    plan = Plan(providers=(ProviderSpec(name=provider),))
    arm = Arm(name="A", plan=plan, model=tmp_path / "m.onnx", runtime=find_runtime(sys.executable), feeds=())
    with pytest.raises(ModelError) as raised:
        failures.raise_if_unrunnable(failed(said), arm)
    first, *rest = raised.value.what.split("\n")
    assert what in first and said in "\n".join(rest) and do in raised.value.do
    fell_back = Failed(plan="", reason="not-applied", what="it fell back", phase="preparing", log=(said,))
    with pytest.raises(MeasurementError) as measured:
        failures.raise_if_unrunnable(fell_back, arm)
    assert what in measured.value.what.split("\n")[0]
    assert failures.device_failure(failed(said), Plan()) is None


@pytest.mark.parametrize(
    ("what", "told", "not_told"),
    [
        ("session.x='7' was refused: invalid value", "another value", "onnxruntime that has it"),
        ("x=1 was refused: 'SessionOptions' object has no attribute 'x'", "onnxruntime that has it", "value"),
        ("CUDAExecutionProvider fell back to CPUExecutionProvider", "has this execution provider", "value"),
        (
            "A fell back to B: this build has it, and it did not start",
            "omit or change the options",
            "onnxruntime that has it",
        ),
        # Providers that need fixed sizes take nothing of a model that takes any batch.
        ("A took none of the nodes: all run on B", "fixed-dimensions", "onnxruntime that has it"),
    ],
)
def test_of_what_was_not_applied(what: str, told: str, not_told: str) -> None:
    outcome = failed(what, reason="not-applied")
    do = failures.remedy(outcome)
    assert told in do and not_told not in do
    assert failures.describe(outcome) == what


@pytest.mark.parametrize(
    ("verb", "options", "where"),
    [
        (ortune.bench, {"set": ["intraa=4"]}, "set"),
        (ortune.bench, {"plan": "p.json"}, "p.json"),
        (ortune.compare, {"b_set": ["intraa=4"]}, "b_set"),
        (ortune.compare, {"b_set": ["intra=many"]}, "b_set"),
        (ortune.compare, {"b": "p.json"}, "p.json"),
        (ortune.profile, {"b_set": ["intraa=4"]}, "b_set"),
        (ortune.tune, {"current": "intraa=4"}, "current"),
    ],
)
def test_a_setting_is_refused_where_it_was_written(
    verb: Callable[..., Any],
    options: dict[str, Any],
    where: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(GOOD), "m.onnx")
    Path("p.json").write_text('{"settings": {"intra_op_num_threadz": 4}}')
    with pytest.raises(UsageError) as caught:
        verb("m.onnx", **options)
    assert caught.value.where == where


@pytest.mark.parametrize("sizes", ["1,4", "N,4", "N,M"])
def test_a_shape_that_failed_is_not_what_is_advised(sizes: str, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(GOOD.replace("1,4", sizes)), tmp_path / "m.onnx")
    model = open_model(tmp_path / "m.onnx").ir
    work = workload.propose(model)
    error = cannot_feed(model, work, "Reshape failed")
    tried = "x".join(map(str, work.cases[0].inputs[0].shape))
    assert f"x:{tried}" not in error.do and "--inputs" in error.do
    assert ("--shape" in error.do) == (sizes != "1,4"), "sizes that are fixed cannot be given"


def test_nodes_with_constants_alone_that_are_left_are_counted(tmp_path: Path) -> None:
    text = f"""{HEAD} g (float[1,4] x) => (float[1,4] y, float[1,4] z) <float[1,4] a = {{1,2,3,4}}>
        {{ s = Elu (a)  y = Add (x, s)  z = Add (a, a) }}"""
    result = find("constant-folding").apply(onnx_ir_of(text, tmp_path))
    assert not result.modified
    facts(result.reasons[0], "2 nodes", "only constant inputs", "Elu", "(1)")
    none = find("constant-folding").apply(onnx_ir_of(GOOD, tmp_path))
    assert none.reasons[0].startswith("no node ")


def onnx_ir_of(text: str, folder: Path):  # type: ignore[no-untyped-def]
    onnx.save(onnx.parser.parse_model(text), folder / "f.onnx")
    return open_model(folder / "f.onnx").ir


def test_a_tool_that_fails_advises_what_was_asked_of_it() -> None:
    rewrite = ToolFailed("no operator to quantise", task="static-int8", where="m", reason="unsupported")
    assert rewrite.do == "Omit the rewrite for this model."
    assert "--inputs" in ToolFailed("no", task="static-int8", where="m", reason="input-error").do
    assert "rewrite" not in ToolFailed("no", task="levels", where="m", reason="load-error").do
    assert "idle" in ToolFailed("no", task="levels", where="m", reason="timeout").do
    assert "memory" in ToolFailed("no", task="levels", where="m", reason="out-of-memory").do


def test_nothing_near_is_no_did_you_mean() -> None:
    with pytest.raises(UsageError) as caught:
        knobs.find("qqqqqq", "--b-set")
    assert caught.value.do.startswith("the settings are ") and caught.value.where == "--b-set"


CONV = """g (float[1,2,4,4] x) => (float[1,3,4,4] y) <float[3,2,1,1] w = {1,2,3,4,5,6}, float[N] bias = {B}> {
    [conv] y = Conv <kernel_shape = [1,1]> (x, w, bias)
}"""
SCALED = """g (float[2,4] x) => (float[2,4] y) <float[4] none = {0,0,0,0}, float[N] k = {B}> {
    a = Add (x, none)  [scale] y = LayerNormalization (a, k)
}"""


@pytest.mark.parametrize(
    ("text", "right", "wrong", "node", "weight"),
    [(CONV, 3, 2, "conv", "bias 2"), (SCALED, 4, 3, "scale", "k 3")],
    ids=["conv", "norm"],
)
def test_a_stored_weight_that_does_not_fit_is_at_fault_on_either_side(
    text: str, right: int, wrong: int, node: str, weight: str, tmp_path: Path
) -> None:
    paths = []
    for n in (right, wrong):
        sized = text.replace("[N]", f"[{n}]").replace("{B}", "{" + ",".join("1" * n) + "}")
        paths.append(saved(tmp_path / f"{n}.onnx", model_of(sized)))
    for call in (
        lambda: ortune.bisect(*paths),
        lambda: ortune.compare(*paths, budget=10, store=tmp_path / "store"),
        lambda: ortune.bench(paths[1], store=tmp_path / "store"),
    ):
        with pytest.raises(OrtuneError) as raised:
            call()
        facts(str(raised.value), node, weight)
        assert "no other input can help" in raised.value.do
