"""Links, pipes, sizes and names that lead where nobody asked to go: nothing is followed, waited for or begun."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import shlex
import shutil
import sqlite3
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import ortune
from git_repository import commit, git
from ortune import temporary
from ortune.errors import ModelError, OrtuneError, StoreError, UsageError
from ortune.graph.model import from_git
from ortune.graph.model.open import open_model
from ortune.printable import cell, without_password
from ortune.show.answer_commands import words_of
from ortune.store.db import DATABASE, Store
from ortune.targets.browser import setup
from ortune.targets.browser.site import Request, Site, build_of
from ortune.trace.export.csv import _write

# --- links and pipes


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder of onnxruntime-web in which names lead elsewhere."""
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key.json").write_text('{"version": "secret"}')
    dist = tmp_path / "web" / "dist"
    dist.mkdir(parents=True)
    (dist / "ort.mjs").write_text("ours")
    (dist / "same.mjs").symlink_to("ort.mjs")
    (dist / "out.json").symlink_to(secret / "key.json")
    (dist / "up.json").symlink_to("../../secret/key.json")
    (dist / "folder.mjs").mkdir()
    (dist / "round.mjs").symlink_to("round.mjs")
    os.mkfifo(dist / "pipe.mjs")
    return dist.parent


class Room:
    """What a page is given: builds alone."""

    isolated = False

    def __init__(self, dist: Path) -> None:
        self.dist = dist

    def takes(self, path: str, size: int, request: Request) -> bool:
        return False

    def get(self, path: str, request: Request) -> None:
        build = build_of(self.dist, path)
        request.answer(404) if build is None else request.file(build)

    def post(self, path: str, body: bytes, request: Request) -> None: ...


def test_a_page_gets_no_file_from_outside_and_no_pipe(package: Path) -> None:
    site = Site()
    url = site.open(Room(package / "dist"))
    try:
        for name, text in {"ort.mjs": b"ours", "same.mjs": b"ours"}.items():
            assert urllib.request.urlopen(url + name).read() == text
        for name in ("out.json", "up.json", "folder.mjs", "round.mjs", "pipe.mjs", "gone.mjs"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + name, timeout=60)
    finally:
        site.close()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_version_is_read_from_a_file_of_the_package(package: Path, kind: str) -> None:
    about = package / "package.json"
    about.symlink_to(package.parent / "secret" / "key.json") if kind == "link" else os.mkfifo(about)
    assert setup.ort_web(setup.BrowserSetup(ort_web=str(package))).version == ""
    about.unlink()
    about.write_text('{"version": "1.2.3"}')
    assert setup.ort_web(setup.BrowserSetup(ort_web=str(package))).version == "1.2.3"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("link", ["file", "folder", "pipe", "none"])
def test_an_object_of_git_lfs_is_a_file_of_its_own(tmp_path: Path, link: str) -> None:
    folder = tmp_path / "repository"
    folder.mkdir()
    oid = hashlib.sha256(b"a model").hexdigest()
    (folder / "m.ort").write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 7\n")
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    place = folder / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / oid).write_bytes(b"a model")
    place.parent.parent.mkdir(parents=True)
    if link == "folder":
        place.parent.symlink_to(elsewhere)
    else:
        place.parent.mkdir()
    if link == "file":
        place.symlink_to(elsewhere / oid)
    elif link == "pipe":
        os.mkfifo(place)
    elif link == "none":
        place.write_bytes(b"a model")
        assert from_git.checkout(str(folder / "m.ort"), "main", tmp_path / "out").read_bytes() == b"a model"
        return
    with pytest.raises(ModelError, match="its Git LFS object is missing locally"):
        from_git.checkout(str(folder / "m.ort"), "main", tmp_path / "out")


def test_a_pipe_in_place_of_a_bundle_is_not_waited_for(tmp_path: Path) -> None:
    bundle = tmp_path / "m.ortune"
    bundle.mkdir()
    os.mkfifo(bundle / "ortune.json")
    with pytest.raises(UsageError):
        ortune.load(bundle)


# --- sizes


def with_weight(
    folder: Path, weight: onnx.TensorProto | None, *nodes: onnx.NodeProto, sparse: bool = False
) -> Path:
    sides = [helper.make_tensor_value_info(name, T.FLOAT, None) for name in ("x", "y")]
    graph = helper.make_graph([*nodes, helper.make_node("Add", ["x", "w"], ["y"])], "g", sides[:1], sides[1:])
    if weight is not None and not sparse:
        graph.initializer.append(weight)
    elif weight is not None:
        index = T(data_type=T.INT64, dims=[1], int64_data=[0])
        value = T(name="w", data_type=T.FLOAT, dims=[1], float_data=[1.0])
        graph.sparse_initializer.append(onnx.SparseTensorProto(values=value, indices=index, dims=weight.dims))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_more_axes_than_can_be_read_are_one_error(tmp_path: Path) -> None:
    one = np.ones(1, np.float32).tobytes()
    raw = T(name="w", data_type=T.FLOAT, dims=[1] * 70, raw_data=one)
    typed = T(name="w", data_type=T.FLOAT, dims=[1] * 65, float_data=[1.0])
    beside = T(name="w", data_type=T.FLOAT, dims=[1] * 66, data_location=T.EXTERNAL)
    beside.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(one)
    constant = helper.make_node("Constant", [], ["w"], value=raw)
    for path in (
        lambda: with_weight(tmp_path, raw),
        lambda: with_weight(tmp_path, typed),
        lambda: with_weight(tmp_path, beside),
        lambda: with_weight(tmp_path, raw, sparse=True),
        lambda: with_weight(tmp_path, None, constant),
    ):
        with pytest.raises(ModelError, match=r"dimensions, and at most 64 can be read"):
            open_model(path())
    open_model(with_weight(tmp_path, T(name="w", data_type=T.FLOAT, dims=[1] * 64, raw_data=one)))


