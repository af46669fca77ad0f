"""Tool processes cannot leave their folder, and only what they were asked for is taken out of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnxruntime import datasets

import leaving
from leaving import REFUSING
from onnx_text import model_of, saved
from ortune.catalogue.providers import CPU
from ortune.records import Plan, ProviderSpec, Runtime
from ortune.targets.tool import ToolFailed, ToolProcess
from ortune.worker import fence

fenced = pytest.mark.skipif(bool(fence.missing()), reason=f"NOT TESTED: {fence.missing()}")
posix = pytest.mark.skipif(os.name != "posix", reason="interpreters that are scripts")
HERE = Runtime(python=sys.executable, ort_version=ort.__version__)
ON = "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"


def interpreter(path: Path, text: str) -> Runtime:
    """An interpreter that does something first."""
    path.write_text(f"#!{sys.executable}\nimport os, sys\n{text}")
    path.chmod(0o755)
    return Runtime(python=str(path), ort_version=ort.__version__)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "given").mkdir()
    return Path(shutil.copy(datasets.get_example("sigmoid.onnx"), tmp_path / "given"))


@fenced
@posix
def test_code_that_runs_in_a_tool_process_cannot_leave(model: Path, tmp_path: Path) -> None:
    """Stands for a fault of a library, which runs what a model file says."""
    (packages := tmp_path / "packages").mkdir()
    (packages / "given.json").write_text(json.dumps({"outside": "", "folder": str(tmp_path / "outside")}))
    shutil.copy(leaving.__file__, packages)
    code = leaving.MODULE.replace("given.json", str(packages / "given.json"))
    code = code.replace('open("written-here", "w")', f'open({str(model.parent / "written")!r}, "w")')
    (packages / "onnxruntime.py").write_text(code + "\nraise RuntimeError('confined')\n")
    text = f"os.environ['PYTHONPATH'] = {str(packages)!r}\n{ON}"
    with leaving.watched(tmp_path / "outside", tmp_path):
        given = json.loads((tmp_path / "given.json").read_text())
        (packages / "given.json").write_text(json.dumps(given))
        runtime = interpreter(tmp_path / "python", text)
        with pytest.raises(ToolFailed, match="confined"):
            ToolProcess(runtime=runtime, folder=tmp_path)("optimize", model, tmp_path / "after.onnx", {})
    assert [path.name for path in model.parent.iterdir()] == [model.name]


@fenced
@posix
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_without_a_fence_a_task_is_done_as_before(error: int, model: Path, tmp_path: Path) -> None:
    refusing = REFUSING.replace("int(sys.argv[1])", str(error)).replace(
        '[int(n) for n in sys.argv[2].split(",")]', str([fence._CREATE_RULESET])
    )
    runtime = interpreter(tmp_path / "python", refusing + ON)
    target = tmp_path / "after.onnx"
    ToolProcess(runtime=runtime, folder=tmp_path)("optimize", model, target, {"level": "basic"})
    assert ort.InferenceSession(target).get_inputs()


SPEAKS = """
import json
request = json.loads(sys.stdin.readline())
output = request["output"]
{}
print(json.dumps({{"message": "tool-done", "what": "done", "path": "/etc/passwd"}}))
"""


def linked(secret: Path) -> str:
    return f"os.symlink({str(secret)!r}, output)"


def linked_inside(secret: Path) -> str:
    return (
        f"os.mkdir(output); os.symlink({str(secret)!r}, output + '/basic.onnx')\n"
        f"os.symlink({str(secret.parent)!r}, output + '/case'); open(output + '/own', 'w')"
    )


def beside(secret: Path) -> str:
    return f"open(output, 'w'); [open(os.path.join(os.path.dirname(output), n), 'w') for n in ('{secret.name}', 'x')]"


def nothing(secret: Path) -> str:
    return ""


@posix
@pytest.mark.parametrize(
    ("result", "taken"), [(linked, None), (nothing, None), (linked_inside, ["own"]), (beside, [])]
)
def test_only_files_are_taken_and_from_one_place(
    result: Callable[[Path], str], taken: list[str] | None, model: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "given" / "secret"
    secret.write_text("secret")
    target = tmp_path / "result"
    tool = ToolProcess(
        runtime=interpreter(tmp_path / "python", SPEAKS.format(result(secret))), folder=tmp_path
    )
    if taken is None:
        with pytest.raises(ToolFailed, match="there is none"):
            tool("optimize", model, target, {})
        assert not target.is_symlink() and not target.exists()
    else:
        tool("optimize", model, target, {})
        assert [path.name for path in target.iterdir()] == taken if target.is_dir() else target.is_file()
    assert secret.read_text() == "secret" and not (tmp_path / "x").exists()
    assert not list(tmp_path.glob("tool-*"))


def test_which_tasks_are_confined(model: Path, tmp_path: Path) -> None:
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    limits = tool._fence("levels", model, {}, tmp_path)
    assert limits is not None and limits.reads == (str(model),) and limits.file_bytes > 0
    for task in ("metric", "peaks", "compile"):
        assert tool._fence(task, model, {}, tmp_path) is None
    cuda = Plan(providers=(ProviderSpec(name="CUDAExecutionProvider"), ProviderSpec(name=CPU.name)))
    assert ToolProcess(runtime=HERE, folder=tmp_path, plan=cuda)._fence("levels", model, {}, tmp_path) is None
    libraries = ToolProcess(runtime=HERE, folder=tmp_path, custom_ops=("ops.so",))
    assert libraries._fence("levels", model, {}, tmp_path) is None


def test_external_data_and_other_models_are_read(tmp_path: Path) -> None:
    other = saved(tmp_path / "other.onnx", model_of("g (float[2] x) => (float[2] y) { y = Relu (x) }"))
    weights = {"w": np.ones((64, 64), np.float32)}
    proto = model_of("g (float[2,64] x) => (float[2,64] y) { y = MatMul (x, w) }", weights=weights)
    path, target = tmp_path / "model.onnx", tmp_path / "after.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    tool = ToolProcess(runtime=HERE, folder=tmp_path)
    limits = tool._fence("graphs", path, {"models": json.dumps([str(path), str(other)])}, tmp_path)
    assert limits is not None
    assert set(limits.reads) == {str(path), str(other), str(tmp_path / "weights.bin")}
    tool("optimize", path, target, {"level": "basic"})
    assert onnx.load(target).graph.node
