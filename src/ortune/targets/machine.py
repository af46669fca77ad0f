"""The machine on which trials run, or the container emulated on it; created once per session and passed on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from ortune import platform
from ortune.platform.pod import Pod
from ortune.records import Host, Outcome, PodSize

if TYPE_CHECKING:
    from ortune.targets.browser.remote import Remote
    from ortune.targets.browser.setup import BrowserSetup

UNKNOWN_ALIVE = 4  # concurrent processes of a block if their memory is unknown
MOST_ALIVE = 8  # concurrent processes of a block; more would only make its rounds longer
ALIVE_SHARE = 0.7  # fraction of the free memory for a block; a plan may need more than the default


def memory_bytes() -> int:
    """Return the total memory of this machine in bytes; 0 if unknown."""
    return platform.host().memory_bytes


class Machine:
    """The machine on which trials run.

    Args:
        pod: Size of the container that is emulated around each trial; None for no container.
        browser: The user's options for the browser.
        remote: A remote browser for the pages of trials; None starts a local browser for each trial.
        elsewhere: The machine of a remote interpreter; None for this machine. Its sensors and free memory are unknown.

    Attributes:
        host: The hardware of the machine.
        pod: The emulated container.
        trials: Replacement for ``runner.run`` in a simulation, with the same arguments except the machine; None for
            real trials.

    Raises:
        UsageError: The container cannot be emulated on this system.
    """

    def __init__(
        self,
        pod: PodSize | None = None,
        browser: BrowserSetup | None = None,
        remote: Remote | None = None,
        elsewhere: Host | None = None,
    ) -> None:
        self._browser = browser
        self.remote = remote
        self.elsewhere = elsewhere
        self.host = elsewhere or platform.host()
        self.pod = Pod(pod) if pod else None
        self.trials: Callable[..., tuple[Outcome, ...] | None] | None = None

    @cached_property
    def browser(self) -> BrowserSetup:
        """The user's options for the browser."""
        from ortune.targets.browser.setup import BrowserSetup

        return self._browser or BrowserSetup()

    @cached_property
    def trial_host(self) -> Host:
        """The machine as trials see it: a remote browser's device, or this machine limited to an emulated pod."""
        if self.remote is not None and self.remote.hello is not None:
            from ortune.targets.browser.remote import described  # imports an HTTP server

            return described(self.remote.hello)
        if self.pod is None:
            return self.host
        host, cpus = self.host, self.pod.size.cpus
        # A pod of 1.5 CPUs counts as 2.
        effective = host.effective_cpus if cpus is None else min(host.effective_cpus, max(1, math.ceil(cpus)))
        return msgspec.structs.replace(
            host,
            quota=host.quota if cpus is None else cpus,
            effective_cpus=effective,
            memory_limit_bytes=self.pod_bytes or host.memory_limit_bytes,
        )

    @property
    def pod_bytes(self) -> int | None:
        """Memory limit of the emulated pod, which runs one process; None without a pod or limit."""
        return self.pod.size.memory_bytes if self.pod else None

    @cached_property
    def topology(self) -> platform.Topology:
        """Kinds of cores, NUMA nodes and the frequency governor."""
        return platform.Topology() if self.elsewhere else platform.topology()

    @cached_property
    def cache_bytes(self) -> int | None:
        """Size of the last-level cache; None if unknown."""
        return None if self.elsewhere else platform.cache_bytes()

    @cached_property
    def allocators(self) -> dict[str, str]:
        """Allocators that can be preloaded, with the paths of their libraries."""
        return {} if self.elsewhere else platform.allocators()

    def sensors(self) -> platform.SensorSnapshot:
        """Return the current sensor readings; in an emulated pod, with the pod's throttling."""
        if self.elsewhere:
            return platform.SensorSnapshot()
        now = platform.read_sensors()
        throttling = self.pod.throttling() if self.pod else ()
        return replace(now, throttling=throttling) if throttling else now

    def pause(self, seconds: float) -> None:
        """Sleep for a number of seconds, during which ortune runs nothing."""
        time.sleep(seconds)

    def taken_cpus(self, since: platform.SensorSnapshot) -> float | None:
        """Return the number of CPUs that other programs took from trials since a snapshot; None if unknown."""
        used = platform.between(since, self.sensors())
        if used.others_cpu_us is None or not used.elapsed_ns:
            return None
        # Load on CPUs that trials may not use has no effect.
        spare = self.host.cores - self.host.effective_cpus
        return max(0.0, used.others_cpu_us * 1e3 / used.elapsed_ns - spare)

    def memory_left_bytes(self) -> int | None:
        """Return the bytes that can still be allocated; None if unknown."""
        return None if self.elsewhere else platform.memory_left_bytes()

    def most_alive(self, peak_bytes: int | None) -> int:
        """Return the number of processes with a given peak memory that may be alive at once."""
        if self.pod_bytes is not None:
            return 1
        if self.remote is not None:
            from ortune.targets.browser.remote import MOST_PAGES

            return MOST_PAGES
        left = self.memory_left_bytes()
        if left is None or not peak_bytes:
            return UNKNOWN_ALIVE
        return max(1, min(MOST_ALIVE, int(ALIVE_SHARE * left / peak_bytes)))

    def close(self) -> None:
        """Release the resources that outlive a trial: the emulated pod."""
        if self.pod:
            self.pod.close()


def over_memory(
    held_bytes: int, share: float, *, others_bytes: int = 0, limit_bytes: int | None = None
) -> str:
    """Return a message if a process exceeds its memory limits; "" if it does not.

    Args:
        held_bytes: Memory of the process in bytes.
        share: Fraction of the free memory that the process and the others in its group may use together.
        others_bytes: Memory of the others in the group in bytes.
        limit_bytes: Fixed limit of the process in bytes; None if there is none.
    """
    left = platform.memory_left_bytes()
    # A share of all memory available to the group, less the others' part. Example: 8 GiB are free, 2 are used here
    # and 1 by others, and the share is 0.85: 0.85 x 11 - 1 = 8.35 GiB.
    allowed = int(share * ((left or 0) + held_bytes + others_bytes)) - others_bytes
    if left is None:
        allowed = limit_bytes or 0
    elif limit_bytes is not None:
        allowed = min(allowed, limit_bytes)
    if not allowed or held_bytes <= allowed:
        return ""
    used = f"used {held_bytes / 2**30:.1f} of {allowed / 2**30:.1f} GiB allowed"
    return (
        f"{used} (--memory)"
        if allowed == limit_bytes
        else f"{used}; stopped before the system ran out of memory"
    )


def short_of_memory(needed_bytes: int, share: float) -> str:
    """Return a message if a step needs more than a fraction of the free memory; "" if it does not."""
    left = platform.memory_left_bytes()
    if left is None or needed_bytes <= share * left:
        return ""
    return f"needs about {needed_bytes / 2**30:.1f} GiB of memory; {left / 2**30:.1f} GiB are free"


def held_bytes(pid: int) -> int:
    """Return the current memory of a process in bytes; 0 if unknown."""
    return platform.process_memory_bytes(pid) or 0
