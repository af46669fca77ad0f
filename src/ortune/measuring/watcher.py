"""Who is told what happens while it happens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ortune.durations import in_words
from ortune.measuring.clock import Stopwatch

if TYPE_CHECKING:
    from ortune.records import PodSize
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.targets.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Is told what happens while it happens.

    Attributes:
        say: Gets sentences for people.
        stop: Asked before every trial; True ends racing and reports what is known.
        line: Gets the progress line of verbs that make their own.
        draw: Gets the lines of a drawing, for whoever has a place for it.
        begin: Is told that a wait is over, and nothing known yet: a stop is one at once again.
        clock: Runs since the invocation began.
        machine: Makes what is measured on, as ``Machine`` itself does; a simulation brings its own.
    """

    say: Callable[[str], None] = lambda sentence: None
    stop: Callable[[], bool] = lambda: False
    line: Callable[[str], None] = lambda text: None
    draw: Callable[[Sequence[str]], None] = lambda drawing: None
    begin: Callable[[], None] = lambda: None
    clock: Stopwatch = field(default_factory=Stopwatch)
    machine: Callable[[PodSize | None, BrowserSetup | None], Machine] | None = None

    def progress(self, sentence: str, spent_s: float, budget_s: float) -> None:
        """A progress line: the figures first, so that a narrow terminal cuts the sentence alone.

        How long it has taken so far whoever shows the line can tell at any moment.
        """
        done = min(1.0, spent_s / budget_s) if budget_s > 0 else 1.0
        left_s = max(0.0, budget_s - spent_s)
        self.line(f"{100 * done:.0f} %, {in_words(left_s)} left: {sentence}")
