"""What holds for every test."""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chromium
import made_runtimes
import warm_workers
from ortune.runtimes import runtimes
from ortune.runtimes.environment import clean_environment
from ortune.store import db
from ortune.targets.browser import setup
from ortune.targets.worker import Worker

# numpy's threads spin, in each of a thousand processes and beside whatever runs. The workers of xdist start with it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_MEMORY, _ROOM_BYTES = Path("/dev/shm"), 8 << 30
_PLACES = {"TMPDIR", "PYTEST_DEBUG_TEMPROOT"}
_own_place = bool(os.environ.keys() & _PLACES)
if not _own_place and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
    # A hundred thousand folders and small files: on a disk each takes ten times as long to make and to remove.
    os.environ.update(dict.fromkeys(_PLACES, str(_MEMORY)))
    tempfile.tempdir = None

# No test sees what is kept for the user who runs them: runtimes that were added are raced, and answers of an earlier
# session are used again.
_CACHE_HOME = str(made_runtimes.CACHE / "home")
os.environ["XDG_CACHE_HOME"] = _CACHE_HOME
_FOLDERS = itertools.count()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share what their module makes once run in one process, or it would be made in each."""
    for item in items:
        named = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
        shared = any(each.scope == "module" and each.baseid for several in named for each in several)
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """What is collected stays: the garbage collector need not walk over it again and again.

    Ten thousand tests are millions of objects. Random graphs, which make and drop as many, took three times as long.
    """
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on there is garbage: looked for a tenth as often as usual, where it took a fifteenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The runtimes that the tests of one file had made are not there for those of the next.

    What is installed is raced: a test of tuning would take longer after them than alone.
    """
    if nextitem is None or nextitem.path != item.path:
        os.environ["XDG_CACHE_HOME"] = _CACHE_HOME


STARTED_FOR_REAL = {"targets", "worker", "test_faults_worker", "test_launcher"}
"""Folders and files whose tests are about the processes themselves."""
TIMED_FOR_REAL = "profiling"
"""The folder whose tests ask where the time of a run goes."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Workers are started as usual where that is what is tested."""
    warm_workers.real = not STARTED_FOR_REAL.isdisjoint((item.path.parent.name, item.path.stem))
    warm_workers.spins = item.path.parent.name == TIMED_FOR_REAL


@pytest.fixture(scope="session", autouse=True)
def _workers_are_forks() -> Iterator[None]:
    """An import of ONNX Runtime takes 0.3 s of a CPU, and the tests start thousands of workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Worker, "_child", warm_workers.child)
        yield
    warm_workers.end()


@pytest.fixture(scope="session", autouse=True)
def _own_lock_and_data(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each worker of the test run has a machine lock and application data of its own.

    Measurements of two workers would else wait for each other, for minutes in all. Those that wait for a verdict run
    one after another as they are; the others ask for no speed.
    """
    os.environ["ORTUNE_LOCK"] = str(Path(tmp_path_factory.getbasetemp()) / "machine.lock")
    os.environ["XDG_DATA_HOME"] = str(Path(tmp_path_factory.getbasetemp()) / "data")


@pytest.fixture(scope="session", autouse=True)
def _no_disk_is_waited_for() -> Iterator[None]:
    """What these processes write is left to the system: no test cuts the power.

    A store that is opened and closed waits for the disk several times, 25 ms each.
    """
    connect = sqlite3.connect

    def hasty(*arguments: Any, **more: Any) -> sqlite3.Connection:
        database = connect(*arguments, **more)
        with contextlib.suppress(sqlite3.Error):  # one that is damaged tells whoever reads it
            database.execute("PRAGMA synchronous=OFF")
        return database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", hasty)
        patch.setattr(db, "SYNCHRONOUS", "OFF")
        patch.setattr(os, "fsync", lambda fd: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _own_interpreter_asked_once() -> Iterator[None]:
    """What the interpreter of the tests has installed is asked for once in each environment.

    A process of its own with onnxruntime takes 0.3 s, and every verb within these processes asks; nothing is
    installed meanwhile. Of all other interpreters, and by every process that a test starts, it is asked each time.
    """
    ask, known = runtimes.ask_look, {}

    def asked(python: str) -> Any:
        if python != sys.executable:
            return ask(python)
        own = {"HOME", "TMPDIR", "PYTEST_CURRENT_TEST"}
        key = tuple(sorted((name, value) for name, value in clean_environment().items() if name not in own))
        if key not in known:
            known[key] = ask(python)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtimes, "ask_look", asked)
        yield


@pytest.fixture(scope="session", autouse=True)
def _peaks_are_measured_in_a_moment() -> Iterator[None]:
    """No test asks how fast this machine is; whole peaks take all of its CPUs for ten seconds, thrice beside others."""
    from ortune.engines.profiling import peaks

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(peaks.measure_peak.__kwdefaults__, "seconds", 0.05)
        patch.setattr(peaks, "_MOST_ARRAY", peaks._LEAST_ARRAY)
        patch.setattr(peaks, "_RETRIES", 0)
        yield


_BROWSER_FLAGS = setup.flags


@pytest.fixture(scope="session", autouse=True)
def _webassembly_is_compiled_once() -> Iterator[None]:
    """V8 compiles onnxruntime-web fast, and not once more for speed: a quarter of a page's CPU time."""

    def flags(*arguments: Any, **more: Any) -> list[str]:
        return [*_BROWSER_FLAGS(*arguments, **more), chromium.COMPILED_ONCE]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "flags", flags)
        yield


@pytest.fixture
def compiled_for_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers compile as they do for users: code that V8 keeps is none of its first compiler."""
    monkeypatch.setattr(setup, "flags", _BROWSER_FLAGS)


@pytest.fixture(scope="session", autouse=True)
def _shared_browsers_end() -> Iterator[None]:
    """What a worker of the test run has started for several tests ends with it."""
    yield
    chromium.end_shared()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own, as pytest gives; numbered by counting, not by a look at all of the thousands before it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_FOLDERS)}", numbered=False)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            yield place
            subprocess.run(["umount", "-l", str(place)], check=True)
            return
    pytest.skip("mounting a small disk needs root")
