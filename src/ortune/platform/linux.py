"""The machine on Linux, from /proc, /sys and the control groups.

Every function has the root of the file tree as an argument, to read trees of other machines too.
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
    """Return the description of this machine, limited to the part that this process may use."""
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
    """Return this machine's kinds of cores, NUMA nodes and governor."""
    return cpu_topology(root)


def cache_bytes(root: Path = Path("/")) -> int | None:
    """Return the total last-level cache of the CPUs that this process may use; None if unknown."""
    return cpu_cache_bytes(os.sched_getaffinity(0), root)


def meminfo(root: Path = Path("/")) -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes by name; empty if unreadable."""
    text = read_text(root / "proc/meminfo") or ""
    return {name: int(kib) * 1024 for name, kib in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}


def memory_left_bytes(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process may allocate before the kernel must reclaim or kill; None if unknown.

    This is the minimum over the machine and all control groups of this process. Cheap enough to call many times a
    second.
    """
    limits = (meminfo(root).get("MemAvailable"), cgroup.memory_left_bytes(cgroup.groups_once(root)))
    return min((left for left in limits if left is not None), default=None)


def process_memory_bytes(pid: int, root: Path = Path("/")) -> int | None:
    """Return the resident memory of a process, or None if it has ended. Cheap enough to call many times a second."""
    fields = (read_text(root / "proc" / str(pid) / "statm") or "").split()
    # The second field of statm is the number of resident pages.
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else None
