"""Callbacks by which a measurement reports its progress and asks whether to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ortune.measuring.clock import Stopwatch
from ortune.step import Step

if TYPE_CHECKING:
    from ortune.records import Configured, PodSize
    from ortune.records.messages import Message
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.targets.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Progress and cancellation callbacks of one invocation.

    Attributes:
        say: Receives sentences for the user.
        stop: Called before every trial; returns True to end the race and report the results so far.
        step: Receives the current step, whenever it changes.
        draw: Receives the lines of a drawing, for terminals with enough room.
        begin: Called when a wait ends without a result so far, so a stop takes effect immediately again.
        clock: Elapsed time since the invocation began.
        budget_s: Budget of the invocation; None without one.
        machine: Creates the machine to measure, for simulations; None for ``Machine``.
        configured: Options that a project's file has set, for the document.
        words: Returns the words of a message of the core; each verb sets it.
    """

    say: Callable[[str], None] = lambda sentence: None
    stop: Callable[[], bool] = lambda: False
    step: Callable[[Step], None] = lambda step: None
    draw: Callable[[Sequence[str]], None] = lambda drawing: None
    begin: Callable[[], None] = lambda: None
    clock: Stopwatch = field(default_factory=Stopwatch)
    budget_s: float | None = None
    machine: Callable[[PodSize | None, BrowserSetup | None], Machine] | None = None
    configured: Configured | None = None
    words: Callable[[Message | str], str] = str

    def with_budget(self, budget_s: float | None) -> Watcher:
        """Return a watcher with the same callbacks, which reports progress as a fraction of the given budget."""
        return replace(self, budget_s=budget_s)

    def tell(self, what: Message | str) -> None:
        """Give the user a message."""
        self.say(self.words(what))

    def line(self, what: Message | str) -> None:
        """Report the current step, with the share of the budget that is spent."""
        if self.budget_s is None:
            self.step(Step(what=self.words(what)))
        else:
            self.progress(what, self.clock.spent_s, self.budget_s)

    def progress(
        self, what: Message | str, spent_s: float, budget_s: float, ranking: Sequence[Message | str] = ()
    ) -> None:
        """Report the current step, the share of the budget that is spent, and the leaders so far."""
        done = min(1.0, spent_s / budget_s) if budget_s > 0 else 1.0
        left_s = max(0.0, budget_s - spent_s)
        leaders = tuple(self.words(leader) for leader in ranking)
        self.step(Step(what=self.words(what), done_ratio=done, left_s=left_s, ranking=leaders))
