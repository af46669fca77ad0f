"""The tool process for real: what it writes, and what comes of it when it cannot."""

from __future__ import annotations

import os
import platform as machine
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from corpus_models import info, model, node, weight
from onnx import helper, numpy_helper
from rewrite_corpus import CORPUS, OUT

from ortune import rewrites
from ortune.graph.model.graphs import nodes
from ortune.graph.model.open import open_model
from ortune.records import Applied, Plan, ProviderSpec, RewriteSpec, Runtime
from ortune.targets.archive import write_worker
from ortune.targets.task import Limits
from ortune.targets.tool import ToolFailed, ToolProcess

BY_NAME = {sample.name: sample for sample in CORPUS}
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
ort.set_default_logger_severity(4)


def script(path: Path, text: str) -> Runtime:
    """A stand-in for an interpreter that is broken in some way."""
    path.write_text(f"#!{sys.executable}\n{text}", encoding="utf-8")
    path.chmod(0o755)
    return Runtime(python=str(path))


def failure(tool: ToolProcess, source: Path, target: Path, task: str = "optimize") -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        tool(task, source, target, {"level": "all"})
    assert caught.value.what
    assert caught.value.do
    assert caught.value.where
    assert "Traceback" not in str(caught.value)
    assert not list(target.parent.glob("tool-*"))
    assert caught.value.code == f"tool-{caught.value.reason}"
    return caught.value


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return BY_NAME["plain"].write(tmp_path)


@pytest.mark.parametrize("level", ["all", "extended", "basic"])
def test_what_each_level_saves(level: str, tmp_path: Path) -> None:
    """The notes on hardware: only ``all`` blocks convolutions for this CPU, only ``basic`` is plain ONNX."""
    source = open_model(BY_NAME["old-exporter"].write(tmp_path))
    specs = [RewriteSpec(name=OUT), rewrites.parse(f"ort-optimized-model:level={level}")]
    made = rewrites.rewrite_model(source, specs, tmp_path, ToolProcess(runtime=HERE, folder=tmp_path))
    after = open_model(made.path).ir
    domains = {n.domain for n in nodes(after)}
    assert [step.result.modified for step in made.steps] == [True, True]
    assert made.hardware_bound
    assert made.settings == {"graph_optimization_level": "disable"}
    assert after.metadata_props[rewrites.MODEL_KEY] == f"{OUT},ort-optimized-model"
    assert all("BatchNormalization" not in n.op_type for n in nodes(after))
    if level == "basic":
        assert domains == {""}
    elif level == "extended":
        assert "com.microsoft.nchwc" not in domains
        assert "com.microsoft" in domains
    elif machine.machine().lower() in ("x86_64", "amd64"):
        assert "com.microsoft.nchwc" in domains


def test_weights_for_matrix_products_are_not_saved_prepacked(plain: Path, tmp_path: Path) -> None:
    target = tmp_path / "after.onnx"
    ToolProcess(runtime=HERE, folder=tmp_path)("optimize", plain, target, {"level": "all"})
    saved = open_model(target).ir.graph.initializers["w"].const_value
    assert saved is not None
    assert saved.numpy().tobytes() == weight("w", 32, 16).raw_data


def test_nodes_that_stay_keep_their_metadata(tmp_path: Path) -> None:
    proto = BY_NAME["plain"].build()
    for n in proto.graph.node:
        n.metadata_props.add(key="exporter.scope", value=n.name)
    onnx.save(proto, tmp_path / "m.onnx")
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    spec = rewrites.parse("ort-optimized-model:level=basic")
    made = rewrites.apply_all(open_model(tmp_path / "m.onnx"), [spec], tmp_path / "out", tool)
    # The Identity between them goes, so that Relu reads from MatMul: one node stays, one is another.
    scopes = [n.metadata_props.get("exporter.scope") for n in nodes(open_model(made).ir)]
    assert scopes == ["matmul", None]


def test_weights_that_folding_makes_are_written_beside(tmp_path: Path) -> None:
    """A file of a few bytes can become one that protobuf cannot hold, so weights never go inside."""
    graph_model = model(
        [
            node("ConstantOfShape", ["shape"], ["c"], value=helper.make_tensor("v", 1, [1], [0.5])),
            node("Add", ["x", "c"], ["y"]),
        ],
        [info("x", onnx.TensorProto.FLOAT, [64, 64])],
        [info("y", onnx.TensorProto.FLOAT, [64, 64])],
        [numpy_helper.from_array(np.array([64, 64], np.int64), "shape")],
    )
    source, target = tmp_path / "small.onnx", tmp_path / "after.onnx"
    onnx.save(graph_model, source)
    said = ToolProcess(runtime=HERE, folder=tmp_path)("optimize", source, target, {"level": "all"})
    assert ort.__version__ in said
    assert target.stat().st_size < 4096
    assert (tmp_path / "after.onnx.data").stat().st_size >= 4 * 64 * 64


