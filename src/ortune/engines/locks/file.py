"""Lock files: their default path, and their text, in which people can read changes line by line."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import msgspec

from ortune import files
from ortune.engines.locks.take import SCHEMA
from ortune.errors import UsageError
from ortune.graph.model import from_git
from ortune.printable import operand
from ortune.records import Snapshot, read_json

SUFFIX = ".lock.json"


def default_path(model: str) -> Path:
    """Return the path of a model's lock file, in the model's folder and the same for all git revisions."""
    git = from_git.split(model)
    path = Path(git[0] if git else model)
    return path.with_name(path.name + SUFFIX)


def encoded(snapshot: Snapshot) -> str:
    """Return the lock file's text: sorted, with one fact per line, and equal for equal snapshots."""
    text = json.dumps(msgspec.to_builtins(snapshot), indent=2, sort_keys=True)
    # A shape on one line is easier to compare.
    shapes = re.compile(r"\[\n\s+-?\d+(?:,\n\s+-?\d+)*\n\s+\]")
    return shapes.sub(lambda match: f"[{' '.join(match.group().strip('[]').split())}]", text) + "\n"


def write(path: Path, snapshot: Snapshot, *, typed: bool) -> None:
    """Write a lock file; a link at the default path is replaced, since the user did not name it.

    Raises:
        UsageError: The file cannot be written.
    """
    write_text(path, encoded(snapshot), typed=typed)


def write_text(path: Path, text: str, *, typed: bool) -> None:
    """Write the text of a lock file.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        files.write(path, text, typed=typed)
    except OSError as error:
        raise UsageError(
            f"the lock cannot be written: {error.strerror}", where=str(path), do="choose another --output"
        ) from error


def read(path: Path, model: str) -> Snapshot:
    """Return the snapshot in a lock file.

    Args:
        path: The lock file.
        model: Path of the model, for the advice in errors.

    Raises:
        UsageError: The file is missing, damaged, or has another schema number.
    """
    named = [] if path == default_path(model) else ["--output", str(path)]
    again = shlex.join(["ortune", "lock", operand(model), *named])
    try:
        text = files.read(path)
    except FileNotFoundError:
        raise UsageError("there is no lock file", where=str(path), do=f"write it: {again}") from None
    except OSError as error:
        raise UsageError(
            f"the lock file cannot be read: {error.strerror}", where=str(path), do="check its permissions"
        ) from error
    try:
        snapshot = read_json(text, Snapshot)
    except msgspec.DecodeError as error:
        raise UsageError(
            f"not a readable lock file: {error}",
            where=str(path),
            do=f"create it again: {again}",
        ) from error
    levels = {**snapshot.levels, **snapshot.hardware.levels}
    if snapshot.schema != SCHEMA or not {"disable", "extended", snapshot.run.level} <= levels.keys():
        what = f"the lock has schema {snapshot.schema!r}, and this ortune reads {SCHEMA!r}"
        if snapshot.schema == SCHEMA:
            what = "the lock lacks levels that every lock has"
        raise UsageError(what, where=str(path), do=f"create it again: {again}")
    return snapshot
