"""Memory that this process holds, told apart by whose it is, as Linux reports it; other systems report nothing."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Callable, Dict, List, Optional


def resident_bytes(field: str, pid: str = "self") -> Optional[int]:
    """VmRSS, VmHWM or RssAnon of a process; not ru_maxrss, which Linux inherits from the parent on fork."""
    for line in _lines("/proc/%s/status" % pid):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return None


def idle() -> Optional[Dict[str, Optional[int]]]:
    """Return what is held between runs: by this process, by its children and by its control group.

    Pages of files are the system's cache: libraries and mapped weights in the process, all files read in the group.
    """
    gc.collect()
    held = resident_bytes("VmRSS")
    if held is None:
        return None
    group, cache = _group()
    return {
        "idle_bytes": held, "idle_anonymous_bytes": resident_bytes("RssAnon"), "children_bytes": _children_bytes(),
        "group_bytes": group, "group_cache_bytes": cache,
    }  # fmt: skip


def released(release: Callable[[], None]) -> Dict[str, Optional[int]]:
    """Release what ran, and return what stays, before and after the allocator returned its free pages."""
    release()
    gc.collect()
    held = resident_bytes("VmRSS")
    return {"released_bytes": held, "trimmed_bytes": resident_bytes("VmRSS") if _trim() else None}


def _trim() -> bool:
    """Return free pages of the C library's allocator to the system; False if it has no way to do so."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return False
    return True


def _children_bytes() -> int:
    """Resident memory of all processes that this one started, and of theirs."""
    total, waiting = 0, [str(os.getpid())]
    while waiting:
        pid = waiting.pop()
        try:
            tasks = os.listdir("/proc/%s/task" % pid)
        except OSError:
            continue
        for task in tasks:
            for line in _lines("/proc/%s/task/%s/children" % (pid, task)):
                for child in line.split():
                    total += resident_bytes("VmRSS", child) or 0
                    waiting.append(child)
    return total


def _group() -> List[Optional[int]]:
    """Return the memory of the innermost control group, and the part of it that is cache of files."""
    for line in _lines("/proc/self/cgroup"):
        _, names, path = line.rstrip("\n").split(":", 2)
        if names == "":
            folder, usage, cache = "/sys/fs/cgroup" + path, "memory.current", "file "
        elif "memory" in names.split(","):
            folder, usage, cache = "/sys/fs/cgroup/memory" + path, "memory.usage_in_bytes", "total_cache "
        else:
            continue
        current = _lines(os.path.join(folder, usage))
        if current and current[0].strip().isdigit():
            rows = _lines(os.path.join(folder, "memory.stat"))
            files = next((int(row.split()[1]) for row in rows if row.startswith(cache)), None)
            return [int(current[0]), files]
    return [None, None]


def _lines(path: str) -> List[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readlines()
    except OSError:
        return []
