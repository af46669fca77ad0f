"""Memory of this process by owner, as Linux reports it; other systems report nothing."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Callable, Dict, List, Optional, Tuple


def resident_bytes(field: str, pid: str = "self") -> Optional[int]:
    """Return VmRSS, VmHWM or RssAnon in bytes; not ru_maxrss, which Linux inherits from the parent on fork."""
    for line in _lines("/proc/%s/status" % pid):
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return None


def idle() -> Optional[Dict[str, Optional[int]]]:
    """Return the memory between runs of this process, its children and its control group; None if unknown.

    File-backed pages are the system's cache: libraries and mapped weights in the process, all files read in the group.
    """
    gc.collect()
    held = resident_bytes("VmRSS")
    if held is None:
        return None
    whole, cache = group()
    return {
        "idle_bytes": held, "idle_anonymous_bytes": resident_bytes("RssAnon"),
        "children_bytes": sum(resident_bytes("VmRSS", child) or 0 for child in children()),
        "group_bytes": whole, "group_cache_bytes": cache,
    }  # fmt: skip


def released(release: Callable[[], None]) -> Dict[str, Optional[int]]:
    """Release the sessions, and return the remaining memory before and after the allocator returned its free pages."""
    release()
    gc.collect()
    held = resident_bytes("VmRSS")
    return {"released_bytes": held, "trimmed_bytes": resident_bytes("VmRSS") if trim() else None}


def trim() -> bool:
    """Return free pages of the C allocator to the system; return False if that is not supported."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return False
    return True


def children() -> List[str]:
    """Return the ids of all descendants of this process."""
    found: List[str] = []
    waiting = [str(os.getpid())]
    while waiting:
        pid = waiting.pop()
        try:
            tasks = os.listdir("/proc/%s/task" % pid)
        except OSError:
            continue
        for task in tasks:
            for line in _lines("/proc/%s/task/%s/children" % (pid, task)):
                found += line.split()
                waiting += line.split()
    return found


def own_bytes(pid: str = "self") -> Optional[int]:
    """Return a process's memory that is not file-backed, in RAM or swap, in bytes; None if unknown."""
    return _sum_of("/proc/%s/status" % pid, ("RssAnon:", "RssShmem:", "VmSwap:"))


def shared_out_bytes(pid: str = "self") -> Optional[int]:
    """Return the memory of ``own_bytes``, with each page divided among the processes that share it."""
    path = "/proc/%s/smaps_rollup" % pid
    parts = _sum_of(path, ("Pss_Anon:", "Pss_Shmem:", "SwapPss:"))
    return own_bytes(pid) if parts is None else parts


def _sum_of(path: str, names: Tuple[str, ...]) -> Optional[int]:
    found = [int(line.split()[1]) * 1024 for line in _lines(path) if line.startswith(names)]
    return sum(found) if found else None


class _Mallinfo(ctypes.Structure):
    """Result of ``mallinfo2`` of the GNU C library."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


def used_bytes() -> Optional[int]:
    """Return the bytes in use by the C library's allocator, in all threads; None if unknown."""
    try:
        count = ctypes.CDLL(None).mallinfo2
    except (OSError, AttributeError, TypeError):
        return None
    count.restype = _Mallinfo
    seen = count()
    return int(seen.uordblks + seen.hblkhd)


def group() -> List[Optional[int]]:
    """Return the memory of the innermost control group and its part in the file cache, in bytes; None if unknown."""
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
