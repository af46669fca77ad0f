"""What a store promises: nothing that was committed is lost, and it can be read by anybody."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ortune.store import db
from ortune.store.db import DATABASE, Store
from ortune.store.reading import ReadOnlyStore

KILLED = """
import os, signal, sys
from pathlib import Path
from ortune.store.db import Store

log = Store(Path(sys.argv[1])).begin("look", "key", {})
for number in range(100):
    log.add("event", {"number": number})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_loses_nothing_that_it_committed(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    with ReadOnlyStore(tmp_path) as store:
        assert len(store.events(store.find("newest").id)) == 100
    with Store(tmp_path) as store:
        log = store.resume(store.sessions()[0].id)
        log.add("event", {"number": 100})
        assert [event.seq for event in store.events(log.id)] == list(range(1, 102))


def test_a_store_at_rest_is_one_file_without_a_log(tmp_path: Path) -> None:
    """So that it can be read where nothing can be written."""
    with Store(tmp_path) as store:
        store.begin("look", "key", {}).add("event", {})
        assert (tmp_path / f"{DATABASE}-wal").exists()
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE]
    with closing(sqlite3.connect(f"file:{tmp_path / DATABASE}?immutable=1", uri=True)) as database:
        assert database.execute("SELECT COUNT(*) FROM event").fetchone() == (1,)


def test_two_write_while_a_third_reads(tmp_path: Path) -> None:
    with Store(tmp_path) as first, Store(tmp_path) as second, ReadOnlyStore(tmp_path) as reader:
        for store in (first, second):
            store.begin("look", "key", {}).add("event", {})
        first.close()
        second.begin("look", "key", {})
        assert len(reader.sessions()) == 3
    with Store(tmp_path) as store:
        assert len(store.sessions()) == 3


def test_on_a_disk_that_machines_may_share_each_commit_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_file_system", lambda folder: "nfs4")
    with Store(tmp_path) as store:
        store.begin("look", "key", {}).add("event", {})
        assert [path.name for path in tmp_path.iterdir()] == [DATABASE]


def test_of_sessions_begun_in_the_same_millisecond_the_later_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(db, "_now", lambda: "2026-01-01T00:00:00.000+00:00")
    with Store(tmp_path) as opened:
        begun = [opened.begin("bench", "a model", {}).id for _ in range(20)]
        assert [head.id for head in opened.sessions()] == begun[::-1]
        assert [head.id for head in opened.sessions("a model")] == begun[::-1]
