"""The program ``ortune``: verbs are found here, and import what they need when they run."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Annotated

import typer

from ortune import __version__
from ortune.cli import compare, doctor

app = typer.Typer(
    name="ortune",
    help="Finds out where every millisecond of an ONNX model goes, and proves what makes it faster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="compare")(compare.compare)
app.command(name="doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"ortune {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the verb."""


def main() -> None:
    """Entry point of the console script."""
    sys.excepthook = _internal_error
    app()


def _internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug of ours: said as such, exit code 4; the traceback only when asked for."""
    if issubclass(kind, KeyboardInterrupt):
        os._exit(130)
    sys.stderr.write(f"ortune: internal error: {kind.__name__}: {error}\n")
    if os.environ.get("ORTUNE_DEBUG"):
        sys.__excepthook__(kind, error, trace)
    else:
        sys.stderr.write(
            "  -> this is a bug in ortune; run again with ORTUNE_DEBUG=1 and report what it prints\n"
        )
    sys.stderr.flush()
    os._exit(4)
