"""What every verb does around its work: signals, progress, errors and the one document on stdout."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from ortune.errors import Interrupted, OrtuneError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMATS = ("text", "json", "github", "markdown")
PLAIN_WIDTH = 100  # a log or a file has no width of its own


class Stop:
    """Ctrl-C once asks to stop; Ctrl-C twice, or SIGTERM, stops at once and claims nothing."""

    def __init__(self, say: Callable[[str], None], message: str) -> None:
        self.asked = False
        self._say = say
        self._message = message

    def __call__(self) -> bool:
        """Whether a stop was asked for."""
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
        from rich.text import Text

        self.console.print(Text(sentence, style="dim"))

    @contextlib.contextmanager
    def progress(self) -> Iterator[Callable[[str], None]]:
        """A line that is rewritten; nothing where stderr is not a terminal."""
        if not self.console.is_terminal:
            yield lambda text: None
            return
        from rich.text import Text

        with self.console.status(Text("starting")) as status:
            yield lambda text: status.update(Text(text))


def chosen_format(name: str, as_json: bool, allowed: tuple[str, ...] = FORMATS) -> str:
    """The output format; UsageError names those that this verb has."""
    name = "json" if as_json else name
    if name not in allowed:
        raise UsageError(
            f"this verb has no format {name!r}", where="--format", do=f"one of {', '.join(allowed)}"
        )
    return name


def write_text(text: str, output: str | None) -> None:
    """To a file (written beside and renamed) or to stdout."""
    if output is None:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(output)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        sys.stdout.write(text)  # what was measured is not lost for the want of a writable folder
        raise UsageError(
            f"cannot be written: {error.strerror}; the result went to stdout instead",
            where=output,
            do="choose another --output",
        ) from error


def print_rich(page: RenderableType, output: str | None) -> None:
    """Prints for people: as wide as the terminal and in its colours; plain and 100 columns wide elsewhere."""
    from rich.console import Console

    if output is None and sys.stdout.isatty():
        Console(highlight=False).print(page)
        return
    plain = io.StringIO()
    Console(file=plain, highlight=False, width=PLAIN_WIDTH, force_terminal=False).print(page)
    lines = plain.getvalue().splitlines()
    write_text("\n".join(line.rstrip() for line in lines) + "\n", output)


@contextlib.contextmanager
def reporting(verb: str, as_json: bool) -> Iterator[None]:
    """Turns an error of ours into one message (or one JSON document) and its exit code."""
    try:
        yield
    except KeyboardInterrupt:
        _tell(verb, Interrupted("stopped; nothing is claimed"), as_json)
        raise typer.Exit(130) from None
    except OrtuneError as error:
        _tell(verb, error, as_json)
        raise typer.Exit(error.exit_code) from None


def _tell(verb: str, error: OrtuneError, as_json: bool) -> None:
    if as_json:
        import msgspec

        from ortune import __version__
        from ortune.records import Envelope, ErrorInfo

        info = ErrorInfo(code=error.code, what=error.what, where=error.where, do=error.do)
        status = "interrupted" if error.exit_code == 130 else "error"
        document = Envelope(schema=f"ortune/{verb}/1", ortune=__version__, status=status, error=info)  # type: ignore[arg-type]
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        sys.stdout.flush()
    sys.stderr.write(f"ortune: {error}\n")
