"""The machine where there is no /proc (macOS, Windows): what psutil tells; the rest is not known."""

from __future__ import annotations

import os
import platform

import psutil

from ortune.platform.cpu import Topology
from ortune.platform.sensors import Snapshot
from ortune.platform.summary import make_host
from ortune.records import Host


def host() -> Host:
    """This machine. Quotas, instruction sets and GPUs are not read on this system."""
    logical = psutil.cpu_count(logical=True) or os.cpu_count() or 1
    try:
        affinity = len(psutil.Process().cpu_affinity() or ()) or logical
    except AttributeError:
        # macOS has no affinity at all, so psutil has no such method there.
        affinity = logical
    return make_host(
        system=platform.system(),
        machine=platform.machine(),
        cpu=platform.processor() or "unknown",
        cores=psutil.cpu_count(logical=False) or logical,
        logical=logical,
        affinity=affinity,
        quota=None,
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=None,
        features=(),
        gpus=(),
    )


def topology() -> Topology:
    """Nothing is known of kinds of core or memory nodes on this system."""
    return Topology()


def read_sensors() -> Snapshot:
    """Load and swap; nothing else is told on this system."""
    return Snapshot(load1=psutil.getloadavg()[0], swap_bytes=psutil.swap_memory().used)


def memory_left_bytes() -> int | None:
    """Memory that can be taken without swapping."""
    return int(psutil.virtual_memory().available)


def process_memory_bytes(pid: int) -> int | None:
    """Resident memory of one process, or None when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
