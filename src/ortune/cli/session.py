"""What every verb does around its work: signals, progress, errors and the one document on stdout."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO, TypeVar

import typer

from ortune.errors import Interrupted, OrtuneError, UsageError

if TYPE_CHECKING:
    from ortune.records import Envelope
    from ortune.report.document import Document

R = TypeVar("R")

FORMATS = ("text", "json", "github", "markdown")


class StopRequest:
    """Ctrl-C once asks to stop; Ctrl-C twice, or SIGTERM, stops at once and claims nothing.

    Before anyone asks whether to stop there is nothing to tell yet, and the first Ctrl-C stops at once too.
    """

    def __init__(self, say: Callable[[str], None], message: str) -> None:
        self.asked = self.heard = False
        self._say = say
        self._message = message

    def __call__(self) -> bool:
        """Whether a stop was asked for."""
        self.heard = True
        return self.asked

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handles both signals while a verb measures."""
        before = {s: signal.signal(s, self._handle) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked or number == signal.SIGTERM:
            raise Interrupted("stopped; nothing is claimed")
        if not self.heard:
            raise Interrupted("stopped before anything was compared; nothing is claimed")
        self.asked = True
        self._say(self._message)


class Say:
    """Sentences for people on stderr, above a progress line where stderr is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._status = None

    def __call__(self, sentence: str) -> None:
        """Prints one sentence."""
        if not self.console.is_terminal:
            _write(sys.stderr, sentence + "\n")
            return
        from rich.text import Text

        self.console.print(Text(sentence, style="dim"))

    @contextlib.contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """A line that is rewritten; nothing where stderr is not a terminal."""
        if not self.console.is_terminal:
            yield lambda text: None
            return
        from rich.live import Live
        from rich.text import Text

        # No spinner: a thread that draws while a trial runs would take time from what is measured.
        with Live(Text("starting"), console=self.console, auto_refresh=False, transient=True) as live:
            yield lambda text: live.update(Text(text, overflow="ellipsis", no_wrap=True), refresh=True)


def chosen_format(name: str, as_json: bool, allowed: tuple[str, ...] = FORMATS) -> str:
    """The output format; UsageError names those that this verb has."""
    name = "json" if as_json else name
    if name not in allowed:
        raise UsageError(
            f"this verb has no format {name!r}", where="--format", do=f"one of {', '.join(allowed)}"
        )
    return name


def write_text(text: str, output: str | None) -> None:
    """To a file (written beside and renamed) or to stdout, where it goes too when the file cannot be written.

    Raises:
        UsageError: stdout cannot be written.
        typer.Exit: The file cannot be written (2); that was said, and the text is on stdout.
    """
    if output is None:
        trouble = _write(sys.stdout, text)
        # A reader that has seen enough (``| head``) is no error.
        if trouble and not isinstance(trouble, BrokenPipeError):
            raise UsageError(
                f"cannot be written: {trouble.strerror}",
                where="stdout",
                do="free space, or use --output FILE",
            )
        return
    try:
        _write_file(Path(output), text)
    except OSError as error:
        write_text(text, None)  # what was measured is not lost for the want of a writable folder
        what = f"cannot be written: {error.strerror}; the result went to stdout instead"
        tell("", UsageError(what, where=output, do="choose another --output"), as_json=False)
        raise typer.Exit(UsageError.exit_code) from error


def _write_file(path: Path, text: str) -> None:
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a device or a pipe; a folder refuses
        return
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _write(stream: TextIO, text: str) -> OSError | None:
    """Writes to stdout or stderr, and returns the error when that cannot be done."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        # What is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


def write_document(document: Document, form: str, output: str | None) -> None:
    """The answer for people: to a file or stdout, and for GitHub to the job's summary too.

    Raises:
        UsageError, typer.Exit: As ``write_text``.
    """
    from ortune.report import github, markdown

    if form == "markdown":
        write_text(markdown.render(document), output)
    elif form == "github":
        _append_to_job_summary(markdown.render(document))
        write_text(github.render(document), output)
    else:
        _print_rich(document, output)


def _append_to_job_summary(page: str) -> None:
    """Adds Markdown to the summary page of a GitHub job; elsewhere there is none, and nothing is done."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        sys.stderr.write(f"ortune: $GITHUB_STEP_SUMMARY cannot be written: {error.strerror}\n")


def _print_rich(document: Document, output: str | None) -> None:
    """Prints for people: as wide as the terminal and in its colours; plain elsewhere."""
    from rich.console import Console

    from ortune.report import terminal

    if output is None and sys.stdout.isatty():
        Console(highlight=False).print(terminal.render(document))
    else:
        write_text(terminal.plain(document), output)


@contextlib.contextmanager
def reporting(verb: str, as_json: bool) -> Iterator[None]:
    """Turns an error of ours into one message (or one JSON document) and its exit code."""
    try:
        yield
    except KeyboardInterrupt:
        tell(verb, Interrupted("stopped; nothing is claimed"), as_json)
        raise typer.Exit(130) from None
    except OrtuneError as error:
        tell(verb, error, as_json)
        raise typer.Exit(error.exit_code) from None


def tell(verb: str, error: OrtuneError, as_json: bool) -> None:
    """Says what went wrong: on stderr, and as the one document on stdout where JSON is expected."""
    if as_json:
        import msgspec

        from ortune import __version__
        from ortune.records import Envelope, ErrorInfo

        verdict = "invalid" if error.code == "invalid" else None
        info = ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
        document: Envelope[None] = Envelope(
            schema=f"ortune/{verb}/1",
            ortune=__version__,
            status="interrupted" if error.exit_code == 130 else "error",
            verdict=verdict,
            error=info,
        )
        _write(sys.stdout, msgspec.json.encode(document).decode() + "\n")
    _write(sys.stderr, f"ortune: {error}\n")
