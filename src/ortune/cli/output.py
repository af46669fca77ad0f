"""What is written for the user: the one place that writes to a terminal, and what is written to files."""

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
    """Write to stdout or stderr; returns the error when that cannot be done.

    Args:
        stream: One of the two.
        text: What to write.
        safe: Whoever made it has escaped what came from files, and means what is left.
    """
    try:
        stream.write(text if safe else lines(text))
        stream.flush()
    except OSError as error:
        # What is still buffered must not fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return error
    return None


class Stream(io.TextIOWrapper):
    """stdout or stderr for libraries that print, which would fail where it is closed or a terminal is lost.

    Attributes:
        trouble: Why it could not be written.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(io.BytesIO(), encoding=getattr(stream, "encoding", None) or "utf-8")
        self._stream = stream
        self.trouble: OSError | None = None

    def write(self, text: str) -> int:
        """Write what is safe already; what cannot be written is lost."""
        self.trouble = write(self._stream, text, safe=True) or self.trouble
        return len(text)

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return what it writes to."""
        return self._stream.fileno()


def write_text(text: str, output: str | None, *, safe: bool = False, aside: bool = False) -> None:
    """To a file or to stdout, where it goes too when the file cannot be written.

    Args:
        text: What to write.
        output: A file, or None for stdout.
        safe: As for ``write``.
        aside: Write to stderr instead of stdout, which belongs to a program of the user's.

    Raises:
        UsageError: stdout cannot be written.
        typer.Exit: The file cannot be written (2); that was said, and the text is on stdout.
    """
    if output is None:
        trouble = write(sys.stderr if aside else sys.stdout, text, safe=safe)
        if not aside:
            require_written(trouble)
        return
    try:
        files.write(Path(output), text if safe else lines(text), typed=True)
    except OSError as error:
        write_text(text, None, safe=safe)  # what was measured is not lost for the want of a writable folder
        what = f"cannot be written: {error.strerror}; the result was printed instead"
        write_error(UsageError(what, where=output, do="choose another --output"))
        raise typer.Exit(UsageError.exit_code) from error


def leave(code: Sequence[int]) -> None:
    """End the process without taking its modules apart, which takes seconds of a budget on a busy machine."""
    if not code or hasattr(sys, "last_value"):
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # what cannot be written is told as Python tells it
    os._exit(code[0])


def require_written(trouble: OSError | None) -> None:
    """Refuse a stdout that could not be written. A reader that has seen enough (``| head``) is no error.

    Raises:
        UsageError: It could not.
    """
    if trouble and not isinstance(trouble, BrokenPipeError):
        raise UsageError(
            f"cannot be written: {trouble.strerror}", where="stdout", do="free space, or use --output FILE"
        )


def write_envelope(
    envelope: Envelope[Record] | Envelope[None], output: str | None, *, aside: bool = False
) -> None:
    """The document as one line of JSON.

    Raises:
        UsageError, typer.Exit: As ``write_text``.
    """
    write_text(_json(envelope), output, safe=True, aside=aside)


def write_document(
    document: Document, form: str, output: str | None, *, whole: bool = False, aside: bool = False
) -> None:
    """The answer for people: to a file or stdout, and for GitHub to the job's summary too.

    Args:
        document: What to write.
        form: "text", "markdown" or "github".
        output: A file, or None for stdout.
        whole: Text holds what supports the answer too, which the other formats always do.
        aside: As for ``write_text``.

    Raises:
        UsageError, typer.Exit: As ``write_text``.
    """
    from ortune.show import github, markdown, terminal

    if form == "markdown":
        write_text(markdown.render(document), output, aside=aside)
    elif form == "github":
        _append_to_job_summary(markdown.render(document))
        write_text(github.render(document), output, safe=True)  # commands are what it is made of
    elif output is None and (sys.stderr if aside else sys.stdout).isatty():
        write_text(
            _printed(terminal.render(document, whole=whole), aside=aside), None, safe=True, aside=aside
        )
    else:
        write_text(terminal.plain(document, whole=whole), output, aside=aside)


def write_answer(document: Document, output: str) -> None:
    """Says on stderr what was written to a file: the first sentences of the answer, a gate's included, and the file."""
    from ortune.show.document import Line

    answer = []
    for block in document.blocks:
        if not isinstance(block, Line):
            break
        answer.append(shorten(block.text, escape.LONGEST))
    write(sys.stderr, "\n".join((*answer, f"written to {output}")) + "\n")


def write_error(error: OrtuneError, envelope: Envelope[None] | None = None) -> None:
    """Says what went wrong: on stderr, and as the one document on stdout where JSON is expected."""
    if envelope is not None:
        write(sys.stdout, _json(envelope), safe=True)
    place = f"{escape.shown(error.where)}: " if error.where else ""
    # Words of ONNX Runtime may have several lines; none of them can be taken for one of ortune's own.
    what, do = (shorten(text, escape.LONGEST).replace("\n", "\n    ") for text in (error.what, error.do))
    write(sys.stderr, f"ortune: {place}{what}\n" + (f"  -> {do}\n" if do else ""))


def _json(envelope: Envelope[Record] | Envelope[None]) -> str:
    import msgspec

    return escape.json_text(msgspec.json.encode(envelope).decode()) + "\n"


def _append_to_job_summary(page: str) -> None:
    """Adds Markdown to the summary page of a GitHub job; elsewhere there is none, and nothing is done."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if not summary:
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        write(sys.stderr, f"ortune: $GITHUB_STEP_SUMMARY cannot be written: {error.strerror}\n")


def _printed(page: RenderableType, *, aside: bool = False) -> str:
    """Return the page as wide as the terminal and in its colours."""
    from rich.console import Console

    console = Console(highlight=False, stderr=aside)
    with console.capture() as captured:
        console.print(page, crop=False)
    return captured.get()
