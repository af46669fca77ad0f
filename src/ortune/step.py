"""State of a command's progress, as shown in a progress bar."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.durations import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The current step of a command, and the used part of the budget.

    Attributes:
        what: Description, such as "calibrating, block 2 of nine".
        done_ratio: Used share of the budget; None without one.
        left_s: Seconds left of the budget; None without one.
        ranking: The current ranking, best first, one line each.
    """

    what: str
    done_ratio: float | None = None
    left_s: float | None = None
    ranking: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One line without the ranking: "34 %, 79 s left: calibrating, block 2 of nine"."""
        if self.done_ratio is None or self.left_s is None:
            return self.what
        return f"{100 * self.done_ratio:.0f} %, {in_words(self.left_s)} left: {self.what}"
