"""Processes of a host as the launcher uses them: the host's own code and real interpreters, with Ray left out."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from facts import facts
from ortune import assigned_host, launcher, process_output
from ortune.assigned_host import HostLost
from ortune.cluster.process import ClusterProcess
from ortune.cluster.ray_cluster import off_stdout
from ortune.errors import BusyError
from ortune.measuring.exclusive import exclusive
from ortune.measuring.watcher import Watcher
from ortune.runtimes.runtimes import find_runtime
from ortune.store import lock
from ortune.store.lock import holder_words
from ortune.worker.cluster_host import ClusterHost


@dataclass
class Near:
    """A host whose calls need no network."""

    there: ClusterHost = field(default_factory=ClusterHost)
    python: str = "ray:near"
    lost: bool = False

    def start(self, arguments: Sequence[str], log: IO[bytes] | None) -> ClusterProcess:
        self.require_alive()
        return ClusterProcess(Calls(self, self.there.start(list(arguments), {})), log)

    def keep(self, content: Path, digest: str, size_bytes: int) -> None:
        self.there.keep(digest, content.read_bytes())

    def locked(self, what: str, budget_s: float | None) -> str:
        acquired, held, now_s = self.there.lock(what, budget_s)
        return "" if acquired else holder_words(held, now_s)

    @contextlib.contextmanager
    def holding(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.there.unlock()

    def require_alive(self) -> None:
        if self.lost:
            raise HostLost("was lost", where=self.python)


@dataclass
class Calls:
    host: Near
    number: int

    def write(self, data: bytes) -> bool:
        self.host.require_alive()
        return self.host.there.write(self.number, data)

    def close(self) -> None:
        self.host.there.close(self.number)

    def read(self, wait_s: float) -> tuple[bytes, bytes, int | None]:
        answer = self.host.there.read(self.number, min(wait_s, 0.1))
        self.host.require_alive()
        return answer

    def kill(self) -> None:
        self.host.there.kill(self.number)


@pytest.fixture
def host() -> Iterator[Near]:
    near = Near()
    token = assigned_host.assigned.set(near)
    yield near
    assigned_host.assigned.reset(token)


def test_a_command_runs_there_with_its_streams_and_its_exit_code(host: Near) -> None:
    code = "import sys; print(len(sys.stdin.read())); sys.stderr.write('said'); print('x' * 3_000_000); sys.exit(3)"
    done = launcher.run([host.python, "-c", code], limit_s=60, stdin=b"y" * 100_000)
    assert (done.code, done.log) == (3, b"said")
    assert done.output.startswith(b"100000\nx") and len(done.output) == 3_000_008
    assert launcher.run([sys.executable, "-c", "print(1)"], limit_s=60).output == b"1\n"  # this machine's own


def test_a_process_that_has_ended_can_be_written_to_and_closed(host: Near) -> None:
    child = launcher.Child([host.python, "-c", "pass"])
    assert child.wait() == 0
    child.send(b"late", last=True)
    assert child.end() == 0


def test_a_process_is_ended_with_all_that_it_started(host: Near) -> None:
    code = "import os, time; pid = os.fork(); pid and print('forked', flush=True); time.sleep(600)"
    child = launcher.Child([host.python, "-c", code])
    lines = child.lines()
    assert lines.get(timeout=60) == b"forked\n"
    assert child.end() == -9
    assert lines.get(timeout=60) is None  # both have closed it


def test_a_host_that_is_lost_ends_its_processes_and_is_the_reason(host: Near) -> None:
    child = launcher.Child([host.python, "-c", "import time; time.sleep(600)"])
    host.lost = True
    assert child.wait() == -9
    with pytest.raises(HostLost):
        assigned_host.require_alive()
    host.there.kill(1)
    child.end()


def test_the_runtime_of_an_assigned_host_is_another_machine(host: Near) -> None:
    found = find_runtime()
    assert found.python == host.python and found.host is not None and found.ort_version
    host.lost = True
    with pytest.raises(HostLost):
        find_runtime()


def test_the_lock_of_a_host_is_that_of_its_machine(
    host: Near, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    with exclusive("bench m.onnx", Watcher(), wait=False):
        with pytest.raises(BusyError) as busy, lock.measuring("tune", wait=False, say=print):
            pass
        facts(str(busy.value), "bench m.onnx", str(os.getpid()))
        with pytest.raises(BusyError) as busy, exclusive("look", Watcher(), wait=False):
            pass
        facts(str(busy.value), host.python, "bench m.onnx")
    with exclusive("look", Watcher(), wait=False):
        pass


def test_a_file_is_kept_by_its_content_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there, data = ClusterHost(), b"weights"
    digest = hashlib.sha256(data).hexdigest()
    assert not there.has(digest)
    assert not there.keep(digest, b"wei", b"ght!") and not there.has(digest)
    assert there.keep(digest, b"wei", b"ghts") and there.has(digest)
    assert [file.name for file in (tmp_path / "ortune-relay").iterdir()] == [digest]


def test_what_a_caller_prints_next_to_a_cluster_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    with off_stdout(lambda: print("log of a lost node")):
        print("of the caller")
    print("after it")
    assert capsys.readouterr() == ("after it\n", "of the caller\n")


def test_a_process_with_output_that_nobody_takes_is_ended(
    host: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_output, "LAST_WORDS_S", 0.1)
    child = launcher.Child([host.python, "-c", "while True: print('x' * 50_000)"])
    lines = child.lines()
    deadline_s = time.monotonic() + 60
    while not lines.full() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    ending = threading.Thread(target=child.end, daemon=True)
    ending.start()
    ending.join(60)
    assert not ending.is_alive() and child.process.returncode == -9
