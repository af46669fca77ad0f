"""What lies in a checkout never makes git start a program."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from git_repository import commit, git
from hostile import commands
from ortune.errors import UsageError
from ortune.graph.model import from_git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "models").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "models" / "m.ort").write_bytes(b"a model")
    return folder


def test_a_bare_repository_among_the_files(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commands.bare_repository(repository / "models", mark)
    commit(repository)
    found = from_git.checkout(str(repository / "models" / "m.ort"), "main", tmp_path / "out")
    assert not mark.exists()
    assert found.read_bytes() == b"a model"


def test_settings_of_a_repository_that_came_with_its_git_folder(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = commit(repository)
    blob = git(repository, "rev-parse", "HEAD:models/m.ort")
    program = commands.script(tmp_path / "program", mark)
    with (repository / ".git" / "config").open("a") as f:
        f.write(commands.fetching(program))
    path = str(repository / "models" / "m.ort")
    assert from_git.checkout(path, "main", tmp_path / "out").read_bytes() == b"a model"
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UsageError, match="missing locally") as caught:
        from_git.checkout(path, first, tmp_path / "out")
    assert "git cat-file blob" in caught.value.do
    assert not mark.exists()


def test_a_git_file_that_points_into_the_files(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    commands.bare_repository(repository / "models" / "inner", mark)
    (repository / "models" / ".git").write_text("gitdir: inner\n")
    with pytest.raises(UsageError):
        from_git.checkout(str(repository / "models" / "m.ort"), "main", tmp_path / "out")
    assert not mark.exists()


def test_variables_that_name_another_repository(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(repository)
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    found = from_git.checkout(str(repository / "models" / "m.ort"), "main", tmp_path / "out")
    assert found.read_bytes() == b"a model"
