"""The lock of the machine: who waits is told for whom, since when and for how long."""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from onnxruntime import datasets

import ortune
from facts import facts
from ortune import Watcher
from ortune.errors import BusyError
from ortune.store.lock import Holder, holder_words, lock_path, measuring

MODEL = datasets.get_example("sigmoid.onnx")


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another ortune measures, as far as the lock tells."""
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))
    with measuring("tune other.onnx", wait=True, say=print, budget_s=3600.0):
        yield


def test_who_since_when_and_how_long() -> None:
    holder = msgspec.json.encode(Holder(what="tune m.onnx", pid=7, since_s=100.0, budget_s=120.0))
    said = "ortune tune m.onnx (pid 7) has been measuring on this machine for"
    facts(holder_words(holder, 130.0), said, " 30 s, ", "90 s ", "budget left")
    facts(holder_words(holder, 230.0), said, " 130 s, ", "run out")
    without = msgspec.json.encode(Holder(what="tune m.onnx", pid=7, since_s=100.0))
    assert holder_words(without, 130.0) == f"{said} 30 s"
    assert holder_words(b"ortune tune", 130.0).startswith("another ortune ")


@pytest.mark.parametrize("verb", ["bench", "look", "compare"])
def test_what_measures_times_waits(verb: str, busy: None, tmp_path: Path) -> None:
    common: Any = {"no_wait": True, "python": sys.executable, "store": tmp_path / "store"}
    with pytest.raises(BusyError) as refused:
        if verb == "compare":  # and so does a rewrite of what is measured next
            ortune.compare(MODEL, b_rewrite="ort-optimized-model", **common)
        elif verb == "bench":
            ortune.bench(MODEL, budget=2, **common)
        else:
            error = ortune.look(MODEL, **common).error
            assert error is not None
            raise BusyError(error.what, do=error.do)
    assert f"ortune tune other.onnx (pid {os.getpid()})" in refused.value.what
    assert "budget left" in refused.value.what


@pytest.mark.parametrize("verb", ["lock", "rewrite", "bisect", "convert", "check"])
def test_what_measures_no_time_does_not_wait(verb: str, busy: None, tmp_path: Path) -> None:
    common: Any = {"python": sys.executable}
    watcher = Watcher(say=lambda text: pytest.fail(text) if text.startswith("waiting") else None)
    if verb == "lock":
        ortune.lock(MODEL, output=tmp_path / "lock.json", watcher=watcher, **common)
    elif verb == "rewrite":
        ortune.rewrite(MODEL, "ort-optimized-model", output=tmp_path / "m.onnx", watcher=watcher, **common)
    elif verb == "bisect":
        ortune.bisect(MODEL, b_rewrite="ort-optimized-model", watcher=watcher, **common)
    elif verb == "convert":
        ortune.convert(
            MODEL, to="ort", runs_on="cpu-amd64", output=tmp_path / "m.ort", watcher=watcher, **common
        )
    else:
        ortune.check(MODEL, fix=True, output=tmp_path / "m.onnx", watcher=watcher, **common)


def test_what_only_reads_does_not_wait(busy: None, tmp_path: Path) -> None:
    assert ortune.doctor(python=sys.executable, store=tmp_path / "store").status == "ok"
    assert ortune.show(store=tmp_path / "store").status == "ok"
    assert lock_path().exists()


def test_where_nothing_can_be_locked_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORTUNE_LOCK", str(tmp_path / "lock"))

    def refuse(fd: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    said: list[str] = []
    with measuring("tune m.onnx", wait=True, say=said.append):
        facts(said[0], "another ortune", "may disturb")
