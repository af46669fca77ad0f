"""Every process that uses ONNX Runtime and was not recorded is named with its reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import LONG, counts, recorded, run, written

from ortune.recorder import doors
from ortune.recorder.watch import ObservedProcess, ProcessWatch
from ortune.records import Recording

CHILD = """
import subprocess
if len(sys.argv) > 1:
    opened().run(None, X)
    import time; time.sleep(0.3)  # longer than between two looks from outside
    sys.exit()
def start(*options, **more): subprocess.run([sys.executable, *options, __file__, "child"], check=True, **more)
"""


def reasons(recording: Recording) -> list[str]:
    return [missed.reason for missed in recording.missed]


def test_the_doors_that_are_shut_are_named(tmp_path: Path) -> None:
    recording = run(
        tmp_path,
        CHILD
        + """
here = dict(os.environ)
start("-I"); start("-E")
start(env={})
start(env={**here, "PYTHONPATH": "/tmp"})
start(env={**here, "ORTUNE_RECORD": "/nowhere"})
start()
""",
    )
    assert reasons(recording) == [
        "isolated", "isolated", "environment-cleared", "path-replaced", "other-recording",
    ]  # fmt: skip
    assert counts(recording) == [(1, 1)]
    assert all("onnxruntime" in missed.library for missed in recording.missed)
    assert recording.missed[0].argv[1] == "-I"


def test_another_sitecustomize_is_kept_and_none_shuts_the_recorder_out(tmp_path: Path) -> None:
    for name in ("first", "later"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sitecustomize.py").write_text(
            f"import os; os.environ['{name.upper()}'] = 'ran'\n"
        )
    recording = run(
        tmp_path,
        CHILD
        + """
print(os.environ.get("LATER"))
path = os.environ["PYTHONPATH"]
start(env={**os.environ, "PYTHONPATH": os.path.join(os.path.dirname(__file__), "first") + os.pathsep + path})
opened().run(None, X) if os.environ.get("LATER") == "ran" else sys.exit(5)
""",
        variables={"PYTHONPATH": str(tmp_path / "later")},
    )
    assert (recording.code, reasons(recording)) == (0, [])
    assert sorted(calls for _, calls in counts(recording)) == [1, 1]


def test_no_site_is_no_obstacle_where_the_path_is_kept(tmp_path: Path) -> None:
    import onnxruntime

    packages = str(Path(onnxruntime.__file__).parents[1])
    app = written(tmp_path, "opened().run(None, X)\n")
    recording = recorded([sys.executable, "-S", app], variables={"PYTHONPATH": packages})
    assert (counts(recording), reasons(recording)) == ([(0, 1)], [])


def test_an_environment_behind_a_link_has_one_library(tmp_path: Path) -> None:
    import onnxruntime

    (tmp_path / "linked").symlink_to(Path(onnxruntime.__file__).parents[1])
    app = written(tmp_path, "opened().run(None, X); print(ort.__file__)\n")
    recording = recorded([sys.executable, app], variables={"PYTHONPATH": str(tmp_path / "linked")})
    assert (counts(recording), reasons(recording)) == ([(0, 1)], [])


def test_programs_without_onnxruntime_are_not_missed() -> None:
    recording = recorded(["/bin/sh", "-c", f"{sys.executable} -I -c 'print(1)'; sleep 0.2; exit 4"])
    assert (recording.processes, recording.code) == ((), 4)
    assert set(reasons(recording)) <= {"unseen"}  # if this machine was too busy to look at its end
    assert recording.seen >= 2


def test_a_process_that_ends_while_it_imports_onnxruntime_has_used_nothing(tmp_path: Path) -> None:
    body = """
    import os, sys, time
    class Ends:
        def find_spec(self, name, path=None, target=None):
            if name == "onnxruntime.capi.onnxruntime_validation":  # imported after the library
                time.sleep(0.5); os._exit(0)
    sys.meta_path.insert(0, Ends())
    import onnxruntime
    """
    recording = recorded([sys.executable, written(tmp_path, body, head="")])
    assert (recording.processes, recording.code, reasons(recording)) == ((), 0, [])


def test_a_library_that_python_opened_itself_is_named(tmp_path: Path) -> None:
    """Its functions are looked up in it alone, which neither recorder sees."""
    import onnxruntime

    libraries = sorted((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so*"))
    if not libraries:
        pytest.skip("NOT TESTED: no libonnxruntime.so in this onnxruntime")
    body = f"import ctypes; ctypes.CDLL({str(libraries[0])!r}).OrtGetApiBase()\n{LONG}"
    recording = recorded([sys.executable, written(tmp_path, body, head="")])
    assert (recording.sessions, recording.code) == ((), 0)
    assert [(missed.reason, missed.library) for missed in recording.missed] == [
        ("own-library", str(libraries[0].resolve()))
    ]


def test_an_end_that_was_not_observed_is_named_and_numpy_tells_how_long_it_may_be(tmp_path: Path) -> None:
    watch = ProcessWatch(os.getpid(), tmp_path, tmp_path)
    for number, (gap_s, libraries) in enumerate([
        (0.2, set()), (0.3, set()), (0.02, {"/x/numpy/core.so"}), (0.04, {"/x/numpy/core.so"}),
    ]):  # fmt: skip
        watch.seen[number, 0] = ObservedProcess(
            pid=number, start=0, argv=("python3", "-I"), executable="/usr/bin/python3", environment={},
            mapped=libraries, looked_s=1.0, gone_s=1.0 + gap_s,
        )  # fmt: skip
    assert [(missed.pid, missed.reason) for missed in watch.missed({})] == [(1, "unseen"), (3, "unseen")]


def test_a_static_onnxruntime_is_found_in_the_program_file(tmp_path: Path) -> None:
    """A copy of ``sleep`` with the type names of ONNX Runtime at its end."""
    program = tmp_path / "detector"
    program.write_bytes(Path("/bin/sleep").read_bytes() + b"\0N11onnxruntime16InferenceSessionE\0")
    program.chmod(0o755)
    recording = recorded([program, "0.3"])
    assert [(missed.reason, missed.library) for missed in recording.missed] == [("static", str(program))]


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    import onnxruntime

    site = next((tmp_path / "venv").glob("lib/python3*/site-packages"))
    (site / "there.pth").write_text(f"{Path(onnxruntime.__file__).parents[1]}\n")
    return tmp_path / "venv"


def test_an_installed_recorder_reaches_isolated_programs_and_does_nothing_else(
    tmp_path: Path, venv: Path
) -> None:
    app = written(tmp_path, f"opened().run(None, X)\n{LONG}")
    command = [venv / "bin" / "python", "-I", app]
    before = recorded(command)
    assert (counts(before), reasons(before)) == ([], ["isolated"])
    files = doors.install(venv)
    assert [file.name for file in files] == ["ortune_recorder.py", "ortune_applier.py", "ortune_recorder.pth"]
    after = recorded(command)
    assert (counts(after), reasons(after)) == ([(0, 1)], [])
    probe = "import sys; print([name for name in sys.modules if 'ortune' in name])"
    alone = subprocess.run([venv / "bin" / "python", "-c", probe], capture_output=True, text=True)
    assert (alone.stdout, alone.stderr) == ("[]\n", "")
    assert sorted(doors.uninstall(venv)) == sorted(files)
    assert doors.uninstall(venv) == ()
