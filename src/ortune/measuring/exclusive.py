"""The lock of the machine, held by one measurement at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ortune.measuring.watcher import Watcher
from ortune.store import lock


@contextlib.contextmanager
def exclusive(what: str, watch: Watcher, *, wait: bool, budget_s: float | None = None) -> Iterator[None]:
    """The lock of the machine, for whatever would be another measurement's noise; waiting for it costs no budget."""
    line = watch.within(None).line  # no budget is spent by waiting
    machine_lock = lock.measuring(what, wait=wait, say=watch.say, line=line, budget_s=budget_s)
    with contextlib.ExitStack() as stack:
        with watch.clock.stopped():
            stack.enter_context(machine_lock)
        yield
