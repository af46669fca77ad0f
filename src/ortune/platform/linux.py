"""The machine on Linux, from /proc, /sys and the control groups.

Every function takes the root of the file tree, so that trees of other machines can be read as well.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from ortune.platform import cgroup
from ortune.platform.cpu import Topology, processor
from ortune.platform.cpu import cache_bytes as cpu_cache_bytes
from ortune.platform.cpu import topology as cpu_topology
from ortune.platform.gpu import gpu_names
from ortune.platform.reading import read_text
from ortune.platform.summary import make_host
from ortune.records import Host


def host(root: Path = Path("/")) -> Host:
    """This machine, as this process may use it."""
    cpu = processor(root)
    groups = cgroup.find_groups(root)
    return make_host(
        system="Linux",
        machine=platform.machine(),
        cpu=cpu.model,
        cores=cpu.cores,
        logical=cpu.logical,
        affinity=len(os.sched_getaffinity(0)),
        quota=cgroup.cpu_quota(groups),
        memory_bytes=meminfo(root).get("MemTotal", 0),
        memory_limit_bytes=cgroup.memory_limit_bytes(groups),
        features=cpu.features,
        gpus=gpu_names(root),
    )


def topology(root: Path = Path("/")) -> Topology:
    """Return kinds of core, memory nodes and the governor of this machine."""
    return cpu_topology(root)


def cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the last-level cache of all CPUs that this process may run on; None if the system does not tell."""
    return cpu_cache_bytes(os.sched_getaffinity(0), root)


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """``/proc/meminfo`` in bytes; empty if unreadable."""
    text = read_text(root / "proc/meminfo") or ""
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """Bytes this process may still take before the kernel must reclaim or kill; None if not told.

    The least of what the machine has and what each control group above this process allows. Cheap enough to ask many
    times a second.
    """
    limits = (meminfo(root).get("MemAvailable"), cgroup.memory_left_bytes(cgroup.groups_once(root)))
    return min((left for left in limits if left is not None), default=None)


def process_memory_bytes(pid: int, root: Path = Path("/")) -> int | None:
    """Return resident memory of one process, or None when it is gone. Cheap enough to ask many times a second."""
    fields = (read_text(root / "proc" / str(pid) / "statm") or "").split()
    # The second field of statm: pages that are resident.
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None
