"""The program ``ortune``: finds the verbs, which import their code when they run."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import gc
import io
import itertools
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, cast

import typer
import typer.main

from ortune import __version__, files
from ortune.api import verbs
from ortune.cli import completion
from ortune.cli.output import Stream, exit_now, require_written, write
from ortune.cli.quick_start import import_later
from ortune.cli.session import report_error
from ortune.cli.verbs import command, short_help
from ortune.errors import Interrupted, OrtuneError, UsageError, internal
from ortune.printable import operand

SESSION_ID = re.compile(r"\d{8}-[0-9a-f]{6}")
FILE_NAME = re.compile(r"-.*\.(onnx|ort|ortune|json)/?\s*", re.IGNORECASE | re.DOTALL)
MODEL_NAME = re.compile(r".*\.(onnx|ort|ortune)/?(@.+)?", re.IGNORECASE | re.DOTALL)

HELP = {"-h", "--help", "--version"}

app = typer.Typer(
    name="ortune",
    help="Shows where every millisecond of an ONNX model goes, and finds the fastest correct way to run it.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The class of all errors about options. The module that defines it depends on typer's version.
_Refused = cast("type[typer.BadParameter]", typer.BadParameter.__bases__[0])

NEAR = 0.7
"""Minimum similarity (0 to 1) of an unknown option and a known one for the known one to be suggested."""


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
    """Declare the options that come before the verb."""


def register(*asked: str, whole: bool = False) -> None:
    """Register the requested commands with typer, or all commands by name and summary if none is requested.

    ``whole`` is whether the process runs only this command.
    """
    app.registered_commands = [
        registered for registered in app.registered_commands if registered.name not in verbs()
    ]
    for name in filter(asked.__contains__, verbs()):
        app.command(name=name)(command(name, whole=whole))
    for name in () if asked else verbs():  # reading the options of all verbs takes 0.1 s
        app.command(name=name, help=short_help(name))(_not_requested)


def _not_requested() -> None:
    """Do nothing: a placeholder for verbs that are only listed in ``ortune --help``."""


def main() -> None:
    """Entry point of the console script."""
    gc.disable()  # imported objects are never garbage, and the search takes a tenth of the start-up time
    # The many objects of a model stay too, so young objects are searched less often than by default.
    gc.set_threshold(10_000, 5, 2)
    code: list[int] = []
    atexit.register(exit_now, code)  # registered first, so that it runs last
    sys.excepthook = _internal_error
    import_later()
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # Files and pipes get UTF-8, the encoding of JSON; characters that a terminal lacks are shown as escapes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="backslashreplace")
    code.append(_run(sys.argv[1:] or ["--help"], whole=True))
    # The answer is printed. From here on a Ctrl-C would only interrupt the cleanup and print a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code[0])


def _open_closed_streams() -> None:
    """Connect closed standard streams to the null device, so that no other file gets their descriptors.

    Writing to such a stream still fails, as it does for a closed stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _run(arguments: Sequence[str], *, whole: bool = False) -> int:
    """Run a verb and return the exit code; ``whole`` is whether the process runs only this command."""
    try:
        if completion.VARIABLE in os.environ:
            return _complete(completion.typed())
        _require_utf8(arguments)
        arguments = completion.with_named_shell(arguments)
        arguments = _with_look(_with_files(arguments))
        register(*_verb(arguments), whole=whole)
        if HELP & {*_options(arguments)}:
            return _help(arguments)
        _require_folder()
        return _program(_with_resume(arguments))
    except _Refused as error:
        return _refuse(_refusal(error, arguments), arguments)
    except UsageError as error:
        return _refuse(error, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _refuse(Interrupted("stopped before there was a result"), arguments)


def _program(arguments: Sequence[str]) -> int:
    # Calling app() would replace sys.excepthook with typer's hook.
    program = typer.main.get_command(app)
    return program.main(arguments, prog_name="ortune", standalone_mode=False) or 0


def _complete(typed: Sequence[str]) -> int:
    """Print the completion candidates for the last word of a command line; return the exit code."""
    finished = typed[:-1]
    with contextlib.suppress(UsageError):
        finished = _with_look(finished)
    register(*_verb(finished))
    completion.answer([*finished, *typed[-1:]], lambda: _program([]))
    return 0


def _help(arguments: Sequence[str]) -> int:
    """Print typer's help; return the exit code."""
    with contextlib.redirect_stdout(Stream(sys.stdout)) as stream:
        code = _program(arguments)
    require_written(stream.trouble)
    return code


def _require_folder() -> None:
    try:
        Path.cwd()
    except OSError:
        raise UsageError(
            "the working directory no longer exists", where=".", do="change to an existing directory"
        ) from None


def _refusal(error: typer.BadParameter, arguments: Sequence[str]) -> UsageError:
    """Return typer's error about the options as a usage error, with a suggestion if there is one."""
    line = " ".join(["ortune", *_verb(arguments)])
    do = f"{line} --help lists all options"
    unknown: str = getattr(error, "option_name", None) or ""
    offered = (
        {flag for parameter in error.ctx.command.params for flag in parameter.opts} if error.ctx else set()
    )
    unknown = _whole_flag(unknown, arguments)
    if unknown and unknown not in offered:
        from ortune.cli.guesses import instead

        better = instead(unknown, arguments, offered)
        if better:
            return UsageError(f"unknown option {unknown}", do=f"{better}; {do}")
        named = {flag.strip("-"): flag for flag in offered if flag.startswith("-")}
        near = difflib.get_close_matches(unknown.strip("-"), named, cutoff=NEAR)
        meant = f"did you mean {' or '.join(named[name] for name in near)}? " if near else ""
        return UsageError(f"unknown option {unknown}", do=f"{meant}{do}")
    return UsageError(error.format_message(), do=do)


def _whole_flag(flag: str, arguments: Sequence[str]) -> str:
    """Return the flag as typed, because the parser reports only one letter of a long flag with a single dash."""
    whole = re.compile(rf"(-[a-z]*{re.escape(flag[1:])}[a-z]*)(=.*)?", re.DOTALL)
    found = (whole.fullmatch(word) for word in _options(arguments)) if re.fullmatch("-[a-z]", flag) else ()
    return next((match[1] for match in found if match), flag)


def _with_files(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments with files named like options written as paths, since ``*.onnx`` can match such names."""
    options = _options(arguments)
    return [*map(_as_file, options), *arguments[len(options) :]]


def _options(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments that may be options: those before ``--``."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _as_file(argument: str) -> str:
    """Return the argument as an unambiguous path if it looks like an option but is the name of a file."""
    for name in (argument, argument.rpartition("@")[0]):  # without and with a revision ("model.onnx@v1")
        if FILE_NAME.fullmatch(name) and os.path.lexists(name):  # true for broken links too
            return operand(argument)
    return argument


def _with_look(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments with a verb: ``look`` before a model, ``explain`` for ``rules``, and --help for ``help``."""
    first = arguments[0] if arguments else ""
    if first == "rules":  # not a verb, because a package has this name
        return ["explain", *arguments[1:]]
    if first == "help":
        return [*arguments[1:], "--help"]
    if not first or first.startswith("-") or _verb(arguments):
        return arguments
    if MODEL_NAME.fullmatch(first) or files.exists(first):
        return ["profile" if first.endswith(".json") else "look", *arguments]
    from ortune.cli.guesses import command_instead

    meant = command_instead(first) or next(
        iter(difflib.get_close_matches(first, verbs(), n=1, cutoff=0.6)), ""
    )
    hint = f"did you mean ortune {meant}?" if meant else "ortune MODEL.onnx for a first look, or"
    raise UsageError(
        f"{first!r} is neither a command nor a file", do=f"{hint} run ortune --help for all commands"
    )


def _with_resume(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with "newest" added to ``--resume`` without an id, which typer cannot express."""
    options = _options(arguments)
    rewritten = []
    for this, after in itertools.zip_longest(options, options[1:], fillvalue=""):
        rewritten.append(this)
        if this == "--resume" and not SESSION_ID.fullmatch(after):
            rewritten[-1] = "--resume=newest"
    return [*rewritten, *arguments[len(options) :]]


def _refuse(error: OrtuneError, arguments: Sequence[str]) -> int:
    report_error("".join(_verb(arguments)) or "error", error, _wants_json(arguments))
    return error.exit_code


def _require_utf8(arguments: Sequence[str]) -> None:
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if sys.getfilesystemencoding() != "utf-8" and _is_utf8(os.fsencode(argument)):
                raise UsageError(
                    f"Python decodes arguments as {sys.getfilesystemencoding()} here, and this one is UTF-8",
                    where=ascii(argument),
                    do="set PYTHONUTF8=1",
                ) from None
            raise UsageError(
                "the name is not UTF-8, which JSON and the store need", where=ascii(argument), do="rename it"
            ) from None


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _verb(arguments: Sequence[str]) -> list[str]:
    """Return a list with the verb that begins the command line; empty if the command line begins otherwise."""
    return [
        a
        for a in arguments[:1]
        if a in {*verbs(), *(registered.name for registered in app.registered_commands)}
    ]


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether a JSON document is expected, even if the options are invalid."""
    options = _options(arguments)
    return (
        "--json" in options
        or "--format=json" in options
        or ("--format", "json") in itertools.pairwise(options)
    )


def _internal_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Report an unexpected exception and exit; the traceback is printed only if ORTUNE_DEBUG is set.

    Ctrl-C exits with 130 and without a report.
    """
    if issubclass(kind, KeyboardInterrupt):
        os._exit(130)
    code = _refuse(internal(error), sys.argv[1:])
    if os.environ.get("ORTUNE_DEBUG"):
        write(sys.stderr, "".join(traceback.format_exception(kind, error, trace)))
    os._exit(code)
