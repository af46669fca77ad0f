"""Releases of ONNX Runtime for another machine: named, packed here, sent once, and imported there."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import zipfile
from pathlib import Path

import msgspec
import pytest

import boards
import made_runtimes
from dense import dense
from facts import facts
from ortune import platform
from ortune.errors import OrtuneError, UsageError
from ortune.records import Runtime
from ortune.runtimes.environment import clean_environment
from ortune.runtimes.packages import placed, sendable, split_placed
from ortune.runtimes.packed import packed
from ortune.targets import named_runtimes
from ortune.targets.named_runtimes import _output, find
from ortune.targets.remote_process import RemoteChild
from ortune.worker import relay
from within import program

RELEASE = "1.31.1"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a board: ``python`` is the command, ``home`` is all that it shares with nobody else."""
    return boards.board(tmp_path_factory.mktemp("boards"), "board").parent


def test_a_release_and_a_script_are_one_value() -> None:
    for release in ("onnxruntime==1.31.1", "onnxruntime-gpu==1.22.0"):
        assert split_placed(placed("./on@board", release)) == (release, "./on@board")
    assert placed("./on-board", None) == "./on-board"
    for text in ("", "./on@board", "openvino@./x", "convert-torch@./x", "nncf@./x", "user@host"):
        assert split_placed(text) == ("", "")
    assert sendable("openvino") is None and sendable("node") is None


def test_an_interpreter_of_this_machine_gets_no_release() -> None:
    with pytest.raises(UsageError, match="of this machine"):
        find(f"onnxruntime=={RELEASE}@{sys.executable}", print)
    with pytest.raises(OrtuneError, match="no Python interpreter"):
        find(f"onnxruntime=={RELEASE}@/nowhere/python", print)


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "riscv64")])
def test_a_machine_without_released_wheels_is_named(system: str, machine: str) -> None:
    host = msgspec.structs.replace(platform.host(), system=system, machine=machine)
    there = Runtime(python="./on-board", python_version="3.11.4", host=host)
    with pytest.raises(UsageError, match=f"{system} on {machine}"):
        packed(f"onnxruntime=={RELEASE}", there, print)


@pytest.mark.parametrize("version", ["3/../../x.1", "3.--index-url", "3.", "x", "3.٣.1"])
def test_a_version_of_python_from_another_machine_is_checked(version: str) -> None:
    host = msgspec.structs.replace(platform.host(), system="Linux", machine="x86_64")
    there = Runtime(python="./on-board", python_version=version, host=host)
    with pytest.raises(UsageError, match="version of Python"):
        packed(f"onnxruntime=={RELEASE}", there, print)


@pytest.mark.skipif(sys.platform != "linux", reason="releases are sent to Linux only")
def test_what_cannot_be_unpacked_ends_the_relay_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = tmp_path / "packed.zip"
    archive.write_bytes(b"no archive")
    with (tmp_path / "log").open("wb") as log:
        child = RemoteChild(sys.executable, log=log, folder=tmp_path, limit_s=60.0)
        try:
            child.begin(PROGRAM, (), clean_environment(base={}), str(archive))
            assert _output(child)[1] == "ended without an answer"
        finally:
            child.end()
    facts((tmp_path / "log").read_text(), "BadZipFile")
    assert not list((tmp_path / "cache" / "ortune-relay").glob(f"*{relay.UNPACKED}*"))


@pytest.mark.skipif(sys.platform != "linux", reason="releases are sent to Linux only")
def test_of_much_output_of_another_machine_the_end_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(named_runtimes, "_OUTPUT_BYTES", 1000)
    program = b"print('X' * 90); [print('y' * 90) for _ in range(50)]; print('last')"
    with (tmp_path / "log").open("wb") as log:
        child = RemoteChild(sys.executable, log=log, folder=tmp_path, limit_s=60.0)
        try:
            child.begin(program, (), clean_environment(base={}))
            output, _ = _output(child)
        finally:
            child.end()
    assert len(output) == 1000 and b"\nlast\n" in output and b"X" not in output


