"""The code that a phone reads off a terminal: every module of it, and the address alone where segno is not there."""

from __future__ import annotations

import sys

import pytest

from ortune.show import qr

ADDRESS = "https://192.168.1.20:8443/" + "aB3-" * 8 + "/"


def test_every_module_is_drawn_within_its_margin() -> None:
    segno = pytest.importorskip("segno")
    lines = qr.drawn(ADDRESS)
    modules: list[list[int]] = []
    for line in lines:
        modules += [[int(c in "▀█") for c in line], [int(c in "▄█") for c in line]]
    wanted = [list(row) for row in segno.make_qr(ADDRESS).matrix]
    size = len(wanted)
    assert {len(row) for row in modules} == {size + 2 * qr.QUIET}
    inside = [row[qr.QUIET : -qr.QUIET] for row in modules[qr.QUIET :][:size]]
    assert inside == wanted
    margin = [*modules[: qr.QUIET], *modules[qr.QUIET + size :]]
    assert not any(map(any, margin))
    assert len(lines) <= 24 and len(lines[0]) <= 80  # a usual terminal


def test_without_segno_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "segno", None)
    assert qr.drawn(ADDRESS) == ()
