"""The launcher with real processes: limits hold for all that they start, and nothing outlives ortune."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ortune import launcher, process_output

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups and shells")
PATIENCE_S = 30.0


def shell(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


def becomes(pid: int, *states: str) -> bool:
    """Whether a process is in one of the states, or gone, before the patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pid) and time.monotonic() < deadline:
        with contextlib.suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() in states:
                return True
        time.sleep(0.02)
    return not psutil.pid_exists(pid)


def gone(pid: int) -> bool:
    """Whether a process is dead, or will be before the patience ends."""
    return becomes(pid, psutil.STATUS_ZOMBIE)


def test_a_command_that_ends(tmp_path: Path) -> None:
    ended = launcher.run(
        shell("cat; pwd; echo $ONE$HOME; echo trouble >&2; exit 3"),
        limit_s=PATIENCE_S,
        stdin=b"given\n",
        environment={"ONE": "1"},
        folder=tmp_path,
    )
    assert ended.code == 3
    assert ended.output.decode().split() == ["given", str(tmp_path), "1"]
    assert ended.log == b"trouble\n"


def test_a_stop_in_the_midst_of_a_start_leaves_nothing_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            started.append(self.pid)
            signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: launcher.interrupt(KeyboardInterrupt("stopped")))
    try:
        with pytest.raises(KeyboardInterrupt, match="stopped"):
            signal.raise_signal(signal.SIGUSR1)
        monkeypatch.setattr(subprocess, "Popen", Popen)
        (tmp_path / "of").mkdir()
        with pytest.raises(KeyboardInterrupt, match="stopped"):
            launcher.Child(shell("sleep 60"), folder=tmp_path / "of")
        monkeypatch.undo()
        other = launcher.Child(shell("sleep 60"), folder=tmp_path)
        launcher.end_processes_in(tmp_path / "of")
        assert gone(*started) and psutil.pid_exists(other.pid)
    finally:
        signal.signal(signal.SIGUSR1, before)
        launcher.end_processes_in(tmp_path)
    assert gone(other.pid)


@pytest.mark.parametrize(
    ("before", "counts"),
    [("sleep 2", False), ("", True)],
    ids=["a-shell-that-slept", "a-start-beside-others"],
)
def test_what_a_process_was_before_it_became_ortune_does_not_count(before: str, counts: bool) -> None:
    """A shell that installs something and then becomes ortune keeps its number, and when that was started."""
    python = (
        "import time, psutil; from ortune import launcher; launcher.STARTING_S = 1.0\n"
        "while time.process_time() < 1.0: pass\n"
        "age_s = time.time() - psutil.Process().create_time()\n"
        "print(age_s, time.monotonic() - launcher.started_s())"
    )
    command = [sys.executable, "-c", python]
    if before:
        command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
    age_s, counted_s = map(float, launcher.run(command, limit_s=PATIENCE_S).output.split())
    assert age_s > 1.0
    # A busy machine may take its time between the start of a process and its first line.
    assert (counted_s > 0.5 * age_s) == counts
    assert counts or counted_s < 0.5


def test_a_command_that_cannot_be_started() -> None:
    with pytest.raises(FileNotFoundError):
        launcher.run(["/no/such/program"], limit_s=1.0)


