"""Files that try to run a command: each maker builds one, and its command would leave the file ``mark``."""

from __future__ import annotations

from pathlib import Path


def script(path: Path, mark: Path) -> Path:
    """A program that leaves the mark."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho run > '{mark}'\n")
    path.chmod(0o755)
    return path


def bare_repository(folder: Path, mark: Path) -> None:
    """A bare repository of plain files, which any commit can hold, whose objects are to be fetched by a program."""
    program = script(folder / "program", mark)
    (folder / "objects").mkdir()
    (folder / "objects" / "kept").write_text("")
    (folder / "refs" / "heads").mkdir(parents=True)
    (folder / "refs" / "heads" / "main").write_text("1" * 40 + "\n")
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    settings = f"[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tworktree = ..\n{fetching(program)}"
    (folder / "config").write_text(settings)


def fetching(program: Path) -> str:
    """Settings of a repository by which git starts the program where an object is missing, or the index is read."""
    return (
        "[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = .\n\tpromisor = true\n\tuploadpack = "{program}; false"\n'
        '[protocol]\n\tallow = always\n[protocol "file"]\n\tallow = always\n'
        f"[core]\n\tfsmonitor = {program}\n\thooksPath = {program.parent}\n\tsshCommand = {program}\n"
        f"\tpager = {program}\n\tgitProxy = {program}\n"
        f"[diff]\n\texternal = {program}\n"
    )
