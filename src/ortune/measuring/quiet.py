"""Waiting for a machine whose CPUs other programs do not use."""

from __future__ import annotations

from ortune import monotonic
from ortune.measuring.watcher import Watcher
from ortune.search.waiting import quiet_cpus
from ortune.show import others_words
from ortune.targets.machine import Machine

LASTS_S = 5.0
"""A machine is quiet once it was for so long."""
EACH_S = 1.0
"""Between two looks."""


def waited_for_quiet(machine: Machine, limit_s: float, watch: Watcher) -> list[str]:
    """Wait until other programs leave the CPUs alone, which costs no budget, and return what was seen.

    Args:
        machine: The machine that is measured.
        limit_s: The longest wait; 0 is none.
        watch: Progress callbacks; a stop ends the wait.

    Returns:
        A sentence; none without a wait.
    """
    if not limit_s:
        return []
    with watch.clock.stopped():
        seen = _wait(machine, limit_s, watch.within(None))  # waiting spends none
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
