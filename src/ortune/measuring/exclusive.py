"""The lock of the machine, held by one measurement at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ortune.errors import Stopped
from ortune.measuring.watcher import Watcher
from ortune.store import lock


@contextlib.contextmanager
def exclusive(what: str, watch: Watcher, *, wait: bool, budget_s: float | None = None) -> Iterator[None]:
    """The lock of the machine, for whatever would be another measurement's noise; waiting for it costs no budget."""
    line = watch.within(None).line  # no budget is spent by waiting

    def waiting(text: str) -> None:
        """Show the progress line, and end if a stop was requested: Python may have dropped its exception."""
        line(text)
        if watch.stop():
            raise Stopped("stopped before anything was measured; no verdict")
        watch.begin()

    machine_lock = lock.measuring(what, wait=wait, say=watch.say, line=waiting, budget_s=budget_s)
    with contextlib.ExitStack() as stack:
        with watch.clock.stopped():
            stack.enter_context(machine_lock)
        yield
