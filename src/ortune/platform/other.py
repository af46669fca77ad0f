"""A machine without /proc (macOS, Windows): the values of psutil; the rest is unknown."""

from __future__ import annotations

import ctypes
import os
import platform

import psutil

from ortune import monotonic
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
    """Return the processor's name, "" if unknown. macOS has it apart: to ``platform`` every Mac is an "arm"."""
    return brand() or platform.processor()


def brand() -> str:
    """Return what macOS calls the processor ("Apple M2"), "" on another system."""
    buffer = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(buffer))
    try:
        failed = ctypes.CDLL(None).sysctlbyname(
            b"machdep.cpu.brand_string", buffer, ctypes.byref(size), None, ctypes.c_size_t(0)
        )
    except (AttributeError, OSError, TypeError):  # no such function, or (Windows) no such library
        return ""
    return "" if failed else buffer.value.decode(errors="replace").strip()


def topology() -> Topology:
    """Return nothing, because kinds of core and memory nodes are unknown on this system."""
    return Topology()


def cache_bytes() -> int | None:
    """Return nothing, because caches are not read on this system."""
    return None


def read_sensors() -> Snapshot:
    """Load and swap; nothing else is known on this system."""
    return Snapshot(
        load1=psutil.getloadavg()[0], swap_bytes=psutil.swap_memory().used, at_ns=monotonic.now_ns()
    )


def memory_left_bytes() -> int | None:
    """Return memory that can be taken without swapping."""
    return int(psutil.virtual_memory().available)


def process_memory_bytes(pid: int) -> int | None:
    """Return resident memory of one process, or None when it is gone."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
