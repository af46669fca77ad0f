"""Options of ``ortune run``: the program's command and the bundle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import Page
from ortune.verbs._shared.spelling import MODEL, AnyPath, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "models"
EXAMPLE = 'ortune.run("python", "app.py", bundle="app.ortune")'
FOREGROUND = True
"""Whether the terminal and stdout belong to the program, so that results go to stderr without progress."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Run an application with the changes of a bundle, without changing the application.

    Runs COMMAND under its own interpreter. Sessions of the models in the bundle get its settings, share one session, or
    open another model file; all others are left alone. The exit code is that of the application.
    """

    command: Annotated[
        Sequence[str], Argument("[-- COMMAND...]", "The program and its arguments, after --.")
    ] = ()
    bundle: Annotated[
        AnyPath | None,
        Option("--with", "BUNDLE", "Bundle of an application, from ortune tune app.workload.", MODEL),
    ] = None
    report: Page = None
