"""Interpreters are found and probed for real; broken environments are folders on disk, made here."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest

from facts import facts
from ortune import targets
from ortune.errors import RuntimeNotFound
from ortune.runtimes import probe_script, runtimes
from ortune.runtimes.local_support import lacking
from ortune.runtimes.probe import ask, try_provider
from ortune.targets.inventory import report as report_of

pytestmark = pytest.mark.skipif(os.name == "nt", reason="shell scripts and links")


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("venvs") / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def packages(empty_venv, tmp_path, monkeypatch):
    """Writes packages into a folder that the empty environment sees through PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))

    def write(files: dict[str, str]) -> str:
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return str(empty_venv)

    return write


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def wheel(name: str, version: str, record: str) -> dict[str, str]:
    folder = f"{name.replace('-', '_')}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    return {f"{folder}/METADATA": metadata, f"{folder}/RECORD": f"{record},,\n"}


def test_this_interpreter_is_a_usable_runtime():
    runtime = runtimes.probe(sys.executable)
    assert runtime.error == ""
    assert runtime.ort_version == onnxruntime.__version__
    assert runtime.python == sys.executable
    assert runtime.python_version == ".".join(str(part) for part in sys.version_info[:3])
    assert runtime.package.startswith("onnxruntime")
    assert list(runtime.providers) == onnxruntime.get_available_providers()


def test_a_venv_by_its_folder_or_its_python(empty_venv):
    by_folder, by_python = runtimes.probe(str(empty_venv)), runtimes.probe(str(empty_venv / "bin/python"))
    assert by_folder == by_python
    assert "not installed" in by_folder.error
    # The link is not followed: its target is another environment.
    assert by_folder.python == str(empty_venv / "bin/python")


def test_a_path_relative_to_the_current_folder(empty_venv, monkeypatch):
    monkeypatch.chdir(empty_venv.parent)
    assert runtimes.interpreter("empty/bin/../bin/python") == str(empty_venv / "bin/python")
    assert runtimes.interpreter("empty") == str(empty_venv / "bin/python")
    assert runtimes.interpreter("sh").endswith("/sh")
    assert runtimes.interpreter("no-such-command") == ""


def test_the_current_folder_is_not_imported_from(tmp_path, monkeypatch):
    (tmp_path / "onnxruntime.py").write_text("raise SystemExit('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    assert runtimes.probe(sys.executable).ort_version == onnxruntime.__version__


def test_numpy_is_missing(packages):
    python = packages({"onnxruntime/__init__.py": "import numpy"})
    assert runtimes.probe(python).error.startswith("numpy ")
    with pytest.raises(RuntimeNotFound) as caught:
        runtimes.find_runtime(python)
    assert caught.value.where == f"--runtime {python}"
    assert caught.value.do.startswith(f"{python}/bin/python -m pip")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "raise ImportError('libfoo.so.1: cannot open')",
            "import onnxruntime failed: ImportError: libfoo.so.1: ",
        ),
        ("import os; os.kill(os.getpid(), 9)", "import onnxruntime: the process was killed by SIGKILL"),
        ("import sys; sys.exit(3)", "import onnxruntime: the process exited with status 3 and no answer"),
        ("print('noise', end='')", "import onnxruntime failed: ImportError: "),
    ],
)
def test_an_import_that_fails_says_how(packages, text, error):
    runtime = runtimes.probe(packages({"numpy.py": "", "onnxruntime.py": text}))
    assert runtime.error.startswith(error)
    assert runtime.python_version != ""


def test_a_folder_that_is_left_over_is_no_runtime(packages):
    runtime = runtimes.probe(packages({"numpy.py": "", "onnxruntime/data.bin": ""}))
    assert "is not an ONNX Runtime" in runtime.error


def test_numpy_2_under_an_old_release(packages):
    record = "onnxruntime/capi/onnxruntime_pybind11_state.so"
    python = packages(
        {
            "numpy.py": "",
            "onnxruntime.py": "raise ImportError",
            **wheel("numpy", "2.4.6", "numpy.py"),
            **wheel("onnxruntime", "1.18.1", record),
        }
    )
    assert "onnxruntime 1.18.1 needs numpy 1 but numpy 2.4.6 is installed" in runtimes.probe(python).error


def test_an_old_python_says_that_it_is_too_old(tmp_path):
    # Any interpreter may stand here as long as it answers: this one hands the script on and claims to be old.
    body = "import sys; sys.version_info = (3, 6, 15); exec(sys.stdin.read())"
    old = script(tmp_path / "python3.6", f"#!/bin/sh\nexec {sys.executable} -c {body!r}\n".replace("'", '"'))
    facts(runtimes.probe(old).error, "Python 3.6.15", "too old", "3.8 or later")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("#!/bin/sh\nexit 0\n", "not a working Python interpreter (exited with status 0 and no answer)"),
        ("#!/bin/sh\necho broken >&2; exit 9\n", "(exited with status 9 and no answer: broken)"),
        ("#!/bin/sh\nexec cat\n", "exited with status 0 and no answer"),
        ("#!/no/such/interpreter\n", "cannot be started: No such file"),
        ("just text", "cannot be started: Exec format error"),
    ],
)
def test_what_is_no_python(tmp_path, text, error):
    path = script(tmp_path / "python", text)
    runtime = runtimes.probe(path)
    assert error in runtime.error
    with pytest.raises(RuntimeNotFound, match="not a working Python interpreter") as caught:
        runtimes.find_runtime(path)
    assert caught.value.exit_code == 2
    assert caught.value.do


