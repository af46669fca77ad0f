"""A model as it was at a revision, from real repositories."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from git_repository import commit, git
from onnx_text import assemble
from ortune.errors import ModelError, UsageError
from ortune.graph.model import from_git
from ortune.graph.model.open import open_model

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def write_model(path: Path, value: float, *, external: str = "") -> None:
    """y = x + w with w full of ``value``, its weight in a file beside the model where one is named."""
    weight = numpy_helper.from_array(np.full(1024, value, np.float32), "w")
    model = assemble(
        [helper.make_node("Add", ["x", "w"], ["y"])], "float[1024] x", "float[1024] y", [weight], opset=13
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    if external:
        (path.parent / external).unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        onnx.save(model, path)


def weight_of(path: Path) -> float:
    """The value that the weight is full of."""
    initializer = open_model(path).ir.graph.initializers["w"].const_value
    assert initializer is not None
    return float(initializer.numpy()[0])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository on branch ``main`` with nothing in it yet."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("m.onnx@origin/main", ("m.onnx", "origin/main")),
        ("a@b/m.onnx@HEAD~2", ("a@b/m.onnx", "HEAD~2")),
        ("m.onnx", None),
        ("m.onnx@", None),
        ("@main", None),
    ],
)
def test_split(text: str, parts: tuple[str, str] | None) -> None:
    assert from_git.split(text) == parts


def test_a_file_with_a_sign_in_its_name_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx@main"
    path.write_bytes(b"x")
    assert from_git.split(str(path)) is None


def test_the_model_of_an_older_revision(repository: Path, tmp_path: Path) -> None:
    path = repository / "models" / "deep" / "m.onnx"
    write_model(path, 1.0)
    first = commit(repository)
    write_model(path, 2.0)
    commit(repository)
    found = from_git.checkout(str(path), "HEAD~1", tmp_path / "out")
    assert found.name == f"m@{first[:10]}.onnx"
    assert weight_of(found) == 1.0
    assert weight_of(path) == 2.0


def test_a_model_that_is_gone_from_the_work_tree(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 3.0)
    commit(repository)
    path.unlink()
    commit(repository)
    assert weight_of(from_git.checkout(str(path), "HEAD~1", tmp_path / "out")) == 3.0


def test_a_relative_path_from_within_a_subfolder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_model(repository / "models" / "m.onnx", 4.0)
    commit(repository)
    monkeypatch.chdir(repository / "models")
    assert weight_of(from_git.checkout("m.onnx", "main", tmp_path / "out")) == 4.0


def test_external_data_comes_along(repository: Path, tmp_path: Path) -> None:
    path = repository / "sub" / "m.onnx"
    write_model(path, 5.0, external="m.onnx.data")
    commit(repository)
    write_model(path, 6.0, external="m.onnx.data")
    commit(repository)
    found = from_git.checkout(str(path), "HEAD~1", tmp_path / "out")
    assert (found.parent / "m.onnx.data").is_file()
    assert weight_of(found) == 5.0


def to_lfs(path: Path, repository: Path, *, keep: bool) -> None:
    """Replaces a file by its Git LFS pointer, its content in the local LFS store where ``keep``."""
    content = path.read_bytes()
    oid = hashlib.sha256(content).hexdigest()
    if keep:
        stored = repository / ".git" / "lfs" / "objects" / oid[:2] / oid[2:4] / oid
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_bytes(content)
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n")


def test_an_lfs_object_that_is_here(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 7.0)
    to_lfs(path, repository, keep=True)
    commit(repository)
    assert weight_of(from_git.checkout(str(path), "main", tmp_path / "out")) == 7.0


def test_external_data_in_lfs(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 8.0, external="w.bin")
    to_lfs(repository / "w.bin", repository, keep=True)
    commit(repository)
    assert weight_of(from_git.checkout(str(path), "main", tmp_path / "out")) == 8.0


def test_an_lfs_object_that_is_not_here(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 9.0)
    to_lfs(path, repository, keep=False)
    commit(repository)
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    with pytest.raises(ModelError, match="LFS object is missing locally") as caught:
        from_git.checkout(str(path), "origin/main", tmp_path / "out")
    assert "git lfs fetch origin main" in caught.value.do


def test_a_work_tree_of_its_own_finds_the_lfs_store(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 10.0)
    to_lfs(path, repository, keep=True)
    commit(repository)
    git(repository, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "side")
    found = from_git.checkout(str(tmp_path / "other" / "m.onnx"), "main", tmp_path / "out")
    assert weight_of(found) == 10.0


def test_a_revision_that_does_not_exist(repository: Path, tmp_path: Path) -> None:
    path = repository / "m.onnx"
    write_model(path, 1.0)
    commit(repository)
    with pytest.raises(UsageError) as caught:
        from_git.checkout(str(path), "no-such-branch", tmp_path / "out")
    assert "no such revision" in caught.value.what
    assert "no-such-branch" in caught.value.where
    assert "git fetch" in caught.value.do


def test_a_file_that_the_revision_does_not_have(repository: Path, tmp_path: Path) -> None:
    write_model(repository / "m.onnx", 1.0)
    commit(repository)
    with pytest.raises(UsageError, match="not in that revision"):
        from_git.checkout(str(repository / "other.onnx"), "main", tmp_path / "out")


def test_outside_any_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    write_model(tmp_path / "m.onnx", 1.0)
    with pytest.raises(UsageError, match="not inside a git repository"):
        from_git.checkout(str(tmp_path / "m.onnx"), "main", tmp_path / "out")
    assert not (tmp_path / "out").exists()
