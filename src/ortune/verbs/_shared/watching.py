"""Progress and cancellation callbacks of a verb."""

from __future__ import annotations

from dataclasses import replace

from ortune.measuring.watcher import Watcher
from ortune.show import message_words


def with_words(watcher: Watcher | None) -> Watcher:
    """Return the callbacks of an invocation, for which messages of the core are put into words."""
    return replace(watcher or Watcher(), words=message_words.text)
