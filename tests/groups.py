"""A fake executor's groups: trials one by one on its own clock, as if they took turns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ortune.records import Outcome


class OneByOne(ABC):
    """Runs a group of arms."""

    most_alive = 8
    now = 0

    def __call__(self, arms: Sequence[str], stop: Callable[[], bool], /) -> tuple[Outcome, ...] | None:
        found = []
        for arm in arms:
            if stop():
                return None
            found.append(self.trial(arm))
        return tuple(found)

    @abstractmethod
    def trial(self, arm: str) -> Outcome:
        """One trial."""
