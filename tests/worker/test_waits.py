"""What threads of a process waited for a CPU: counted where Linux tells it, whatever threads come and go."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ortune.worker import waits
from ortune.worker.waits import CpuWaits

told = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not tell")


@told
def test_a_reading_is_of_all_threads_and_never_falls() -> None:
    counter = CpuWaits()
    before = counter.read_ns()
    assert before is not None and before >= 0
    assert (counter.since_ns(before) or 0) >= 0
    counter.close()


@told
def test_threads_that_begin_and_end_between_readings_leave_a_number() -> None:
    counter, ends = CpuWaits(), threading.Event()
    thread = threading.Thread(target=ends.wait)
    thread.start()
    with_thread = counter.read_ns()
    assert with_thread is not None and counter.since_ns(with_thread) is not None
    task = Path("/proc/self/task") / str(thread.native_id)
    ends.set()
    thread.join()
    while task.exists():  # Python has joined it, the system has not yet removed it
        os.sched_yield()
    without = counter.read_ns()
    assert without is not None and counter.since_ns(without) is not None
    counter.close()


@told
def test_no_file_stays_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    counter = CpuWaits()
    counter.read_ns()
    counter.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_system_that_does_not_tell_gives_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(waits, "_TASKS", str(tmp_path / "missing"))
    counter = CpuWaits()
    assert counter.read_ns() is None and counter.since_ns(None) is None


def test_a_kernel_without_numbers_gives_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "schedstat").write_text("")
    monkeypatch.setattr(waits, "_TASKS", str(tmp_path))
    assert CpuWaits().read_ns() is None
