"""A machine without /proc (macOS, Windows), from psutil's values; all other values are unknown."""

from __future__ import annotations

import ctypes
import os
import platform

import psutil

from ortune import monotonic
from ortune.platform.cpu import Topology
from ortune.platform.sensors import SensorSnapshot
from ortune.platform.summary import make_host
from ortune.records import Host


def host() -> Host:
    """Return the description of this machine; quotas, instruction sets and GPUs are unknown on this system."""
    logical = psutil.cpu_count(logical=True) or os.cpu_count() or 1
    try:
        affinity = len(psutil.Process().cpu_affinity() or ()) or logical
    except AttributeError:
        # psutil has no such method on macOS, which has no affinity.
        affinity = logical
    return make_host(
        system=platform.system(),
        machine=platform.machine(),
        cpu=cpu_name() or "unknown",
        cores=psutil.cpu_count(logical=False) or logical,
        logical=logical,
        affinity=affinity,
        quota=None,
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=None,
        features=(),
        gpus=(),
    )


def cpu_name() -> str:
    """Return the CPU name, or "" if unknown; on macOS it is read separately, since ``platform`` only reports "arm"."""
    return brand() or platform.processor()


def brand() -> str:
    """Return the CPU name on macOS ("Apple M2"), or "" on other systems."""
    buffer = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(buffer))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(
            b"machdep.cpu.brand_string", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)
        )
    except (AttributeError, OSError, TypeError):  # no such function, or (Windows) library
        return ""
    return "" if failed else buffer.value.decode(errors="replace").strip()


def topology() -> Topology:
    """Return an empty topology, because kinds of cores and NUMA nodes are unknown on this system."""
    return Topology()


def cache_bytes() -> int | None:
    """Return None, because caches are unknown on this system."""
    return None


def read_sensors() -> SensorSnapshot:
    """Return load and swap; other sensors are unknown on this system."""
    return SensorSnapshot(
        load1=psutil.getloadavg()[0], swap_bytes=psutil.swap_memory().used, at_ns=monotonic.now_ns()
    )


def memory_left_bytes() -> int | None:
    """Return the memory available without swapping, in bytes."""
    return int(psutil.virtual_memory().available)


def process_memory_bytes(pid: int) -> int | None:
    """Return the resident memory of a process, or None if it has ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