def test_its_whole_output_goes_to_a_file_that_is_given(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        ended = launcher.run(shell("head -c 100000 /dev/zero"), limit_s=PATIENCE_S, output=file)
    assert (ended.code, ended.output) == (0, b"")
    assert (tmp_path / "out").stat().st_size == 100_000


def test_of_much_output_the_end_is_kept() -> None:
    text = f"head -c {process_output.OUTPUT_BYTES + 1000} /dev/zero; echo last"
    ended = launcher.run(shell(text), limit_s=PATIENCE_S)
    assert len(ended.output) == process_output.OUTPUT_BYTES
    assert ended.output.endswith(b"\0last\n")


def test_what_takes_too_long_is_ended_with_all_that_it_started() -> None:
    # The shell's child holds the output open, so that waiting for the end of the output alone would take a minute.
    ended = launcher.run(shell("sleep 60 & echo $!; wait"), limit_s=0.3)
    assert ended.code is None
    assert gone(int(ended.output))


def test_what_ended_by_a_signal_is_told_by_name() -> None:
    ended = launcher.run(shell("kill -TERM $$"), limit_s=PATIENCE_S)
    assert ended.code is not None
    assert launcher.signal_name(ended.code) == "SIGTERM"
    assert launcher.signal_name(-63 - signal.SIGRTMAX) == f"signal {63 + signal.SIGRTMAX}"
    assert launcher.signal_name(1) == ""


def test_a_child_that_sleeps_until_it_may_go_on() -> None:
    child = launcher.Child(
        [sys.executable, "-c", "print('up', flush=True); input(); print('on', flush=True)"]
    )
    try:
        lines = child.lines()
        assert lines.get(timeout=PATIENCE_S) == b"up\n"
        child.sleep(True)
        assert becomes(child.pid, psutil.STATUS_STOPPED)
        child.send(b"\n")
        child.sleep(False)
        assert lines.get(timeout=PATIENCE_S) == b"on\n"
        assert lines.get(timeout=PATIENCE_S) is None
    finally:
        assert child.end() in (0, -signal.SIGKILL)


def test_a_line_without_end_ends_what_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_output, "LINE_BYTES", 1000)
    child = launcher.Child(
        [sys.executable, "-c", "print('up', flush=True); print('x' * 5000, flush=True); input()"]
    )
    try:
        lines = child.lines()
        assert lines.get(timeout=PATIENCE_S) == b"up\n"
        assert lines.get(timeout=PATIENCE_S) is None
    finally:
        child.end()


def test_nothing_outlives_ortune() -> None:
    text = "from ortune import launcher; print(launcher.Child(['sleep', '60']).pid)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=True)
    assert gone(int(done.stdout))


def test_what_does_not_watch_for_ortunes_end_is_ended_by_its_guard() -> None:
    """Stopped, as between two turns: such a process notices nothing, not even that its input ends."""
    text = """
import os, signal
from ortune import launcher, process_output
child = launcher.Child(["/bin/sh", "-c", "sleep 60 & echo $!; wait"], guarded=True)
inner = child.lines().get()
child.sleep(True)
print(child.pid, int(inner), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert all(gone(int(pid)) for pid in done.stdout.split())


def test_a_guard_ends_with_what_it_guards() -> None:
    before = set(psutil.Process().children())  # a browser that other tests share has a guard too
    child = launcher.Child(["sleep", "60"], guarded=True)
    guard = next(p for p in psutil.Process().children() if p.name() == "sh" and p not in before)
    child.end()
    assert gone(guard.pid)


ESCAPED = """
import os, sys, time
if os.fork():
    print("left", flush=True)
    time.sleep(600)
os.setsid()
os.fork() and os._exit(0)
while not os.path.exists(sys.argv[1]):
    {then}
"""


@pytest.mark.parametrize("then", ["time.sleep(0.1)", "print('more', flush=True)"])
def test_a_reader_ends_with_its_process_even_if_another_keeps_the_output_open(
    then: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_output, "LAST_WORDS_S", 0.2)
    before = set(threading.enumerate())
    child = launcher.Child([sys.executable, "-c", ESCAPED.format(then=then), str(tmp_path / "enough")])
    try:
        assert child.lines().get(timeout=60) is not None  # and nobody takes the rest
        (reader,) = set(threading.enumerate()) - before
        child.end()
        reader.join(10)
        assert not reader.is_alive()
    finally:
        (tmp_path / "enough").touch()


def test_a_command_has_ended_even_if_another_process_keeps_its_output_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_output, "LAST_WORDS_S", 0.2)
    left = "setsid sh -c 'touch up; exec sleep 600' & until [ -e up ]; do sleep 0.02; done; echo $!; exit 3"
    ended = launcher.run(shell(left), limit_s=PATIENCE_S, folder=tmp_path)
    try:
        assert ended.code == 3
    finally:
        os.kill(int(ended.output), signal.SIGKILL)