def test_weights_that_no_memory_holds_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = T(name="w", data_type=T.FLOAT, dims=[1 << 19, 1 << 20], data_location=T.EXTERNAL)
    weight.external_data.add(key="location", value="w.bin")
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(1 << 41)  # of which nothing takes room
    path = with_weight(tmp_path, weight)
    small = T(data_type=T.FLOAT, dims=[1 << 19, 1 << 11], data_location=T.EXTERNAL)
    small.external_data.add(key="location", value="w.bin")
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.extend([T(name=f"w{i}") for i in range(512)])
    for each in model.graph.initializer:
        each.MergeFrom(small) if each.name != "w" else each.CopyFrom(
            T(name="w", data_type=T.FLOAT, dims=[1], float_data=[1.0])
        )
    (tmp_path / "many.onnx").write_bytes(model.SerializeToString())
    for verb in (ortune.look, ortune.skeleton, ortune.lock):
        with pytest.raises(ModelError, match=r"it is not complete"):
            verb(path)
    monkeypatch.setattr("ortune.graph.model.open.MOST_HOLE_BYTES", 1 << 42)  # as if all of it were written
    for verb in (ortune.look, ortune.skeleton, ortune.lock):
        with pytest.raises(ModelError, match=r"2,048 GiB of weights, and this machine has \d+ GiB of memory"):
            verb(path)
        with pytest.raises(ModelError, match=r"2,048 GiB of weights"):
            verb(tmp_path / "many.onnx")


# --- names


NAMES = [
    "x\n'\"",
    "a\"b'c\nd.onnx",
    "x\n'",
    "\n",
    "ortune tune\nm.onnx",
    "'\nortune tune x",
    "a\n\"\n'b",
    "\\\n'\\",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_read_whatever_its_names_are(name: str) -> None:
    words = ["ortune", "tune", name, "--budget", "60s"]
    assert words_of("# written by ortune\n" + shlex.join(words)) == words
    assert words_of("'") == words_of("") == words_of("rm -r x") == []


FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\uff1d1+1",
    "\u00a0=1",
    "\0=1",
]


def test_no_cell_is_a_formula_however_columns_are_parted() -> None:
    assert all(cell(each) == f"'{each}" for each in FORMULAS)
    assert [cell(each) for each in ("conv", "a=b", "", "/a/b-c")] == ["conv", "a=b", "", "/a/b-c"]
    file = io.BytesIO()
    _write(file, [[cell("a;=1+1"), 7, ""], [cell("a\t=1"), -1.5, cell('b"c')]])
    text = file.getvalue().decode()
    for delimiter in ",;\t":
        cells = [
            cell for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) for cell in row
        ]
        assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


# --- what is kept


def garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def without_a_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE event")


def another_table(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.executescript("DROP TABLE session; CREATE TABLE session (id TEXT)")


def broken_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [garbage, without_a_table, another_table, broken_pages])
def test_a_damaged_store_is_told_before_anything_is_measured(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    Store(tmp_path).close()
    Store(tmp_path).close()  # nothing is left of the proof that it can be written
    with sqlite3.connect(tmp_path / DATABASE) as database:
        assert database.execute("SELECT COUNT(*) FROM session").fetchone() == (0,)
    damage(tmp_path / DATABASE)
    with pytest.raises(StoreError, match="cannot be written"):
        Store(tmp_path)


def test_only_own_folders_of_dead_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(temporary, "short_folder", lambda: tmp_path)
    dead, linked, other = tmp_path / "ortune-dead", tmp_path / "ortune-linked", tmp_path / "precious"
    for folder in (dead, other):
        folder.mkdir()
        (folder / temporary.ALIVE).touch()
    linked.symlink_to(other)
    marked = tmp_path / "ortune-marked"
    marked.mkdir()
    (marked / temporary.ALIVE).symlink_to(other / temporary.ALIVE)
    socket, strange = tmp_path / "org.chromium.Chromium.abc", tmp_path / "documents"
    for place in (socket, strange):
        place.mkdir()
    for number, place in enumerate((socket, strange)):
        profile = dead / f"trial-{number}" / "browser"
        profile.mkdir(parents=True)
        (profile / "SingletonSocket").symlink_to(place / "SingletonSocket")
    with temporary.folder() as mine:
        assert not dead.exists() and not socket.exists()
        assert strange.is_dir() and other.is_dir() and marked.is_dir() and mine.is_dir()
    assert not mine.exists()


# --- addresses


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://user:hunter2@host:5173/a?b=c:d@e", "http://user@host:5173/a?b=c:d@e"),
        ("https://:hunter2@host/", "https://@host/"),
        ("http://user:hun:ter2@host", "http://user@host"),
        ("http://host/user:word@x", "http://host/user:word@x"),
        ("http://localhost:5173", "http://localhost:5173"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_the_password_of_a_page_is_neither_said_nor_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    with pytest.raises(OrtuneError) as error:
        ortune.diagnose(page="http://user:hunter2@127.0.0.1:9/", browser=tmp_path / "none", store=store)
    assert "hunter2" not in str(error.value) + capsys.readouterr().err
    held = [path for path in store.rglob("*") if path.is_file()]
    assert held and not any(b"hunter2" in path.read_bytes() for path in held)
    assert any(b"user@127.0.0.1:9" in path.read_bytes() for path in held)
