"""Waits until other programs stop using the CPUs of the machine."""

from __future__ import annotations

from ortune import monotonic
from ortune.measuring.watcher import Watcher
from ortune.search.waiting import quiet_cpus
from ortune.show import others_words
from ortune.targets.machine import Machine

LASTS_S = 5.0
"""Seconds without load after which a machine counts as quiet."""
EACH_S = 1.0
"""Seconds between two readings."""


def wait_for_quiet(machine: Machine, limit_s: float, watch: Watcher) -> list[str]:
    """Wait until other programs stop using the CPUs, without spending budget, and return the result.

    Args:
        machine: The machine that is measured.
        limit_s: Maximum wait in seconds; 0 for none.
        watch: Progress callbacks; a stop request ends the wait.

    Returns:
        A list with one sentence; empty without a wait.
    """
    if not limit_s:
        return []
    with watch.clock.stopped():
        seen = _wait(machine, limit_s, watch.with_budget(None))  # waiting spends no budget
    watch.say(seen)
    return [seen]


def _wait(machine: Machine, limit_s: float, watch: Watcher) -> str:
    cpus, most = machine.host.effective_cpus, quiet_cpus(machine.host)
    began_s, quiet_s = monotonic.now_s(), 0.0
    while True:
        before = machine.sensors()
        machine.pause(EACH_S)
        used = machine.taken_cpus(before)
        waited_s = monotonic.now_s() - began_s
        if used is None:
            return others_words.unknown_load()
        quiet_s = quiet_s + EACH_S if used <= most else 0.0
        if quiet_s >= LASTS_S:
            return others_words.quiet_after(waited_s, used, cpus)
        if waited_s >= limit_s or watch.stop():
            return others_words.never_quiet(waited_s, used, cpus)
        watch.line(others_words.waiting_for_quiet(used, cpus, limit_s - waited_s))
