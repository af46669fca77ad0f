"""ortune's program within the tests' own process: starting another takes longer than most verbs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence

from ortune.cli.main import _run


def program(words: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _run(words)
    return code, out.getvalue(), err.getvalue()
