"""Files are written whole or not at all, nowhere else than where they were asked for, and what is stored is private."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from box import Box
from hostile.data import trace
from ortune import files
from ortune.errors import UsageError
from ortune.store.db import Store


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    """A checkout with links in the places of files that ortune may write, all to a file elsewhere."""
    made = Box(tmp_path)
    made.folder.joinpath("elsewhere").write_text("not ortune's")
    trace(made.folder / "t.json")
    for name in ("m.onnx.lock.json", "p.html", "e.csv", "k.json", "o.txt"):
        (made.folder / f"{name}.part").symlink_to("elsewhere")
    yield made
    assert made.folder.joinpath("elsewhere").read_text() == "not ortune's"
    assert [path.name for path in made.folder.glob(".*")] == []


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("m.onnx.lock.json", ("lock", "m.onnx")),
        ("p.html", ("profile", "t.json", "--report", "p.html")),
        ("e.csv", ("profile", "t.json", "--export", "e.csv")),
        ("k.json", ("profile", "t.json", "--keep", "k.json")),
        ("o.txt", ("profile", "t.json", "--output", "o.txt")),
    ],
)
def test_a_link_that_waits_for_a_file_is_not_followed(
    box: Box, written: str, command: tuple[str, ...]
) -> None:
    done = box.here(*command)
    assert done.code == 0, done.err
    assert stat.S_ISREG((box.folder / written).lstat().st_mode)
    assert (box.folder / f"{written}.part").is_symlink()


def test_a_link_in_the_place_of_a_lock_is_replaced_and_one_that_was_named_is_followed(box: Box) -> None:
    default, named, goal = (box.folder / name for name in ("m.onnx.lock.json", "named.json", "goal.json"))
    default.symlink_to("elsewhere")
    named.symlink_to(goal.name)
    assert box.here("lock", "m.onnx").code == box.here("lock", "m.onnx", "--output", named.name).code == 0
    assert not default.is_symlink()
    assert named.is_symlink() and goal.read_bytes() == default.read_bytes()


def test_what_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def half(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.write(path, half)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755], ids=oct)
@pytest.mark.parametrize("typed", [False, True])
def test_who_may_read_a_file_may_read_what_replaces_it(tmp_path: Path, mode: int, typed: bool) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    path.chmod(mode)
    before = os.umask(0o022)
    try:
        files.write(path, "after", typed=typed)
        files.write(tmp_path / "new", "new")
    finally:
        os.umask(before)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("after", mode)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o644
    files.write(path, "secret", private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_links_that_lead_round_in_a_circle_are_an_error_of_the_system(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(OSError, match="symbolic links"):
        files.write(one, "text", typed=True)
    with pytest.raises(UsageError, match="symbolic links"):
        files.require_writable(one, "--output")
    files.write(one, "text")  # nobody named it: the link itself is replaced
    assert one.read_text() == "text" and two.is_symlink()


def test_trying_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    files.require_writable(tmp_path / "file", "--output")
    assert list(tmp_path.iterdir()) == []


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    files.write(path, "text")
    assert path.read_text() == "text"


@pytest.mark.parametrize("umask", [0o000, 0o277], ids=oct)
def test_what_is_stored_is_the_users_alone(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Store(tmp_path / "store") as store:
            store.begin("look", "key", {}).add("result", "x" * 100_000)
            found = {path: path.lstat().st_mode for path in (tmp_path / "store").rglob("*")}
    finally:
        os.umask(before)
    assert {path.suffix for path in found} >= {".sqlite", ".sqlite-wal", ".sqlite-shm"} and len(found) == 6
    for path, mode in {tmp_path / "store": (tmp_path / "store").stat().st_mode, **found}.items():
        assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), path


def test_a_store_of_before_is_closed_to_others(box: Box) -> None:
    folder = box.folder / "home/.local/share/ortune"
    folder.mkdir(parents=True, mode=0o755)
    (folder / "ortune.sqlite").touch(0o644)
    assert box.here("profile", "t.json").code == 0
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "ortune.sqlite").stat().st_mode) == 0o600


def test_no_report_replaces_a_model(tmp_path: Path) -> None:
    model, link = tmp_path / "m.onnx", tmp_path / "table.csv"
    files.require_writable(model, "--report")
    model.write_bytes(b"x")
    link.symlink_to(model)
    for place in (model, link):
        with pytest.raises(UsageError, match="is a model"):
            files.require_writable(place, "--report")
    files.require_writable(model, "--output", for_model=True)
