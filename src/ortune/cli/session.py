"""Parts that all verbs share: signals, progress, errors, and the single document on stdout."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

import typer

from ortune import monotonic
from ortune.cli import output
from ortune.errors import Interrupted, OrtuneError, Stopped, UsageError
from ortune.printable import lines
from ortune.show import escape
from ortune.show.numbers import shorten

if TYPE_CHECKING:
    from ortune.records import Configured, Envelope
    from ortune.step import Step

SPARSE_S = 60.0
"""Minimum time between two progress lines if stderr is not a terminal."""

AT_ONCE = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
"""Signals that stop ortune immediately: a request to terminate, a lost terminal, and Ctrl-\\."""


class StopRequest:
    """State of the user's requests to stop a verb.

    The first Ctrl-C requests a stop with a partial result. A second Ctrl-C or a signal in ``AT_ONCE`` stops without a
    result. Until the verb first queries this state there is no partial result, so the first Ctrl-C stops immediately.
    """

    def __init__(self, say: Callable[[str], None], message: str) -> None:
        self.asked = self.heard = False
        self._ended: Stopped | None = None
        self._say = say
        self._message = message

    def __call__(self) -> bool:
        """Return whether a stop was requested.

        Raises:
            Stopped: An immediate stop was requested, but Python dropped the exception, for example in a finalizer.
        """
        self.heard = True
        if self._ended is not None:
            raise self._ended
        return self.asked

    def begin(self) -> None:
        """Mark the start of a measurement: until the next query, the first Ctrl-C stops immediately."""
        self.heard = False

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals while a verb measures."""
        from ortune import launcher

        self._interrupt = launcher.interrupt
        # Ignored signals stay ignored: under nohup, a lost terminal is no reason to stop.
        heeded = [signal.SIGINT, *(s for s in AT_ONCE if signal.getsignal(s) != signal.SIG_IGN)]
        before = {s: signal.signal(s, self._handle) for s in heeded}
        report_dropped = sys.unraisablehook
        # Python prints exceptions that it drops, as in a destructor; a dropped stop is raised again at the next query.
        sys.unraisablehook = lambda dropped: (
            None if isinstance(dropped.exc_value, Stopped) else report_dropped(dropped)
        )
        try:
            yield
        finally:
            sys.unraisablehook = report_dropped
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked or number in AT_ONCE:
            self._ended = Stopped("stopped before there was a result")
        elif not self.heard:
            self._ended = Stopped("stopped before anything was compared; no verdict")
        if self._ended is not None:
            self._interrupt(self._ended)
            return
        self.asked = True
        self._say(self._message)


class Messages:
    """Messages on stderr, above a progress line if stderr is a terminal.

    Args:
        quiet: Whether messages and progress are suppressed.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        from rich.console import Console

        self.quiet = quiet
        self.console = Console(file=output.Stream(sys.stderr), highlight=False)
        self._said_s = monotonic.now_s()

    def __call__(self, sentence: str) -> None:
        """Print one sentence unless messages are suppressed."""
        if self.quiet:
            return
        self._said_s = monotonic.now_s()
        if not self.console.is_terminal:
            output.write(sys.stderr, shorten(sentence, escape.LONGEST) + "\n")
            return
        from rich.text import Text

        text = lines(shorten(sentence, escape.LONGEST))
        # Wrapped between words; a word longer than a line, such as a URL, stays whole for copying.
        whole = max(map(len, text.split()), default=0) > self.console.width
        self.console.print(Text(text, style="dim"), soft_wrap=whole)

    def draw(self, drawing: Sequence[str]) -> None:
        """Print a drawing in black on white, if the terminal is wide enough and has colours."""
        if (
            self.console.is_terminal
            and not self.quiet
            and not self.console.no_color
            and max(map(len, drawing), default=0) <= self.console.width
        ):
            from rich.text import Text

            for line in drawing:
                self.console.print(Text(line, style="black on white"))

    @contextlib.contextmanager
    def progress(self) -> Iterator[Callable[[Step], None]]:
        """Show progress as a live bar with the current leaders, or one line per minute if stderr is not a terminal."""
        if self.quiet:
            yield lambda step: None
            return
        if not self.console.is_terminal:
            yield self._now_and_then
            return
        from rich.live import Live
        from rich.text import Text

        from ortune.show.progress import drawn
        from ortune.step import Step

        start_s = began_s = monotonic.now_s()
        now = Step(what="starting")

        def show(step: Step) -> None:
            nonlocal now, began_s
            now, began_s = step, monotonic.now_s()

        def picture() -> Text:
            at_s, plain = monotonic.now_s(), self.console.options.ascii_only
            page = drawn(now, at_s - start_s, at_s - began_s, self.console.width, plain=plain)
            return Text("\n".join(page), no_wrap=True)

        # Refreshed by a thread, so that long steps show progress, but only once a second: each refresh takes 0.2 ms
        # of a CPU that may be measured.
        with Live(get_renderable=picture, console=self.console, refresh_per_second=1, transient=True):
            yield show

    def _now_and_then(self, step: Step) -> None:
        if monotonic.now_s() - self._said_s >= SPARSE_S:
            self(step.text)


def chosen_format(name: str, as_json: bool, allowed: tuple[str, ...]) -> str:
    """Return the output format, which is "json" with ``--json``.

    Raises:
        UsageError: The verb does not support the format.
    """
    name = "json" if as_json else name
    if name not in allowed:
        raise UsageError(
            f"this command does not support the format {name!r}",
            where="--format",
            do=f"one of {', '.join(allowed)}",
        )
    return name


@dataclass
class CommandFacts:
    """Facts about the command that its document contains even if the command fails.

    Attributes:
        configured: Options from the project's configuration file; None if it set none.
    """

    configured: Configured | None = None


@contextlib.contextmanager
def reporting(verb: str, as_json: bool) -> Iterator[CommandFacts]:
    """Report an ``OrtuneError`` or Ctrl-C as one message (or one JSON document), and exit with its code."""
    asked = CommandFacts()
    try:
        yield asked
    except KeyboardInterrupt as stop:
        interrupted = Interrupted(str(stop) or "stopped before there was a result")
        report_error(verb, interrupted, as_json, asked.configured)
        raise typer.Exit(130) from None
    except OrtuneError as error:
        report_error(verb, error, as_json, asked.configured)
        raise typer.Exit(error.exit_code) from None


def report_error(verb: str, error: OrtuneError, as_json: bool, configured: Configured | None = None) -> None:
    """Report an error on stderr, and as a document on stdout if JSON is expected."""
    document: Envelope[None] | None = None
    if as_json:
        from ortune import __version__
        from ortune.records import Envelope, schema_of
        from ortune.verbs._shared.attempt import error_info

        document = Envelope(
            schema=schema_of(verb),
            ortune=__version__,
            status="interrupted" if error.exit_code == 130 else "error",
            verdict="invalid" if error.code == "invalid" else None,
            error=error_info(error),
            configured=configured,
        )
    output.write_error(error, document)
