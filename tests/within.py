"""ortune's program within the tests' own process: starting another takes longer than most verbs."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ortune.cli.main import _run
from ortune.targets import requests


def program(words: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _run(words)
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def place(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """This process has another working folder, and another environment, for a while."""
    before, temporary = dict(os.environ), tempfile.tempdir
    try:
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = environment.get("TMPDIR")
        requests._allocator.cache_clear()  # libraries are found by the environment
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = temporary
        requests._allocator.cache_clear()