def test_a_model_that_cannot_be_loaded(tmp_path: Path) -> None:
    broken = model(
        [node("NoSuchOperator", ["x"], ["y"])],
        [info("x", onnx.TensorProto.FLOAT, [1])],
        [info("y", onnx.TensorProto.FLOAT, [1])],
        [],
    )
    onnx.save(broken, tmp_path / "broken.onnx")
    error = failure(
        ToolProcess(runtime=HERE, folder=tmp_path), tmp_path / "broken.onnx", tmp_path / "after.onnx"
    )
    assert error.reason in ("load-error", "unsupported")
    assert "NoSuchOperator" in error.what
    assert error.where == "optimize broken.onnx"


def test_a_target_that_cannot_be_written(plain: Path, tmp_path: Path) -> None:
    error = failure(ToolProcess(runtime=HERE, folder=tmp_path), plain, tmp_path / "no" / "folder" / "m.onnx")
    assert error.reason == "load-error"


def test_a_provider_that_is_not_there(plain: Path, tmp_path: Path) -> None:
    tool = ToolProcess(
        runtime=HERE, folder=tmp_path, plan=Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"),))
    )
    assert failure(tool, plain, tmp_path / "after.onnx").reason in ("not-applied", "load-error")


def test_a_setting_that_is_refused(plain: Path, tmp_path: Path) -> None:
    wrong = Applied(knob="k", channel="session_option", key="no_such_option", value=1)
    error = failure(
        ToolProcess(runtime=HERE, folder=tmp_path, variables=(wrong,)), plain, tmp_path / "m.onnx"
    )
    assert error.reason == "unknown-key"
    assert "no_such_option" in error.what


def test_a_library_of_operators_that_is_not_there(plain: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path, custom_ops=(str(tmp_path / "no.so"),))
    assert failure(tool, plain, tmp_path / "after.onnx").reason == "load-error"


def test_a_task_that_is_not_known(plain: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    assert failure(tool, plain, tmp_path / "after.onnx", task="fly").what == "unknown task 'fly'"


@pytest.mark.skipif(os.name != "posix", reason="interpreters that are scripts")
@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("import os; os.kill(os.getpid(), 9)", "crash", "SIGKILL"),
        ("raise SystemExit(7)", "crash", "code 7"),
        ("print('hello')", "protocol", "without a message"),
        ("print('{\"message\": 5}')", "protocol", "unreadable"),
        ("input(); import time; time.sleep(60)", "timeout", "timed out"),
    ],
)
def test_an_interpreter_that_is_broken(
    text: str, reason: str, said: str, plain: Path, tmp_path: Path
) -> None:
    runtime = script(tmp_path / "python", text)
    tool = ToolProcess(
        runtime=runtime, folder=tmp_path, limits=Limits(load_s=1.0 if "sleep" in text else 30.0)
    )
    error = failure(tool, plain, tmp_path / "after.onnx")
    assert error.reason == reason
    assert said in error.what


def test_an_interpreter_that_is_not_there(plain: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=Runtime(python=str(tmp_path / "none")), folder=tmp_path)
    error = failure(tool, plain, tmp_path / "after.onnx")
    assert error.reason == "no-runtime"
    assert "--runtime" in error.do


@pytest.mark.skipif(os.name != "posix", reason="interpreters that are scripts")
def test_an_interpreter_without_onnxruntime(plain: Path, tmp_path: Path) -> None:
    # Without site-packages there is no onnxruntime.
    text = "import os, sys; os.execv(sys.executable, [sys.executable, '-I', '-S', *sys.argv[1:]])"
    tool = ToolProcess(runtime=script(tmp_path / "python", text), folder=tmp_path)
    assert failure(tool, plain, tmp_path / "after.onnx").reason == "no-runtime"


def test_another_version_of_the_protocol_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(write_worker(tmp_path)), "tool"],
        input=b'{"version":99}\n',
        capture_output=True,
        check=True,
    )
    assert b'"reason":"protocol"' in done.stdout


def test_a_failure_leaves_no_half_model(tmp_path: Path) -> None:
    source = open_model(BY_NAME["plain"].write(tmp_path))
    tool = ToolProcess(runtime=Runtime(python=str(tmp_path / "none")), folder=tmp_path)
    with pytest.raises(ToolFailed):
        rewrites.apply_all(source, [rewrites.parse("ort-optimized-model")], tmp_path / "kept", tool)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_tool_is_told_apart_by_what_changes_its_result(tmp_path: Path) -> None:
    one = ToolProcess(runtime=HERE, folder=tmp_path)
    other = ToolProcess(runtime=Runtime(python=sys.executable, ort_version="1.2.3"), folder=tmp_path)
    assert one.identity == ToolProcess(runtime=HERE, folder=tmp_path / "else").identity
    assert one.identity != other.identity
