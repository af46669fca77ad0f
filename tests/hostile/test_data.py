"""Every hostile file through the command line: one clear answer, and nothing done that nobody asked for."""

from __future__ import annotations

import re
import resource
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from box import Box
from hostile.data import CASES, FIRST, NAME, Case, trace

LIMIT_S = 60
MEMORY_BYTES = 16 << 30
OWN_COMMAND = re.compile(r"::(notice|warning|error) title=")


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    """What waits for ever, or takes all memory, fails."""

    def too_long(number: int, frame: object) -> None:
        raise AssertionError(f"not done after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, too_long), resource.getrlimit(resource.RLIMIT_AS)
    signal.alarm(LIMIT_S)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, before[1][1]))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before[0])
    resource.setrlimit(resource.RLIMIT_AS, before[1])


def require_harmless(text: str) -> None:
    """Nothing in it acts on a terminal, or on the log of a job on GitHub."""
    assert [hex(ord(c)) for c in sorted(set(text)) if not c.isprintable() and c != "\n"] == []
    for line in text.splitlines():
        assert not line.lstrip().startswith("::") or OWN_COMMAND.match(line)
        assert "##[" not in line


def tree(folder: Path) -> dict[str, bytes | str]:
    """All that lies in a folder, but for the user's own places."""
    found: dict[str, bytes | str] = {}
    for path in folder.rglob("*"):
        name, mode = str(path.relative_to(folder)), path.lstat().st_mode
        if name.split("/", maxsplit=1)[0] not in ("home", "tmp", "lock"):
            found[name] = path.read_bytes() if stat.S_ISREG(mode) else oct(mode)
    return found


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name.replace(" ", "-"), marks=[pytest.mark.long] if case.long else [])
        for case in CASES
    ],
)
def test_a_hostile_file(box: Box, case: Case) -> None:
    case.make(box.folder / case.file)
    before = tree(box.folder)
    done = box.here(*(part.format(file=case.file) for part in case.command))
    told = done.out + done.err
    assert done.code in case.codes, told[-1000:]
    assert "Traceback" not in told
    require_harmless(told)
    assert all(text in told for text in case.says), told[-1000:]
    assert len(told) < case.longest
    after = tree(box.folder)
    assert {name: after[name] for name in after if name not in case.written} == before
    for name in case.written:
        text = (box.folder / name).read_text()
        assert "\x1b" not in text
        if name.endswith(".html"):
            require_harmless(text)
            assert "<script>alert" not in text


DAMAGED = [case for case in CASES if case.says == FIRST]


@pytest.mark.parametrize("case", DAMAGED, ids=lambda case: case.name.replace(" ", "-"))
def test_damage_is_said_before_any_figure(box: Box, case: Case) -> None:
    case.make(box.folder / case.file)
    done = box.here(*(part.format(file=case.file) for part in case.command))
    first = done.out.splitlines()[0].strip("*")
    assert first.startswith("the trace is damaged: 1 event ")


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html"])
def test_what_is_stored_of_a_hostile_file_is_told_as_harmlessly(box: Box, form: str) -> None:
    trace(box.folder / "t.json", node=NAME, took=-50)
    assert box.here("profile", "t.json").code == 0
    done = box.here("report", "newest", "--format", form)
    assert done.code == 0, done.err
    require_harmless(done.out + done.err)
    assert "<script>alert" not in done.out or form not in ("html", "markdown")
