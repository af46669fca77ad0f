"""Output for the user: the only module that writes to the terminal and writes results to files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import typer

from ortune import files
from ortune.errors import OrtuneError, UsageError
from ortune.printable import lines
from ortune.show import escape
from ortune.show.numbers import shorten

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ortune.records import Envelope, Record
    from ortune.show.document import Document


def write(stream: TextIO, text: str, *, safe: bool = False) -> OSError | None:
    """Write to stdout or stderr; return the error if that fails.

    Args:
        stream: stdout or stderr.
        text: The text.
        safe: Whether parts of the text that come from files are already escaped.
    """
    try:
        stream.write(text if safe else lines(text))
        stream.flush()
    except OSError as error:
        # The buffered text must not fail again at the interpreter's exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


class Stream(io.TextIOWrapper):
    """stdout or stderr for libraries that print, which does not fail if the stream is closed or the terminal is lost.

    Attributes:
        trouble: The error of the last failed write; None if no write failed.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(io.BytesIO(), encoding=getattr(stream, "encoding", None) or "utf-8")
        self._stream = stream
        self.trouble: OSError | None = None

    def write(self, text: str) -> int:
        """Write text that is already escaped; if that fails, the error is kept in ``trouble`` and the text is lost."""
        self.trouble = write(self._stream, text, safe=True) or self.trouble
        return len(text)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the file descriptor of the stream."""
        return self._stream.fileno()


def write_text(text: str, output: str | None, *, safe: bool = False, aside: bool = False) -> None:
    """Write a text to a file or to stdout; if the file cannot be written, the text goes to stdout.

    Args:
        text: The text.
        output: A file, or None for stdout.
        safe: As for ``write``.
        aside: Whether to use stderr, because stdout belongs to the user's program.

    Raises:
        UsageError: stdout cannot be written.
        typer.Exit: The file cannot be written (exit code 2). The error is reported and the text is printed to stdout.
    """
    if output is None:
        trouble = write(sys.stderr if aside else sys.stdout, text, safe=safe)
        if not aside:
            require_written(trouble)
        return
    try:
        files.write(Path(output), text if safe else lines(text), typed=True)
    except OSError as error:
        write_text(text, None, safe=safe)  # the result must not be lost
        what = f"cannot be written: {error.strerror}; the result was printed instead"
        write_error(UsageError(what, where=output, do="choose another --output"))
        raise typer.Exit(UsageError.exit_code) from error


def exit_now(code: Sequence[int]) -> None:
    """End the process with the exit code ``code[0]`` and without interpreter shutdown, which can take seconds.

    Does nothing if there is no exit code or an exception ends the process.
    """
    if not code or hasattr(sys, "last_value"):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # Python's shutdown reports the error
    os._exit(code[0])


def require_written(trouble: OSError | None) -> None:
    """Raise an error if stdout could not be written, unless its reader closed it (``| head``).

    Raises:
        UsageError: stdout could not be written.
    """
    if trouble and not isinstance(trouble, BrokenPipeError):
        raise UsageError(
            f"cannot be written: {trouble.strerror}", where="stdout", do="free space, or use --output FILE"
        )


def write_envelope(
    envelope: Envelope[Record] | Envelope[None], output: str | None, *, aside: bool = False
) -> None:
    """Write an envelope as one line of JSON to a file or stdout.

    Raises:
        UsageError, typer.Exit: As for ``write_text``.
    """
    write_text(_json(envelope), output, safe=True, aside=aside)


def write_document(
    document: Document, form: str, output: str | None, *, whole: bool = False, aside: bool = False
) -> None:
    """Write a document in a human-readable format to a file or stdout; for "github", also to the job summary.

    Args:
        document: The document.
        form: "text", "markdown" or "github".
        output: A file, or None for stdout.
        whole: Whether "text" includes the details; the other formats always include them.
        aside: As for ``write_text``.

    Raises:
        UsageError, typer.Exit: As for ``write_text``.
    """
    from ortune.show import github, markdown, terminal

    if form == "markdown":
        write_text(markdown.render(document), output, aside=aside)
    elif form == "github":
        _append_to_job_summary(markdown.render(document))
        write_text(github.render(document), output, safe=True)  # job commands, which must not be escaped
    elif output is None and (sys.stderr if aside else sys.stdout).isatty():
        write_text(
            _printed(terminal.render(document, whole=whole), aside=aside), None, safe=True, aside=aside
        )
    else:
        write_text(terminal.plain(document, whole=whole), output, aside=aside)


def write_answer(document: Document, output: str) -> None:
    """Print the document's first sentences and the path of the file that contains it to stderr."""
    from ortune.show.document import first_lines

    answer = [shorten(line.text, escape.LONGEST) for line in first_lines(document.blocks)]
    write(sys.stderr, "\n".join((*answer, f"written to {output}")) + "\n")


def write_error(error: OrtuneError, envelope: Envelope[None] | None = None) -> None:
    """Report an error on stderr, and as a document on stdout if one is given."""
    if envelope is not None:
        write(sys.stdout, _json(envelope), safe=True)
    place = f"{escape.shown(error.where)}: " if error.where else ""
    # Indents the lines of a long message from ONNX Runtime, so that none looks like a message of ortune.
    what, do = (shorten(text, escape.LONGEST).replace("\n", "\n    ") for text in (error.what, error.do))
    write(sys.stderr, f"ortune: {place}{what}\n" + (f"  -> {do}\n" if do else ""))


def _json(envelope: Envelope[Record] | Envelope[None]) -> str:
    import msgspec

    return escape.json_text(msgspec.json.encode(envelope).decode()) + "\n"


def _append_to_job_summary(page: str) -> None:
    """Append Markdown to the summary page of a GitHub job; do nothing outside of GitHub Actions."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        write(sys.stderr, f"ortune: $GITHUB_STEP_SUMMARY cannot be written: {error.strerror}\n")


def _printed(page: RenderableType, *, aside: bool = False) -> str:
    """Return the rendered text with the width and colours of the terminal that stdout (or stderr) is."""
    from rich.console import Console

    console = Console(highlight=False, stderr=aside)
    with console.capture() as captured:
        console.print(page, crop=False)
    return captured.get()
