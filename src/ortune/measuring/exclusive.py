"""The machine's lock, which allows one measurement at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ortune import assigned_host
from ortune.errors import Stopped
from ortune.measuring.watcher import Watcher
from ortune.store import lock


@contextlib.contextmanager
def exclusive(what: str, watch: Watcher, *, wait: bool, budget_s: float | None = None) -> Iterator[None]:
    """Hold the machine's lock for work that would disturb another measurement; waiting for it uses no budget."""
    line = watch.with_budget(None).line  # no budget is spent by waiting

    def waiting(text: str) -> None:
        """Show the progress line, and raise if a stop was requested, since Python may have dropped that exception."""
        line(text)
        if watch.stop():
            raise Stopped("stopped before anything was measured; no verdict")
        watch.begin()

    host = assigned_host.assigned.get()
    machine_lock = (
        lock.measuring(what, wait=wait, say=watch.say, line=waiting, budget_s=budget_s)
        if host is None
        else _of_host(host, what, wait=wait, say=watch.say, line=waiting, budget_s=budget_s)
    )
    with contextlib.ExitStack() as stack:
        with watch.clock.stopped():
            stack.enter_context(machine_lock)
        yield


@contextlib.contextmanager
def _of_host(
    host: assigned_host.AssignedHost,
    what: str,
    *,
    wait: bool,
    say: Callable[[str], None],
    line: Callable[[str], None],
    budget_s: float | None,
) -> Iterator[None]:
    """Hold the lock of a cluster host."""
    lock.wait_for(lambda: host.locked(what, budget_s), wait=wait, say=say, line=line, where=host.python)
    with host.holding():
        yield