def test_an_interpreter_that_never_answers_is_ended(tmp_path):
    answer = ask(script(tmp_path / "python", "#!/bin/sh\nexec sleep 60\n"), "look", timeout_s=0.2)
    facts(answer.ended, "no answer", "0.2 s")
    assert not answer.complete


@pytest.mark.parametrize("name", ["absent", "folder"])
def test_what_does_not_exist(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(RuntimeNotFound, match="Python interpreter"):
        runtimes.find_runtime(str(tmp_path / name))


def test_places_in_order_and_once_each(empty_venv):
    environment = {"VIRTUAL_ENV": str(empty_venv), "PATH": str(empty_venv / "bin")}
    found = runtimes.places(environment)
    assert [place.origin for place in found] == ["$VIRTUAL_ENV", "ortune's own"]
    found = runtimes.places({"PATH": str(empty_venv / "bin")})
    assert [place.origin for place in found] == ["ortune's own", "python3 on PATH"]


def test_the_first_usable_place_wins(empty_venv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(empty_venv))
    runtime = runtimes.find_runtime()
    assert runtime.origin == "ortune's own"
    seen = {each.origin: each.error for each in runtimes.all_runtimes()}
    assert "not installed" in seen["$VIRTUAL_ENV"]
    assert seen["ortune's own"] == ""


def test_no_place_has_it_and_each_says_why(empty_venv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", str(empty_venv / "bin/python"))
    with pytest.raises(RuntimeNotFound) as caught:
        runtimes.find_runtime()
    assert f"$VIRTUAL_ENV ({tmp_path}/gone): {tmp_path}/gone " in caught.value.what
    assert "ortune's own" in caught.value.what
    assert "not installed" in caught.value.what
    assert caught.value.do.startswith("pip install onnxruntime, ")


def test_described_by_the_environment_relative_to_the_folder(empty_venv):
    runtime = runtimes.probe(sys.executable)
    in_venv = type(runtime)(
        python=str(empty_venv / "bin/python"), ort_version="1.31.1", package="onnxruntime"
    )
    assert runtimes.describe(in_venv, empty_venv.parent) == "empty (onnxruntime 1.31.1)"
    assert runtimes.describe(in_venv, Path("/elsewhere")) == f"{empty_venv} (onnxruntime 1.31.1)"


def test_report_of_this_runtime():
    report = report_of(runtimes.probe(sys.executable))
    providers = {provider.name: provider for provider in report.providers}
    assert providers["CPUExecutionProvider"].usable
    assert {target.provider.name for target in targets.all_targets().values()} <= set(providers)
    assert all(provider.usable or provider.why for provider in report.providers)
    assert report.packages["onnxruntime"] == onnxruntime.__version__
    assert "numpy" in report.packages
    assert report.problems == ()


def test_report_of_two_builds_in_one_environment(packages):
    record = "onnxruntime/capi/onnxruntime_pybind11_state.so"
    python = packages(
        {
            "numpy.py": "",
            "onnxruntime.py": "raise ImportError('x')",
            **wheel("onnxruntime", "1.31.1", record),
            **wheel("onnxruntime_gpu", "1.30.0", record),
            **wheel("onnxruntime-ep-webgpu", "0.4.0", "onnxruntime_ep_webgpu/__init__.py"),
        }
    )
    report = report_of(runtimes.probe(python))
    assert report.packages["onnxruntime-gpu"] == "1.30.0"
    assert report.overlapping == {"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.30.0"}


def test_report_of_no_interpreter(tmp_path):
    report = report_of(runtimes.probe(str(tmp_path)))
    assert report.providers == ()
    assert report.problems == (f"{tmp_path} holds no Python interpreter",)


def test_a_session_tells_whether_a_provider_can_be_used():
    assert (
        "CPUExecutionProvider" in try_provider(sys.executable, "CPUExecutionProvider", {}).session_providers
    )
    absent = try_provider(sys.executable, "NoSuchExecutionProvider", {})
    assert "NoSuchExecutionProvider" not in absent.session_providers


def test_the_probe_keeps_to_python_3_8():
    ast.parse(Path(probe_script.__file__).read_text(), feature_version=(3, 8))


def test_the_probes_model_is_valid():
    model = onnx.load_from_string(probe_script.TINY_MODEL)
    onnx.checker.check_model(model)
    assert [node.op_type for node in model.graph.node] == ["Relu"]


@pytest.mark.parametrize(
    ("name", "system", "words"),
    [
        ("cuda", "Windows", "ortune runtime add cuda"),
        ("directml", "Linux", "Windows only"),
        ("cuda", "Darwin", "Linux and Windows only"),
        ("coreml", "Linux", "macOS only"),
        ("openvino", "Linux", "ortune runtime add openvino"),
        ("nnapi", "Linux", "in the Android package"),
        ("tensorrt", "Windows", "In your own environment: pip install"),
    ],
)
def test_an_absent_provider_says_where_it_comes_from(name, system, words):
    assert words in targets.find(name).why_absent(system)


@pytest.mark.parametrize(
    ("name", "do"), [("tensorrt", "pip install 'onnxruntime-gpu"), ("rocm", "removed in release 1.23")]
)
def test_where_the_hardware_is_missing_nothing_is_to_be_installed(name, do):
    target = targets.find(name)
    missing = lacking(target.provider)
    why = target.why_absent(platform.system())
    assert (missing or do) in why
    assert (do in why) != bool(missing)