def test_of_old_packages_only_one_relay_removes_them(tmp_path: Path) -> None:
    old_s = time.time() - 2 * relay.KEPT_S
    for name in (f"a{relay.UNPACKED}", f"{relay.GONE}7-0", "new"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "file").touch()
        if name != "new":
            os.utime(tmp_path / name, (old_s, old_s))
    (tmp_path / "file").touch()
    os.utime(tmp_path / "file", (old_s, old_s))
    (tmp_path / "dangling").symlink_to("nowhere")  # as a file that has vanished
    threads = [threading.Thread(target=relay._remove_old, args=(str(tmp_path),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {file.name for file in tmp_path.iterdir()} == {"new", "dangling"}
    relay._remove_old(str(tmp_path / "absent"))


PROGRAM = (
    b"import json, sys, ortune_sent; print(json.dumps(dict(ortune_sent.VALUE, path=sys.path)), flush=True)"
)


def said(board: Path, archive: Path, folder: Path) -> dict[str, object]:
    """What a program prints on the board, which imports a package of the archive."""
    with (folder / "log").open("wb") as log:
        child = RemoteChild(str(board / "python"), log=log, folder=folder, limit_s=60.0)
        try:
            child.begin(PROGRAM, (), clean_environment(base={}), str(archive))
            lines = iter(lambda: child.lines().get(timeout=60.0), None)
            line = next((line for line in lines if line.startswith(b'{"sent"')), None)
        finally:
            child.end()
    assert line is not None, (folder / "log").read_text()
    answer: dict[str, object] = json.loads(line)
    return answer


def test_packages_are_sent_once_and_come_before_those_of_the_interpreter(board: Path, tmp_path: Path) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("ortune_sent/__init__.py", "VALUE = {'sent': 7}")
    kept = board / "home" / "cache" / "ortune-relay"
    old = kept / f"left{relay.UNPACKED}"
    (old / "inner").mkdir(parents=True)
    os.utime(old, (time.time() - 2 * relay.KEPT_S,) * 2)
    first = said(board, archive, tmp_path)
    path = first["path"]
    assert first["sent"] == 7 and isinstance(path, list)
    place = next(number for number, text in enumerate(path) if text.endswith(relay.UNPACKED))
    assert place < next(number for number, text in enumerate(path) if text.endswith("site-packages"))
    assert not old.exists()  # not used for a day
    (unpacked,) = kept.glob(f"*{relay.UNPACKED}")
    made_ns = (unpacked / "ortune_sent" / "__init__.py").stat().st_mtime_ns
    assert said(board, archive, tmp_path)["sent"] == 7
    assert (unpacked / "ortune_sent" / "__init__.py").stat().st_mtime_ns == made_ns
    assert list(kept.glob(f"*{relay.UNPACKED}")) == [unpacked]


@pytest.fixture(scope="module")
def fetched(board: Path) -> Runtime:
    """A release on the board; it is fetched once and kept."""
    os.environ["XDG_CACHE_HOME"] = str(made_runtimes.CACHE)
    try:
        return find(f"onnxruntime=={RELEASE}@{board / 'python'}", print)
    except OrtuneError as error:
        if not any(words in error.what for words in ("unreachable", "has no")):
            raise
        pytest.skip(f"NOT TESTED, onnxruntime {RELEASE} is needed: {error.what}")


@pytest.mark.long  # two wheels are installed and packed
def test_a_release_runs_on_another_machine(fetched: Runtime, board: Path) -> None:
    assert fetched.ort_version == RELEASE and fetched.host is not None
    assert fetched.name == f"onnxruntime=={RELEASE}@{board / 'python'}" and fetched.python == str(
        board / "python"
    )


@pytest.mark.long
def test_an_upgrade_is_compared_on_each_host(fetched: Runtime, board: Path, tmp_path: Path) -> None:
    del fetched
    model = str(dense(tmp_path / "m.onnx"))
    common = [
        "--host",
        f"pi={board / 'python'}",
        "--host",
        "gone=/bin/false",
        "--store",
        str(tmp_path / "store"),
        "--json",
    ]
    code, out, err = program([
        "compare", "--each", model, "--b-runtime", f"onnxruntime=={RELEASE}", "--no-why", "--budget-each", "20s",
        *common,
    ])  # fmt: skip
    assert code == 2, err  # of the one that is not there
    rows = {row["host"]: row for row in json.loads(out)["result"]["models"]}
    assert rows["gone"]["status"] == "error" and rows["pi"]["status"] == "ok"
    assert rows["pi"]["runtime"].endswith(f"against onnxruntime {RELEASE}")
    code, out, err = program([
        "history", model, "--release", RELEASE, "--release", "1.30.0", "--budget-each", "30s", *common,
    ])  # fmt: skip
    assert code == 2, err
    rows = {row["host"]: row for row in json.loads(out)["result"]["models"]}
    assert rows["gone"]["status"] == "error" and rows["pi"]["status"] == "ok", err
    assert rows["pi"]["runtime"] == f"onnxruntime {RELEASE}" and rows["pi"]["machine"]
