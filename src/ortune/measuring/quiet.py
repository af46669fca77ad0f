"""Waits until other programs stop using the CPUs of the machine."""

from __future__ import annotations

from ortune import monotonic
from ortune.measuring.watcher import Watcher
from ortune.records import messages
from ortune.search.waiting import quiet_cpus
from ortune.targets.machine import Machine

LASTS_S = 5.0
"""Seconds without load after which a machine counts as quiet."""
EACH_S = 1.0
"""Seconds between two readings."""


def wait_for_quiet(machine: Machine, limit_s: float, watch: Watcher) -> list[messages.Message]:
    """Wait until other programs stop using the CPUs, without spending budget, and return the result.

    Args:
        machine: The machine that is measured.
        limit_s: Maximum wait in seconds; 0 not to wait.
        watch: Progress callbacks; a stop request ends the wait.

    Returns:
        A list with one message; empty without a wait.
    """
    if not limit_s:
        return []
    with watch.clock.stopped():
        seen = _wait(machine, limit_s, watch.with_budget(None))  # waiting spends no budget
    watch.tell(seen)
    return [seen]


def _wait(machine: Machine, limit_s: float, watch: Watcher) -> messages.Message:
    cpus, most = machine.host.effective_cpus, quiet_cpus(machine.host)
    began_s, quiet_s = monotonic.now_s(), 0.0
    while True:
        before = machine.sensors()
        machine.pause(EACH_S)
        used = machine.taken_cpus(before)
        waited_s = monotonic.now_s() - began_s
        if used is None:
            return messages.Remark(code="load-unknown")
        quiet_s = quiet_s + EACH_S if used <= most else 0.0
        if quiet_s >= LASTS_S:
            return messages.Quiet(state="quiet", seconds=waited_s, used_cpus=used, cpus=cpus)
        if waited_s >= limit_s or watch.stop():
            return messages.Quiet(state="busy", seconds=waited_s, used_cpus=used, cpus=cpus)
        watch.line(messages.Quiet(state="waiting", seconds=limit_s - waited_s, used_cpus=used, cpus=cpus))
