"""Options of ``ortune record``: the program's command, the file, and the kinds of data to record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ortune.verbs._shared.common import Page
from ortune.verbs._shared.spelling import MODEL, OUT, RUN, AnyPath, Argument, Option

FORMATS = ("text", "json", "markdown", "html")
STOPPING = ""
TABLE = "findings"
EXAMPLE = 'ortune.record("python", "app.py")'
FOREGROUND = True
"""Whether the terminal and stdout belong to the program, so that results go to stderr without progress."""
USUAL = "app.workload"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Record how an application uses ONNX Runtime, and find what costs it time.

    Runs COMMAND unchanged: its output, signals and exit code are passed through. Counts every session and call in it
    and in its child processes. Values of tensors are recorded only with --with-inputs. The exit code is 3 if it
    succeeded and a process with ONNX Runtime could not be recorded.
    """

    command: Annotated[
        Sequence[str], Argument("[-- COMMAND...]", "The program and its arguments, after --.")
    ] = ()
    output: Annotated[
        AnyPath | None,
        Option(
            "--output", "FILE", f"Workload file to write. Default: {USUAL} in the current folder.", OUT, short="-o",
            again=False, writes=True,
        ),
    ] = None  # fmt: skip
    duration: Annotated[
        str | float | None, Option("--duration", "2m", "End the program after this time, by SIGTERM.", RUN)
    ] = None
    with_inputs: Annotated[
        int | None,
        Option(
            "--with-inputs", "N",
            "Also record the input values of up to N calls for each model and shape, 64 MiB in all.", RUN,
        ),
    ] = None  # fmt: skip
    anonymous: Annotated[
        bool, Option("--anonymous", "", "Leave paths and arguments out of the workload file.", OUT)
    ] = False
    install: Annotated[
        AnyPath | None,
        Option(
            "--install", "VENV",
            "Install the recorder into an environment, for programs that python -I or -E starts. It does nothing "
            "unless ortune record runs the program.", MODEL,
        ),
    ] = None  # fmt: skip
    uninstall: Annotated[
        AnyPath | None, Option("--uninstall", "VENV", "Remove the recorder from an environment.", MODEL)
    ] = None
    report: Page = None

    answer = None
    """No path for the result, which goes to stderr, because ``output`` is the workload file."""
