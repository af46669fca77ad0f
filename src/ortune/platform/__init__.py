"""Operating system specifics: the machine, its sensors, control groups, and preloading.

On Linux, all values are read. On other systems psutil provides some values, and all others are None or empty, never
guessed.
"""

from __future__ import annotations

import sys

from ortune.platform.cpu import Topology, cpu_vendor
from ortune.platform.gpu import cuda_driver
from ortune.platform.group import GroupMemory, group_cpu_s, group_thread_cpu_s
from ortune.platform.preload import INSTALL_HINTS, allocator_library, allocators
from ortune.platform.remote_machine import remote_host, remote_sensors
from ortune.platform.sensors import SensorSnapshot, between

if sys.platform == "linux":
    from ortune.platform.linux import cache_bytes, host, memory_left_bytes, process_memory_bytes, topology
    from ortune.platform.sensors import read_sensors
else:
    from ortune.platform.other import (
        cache_bytes,
        host,
        memory_left_bytes,
        process_memory_bytes,
        read_sensors,
        topology,
    )

__all__ = [
    "INSTALL_HINTS",
    "GroupMemory",
    "SensorSnapshot",
    "Topology",
    "allocator_library",
    "allocators",
    "between",
    "cache_bytes",
    "cpu_vendor",
    "cuda_driver",
    "group_cpu_s",
    "group_thread_cpu_s",
    "host",
    "memory_left_bytes",
    "process_memory_bytes",
    "read_sensors",
    "remote_host",
    "remote_sensors",
    "topology",
]
