"""Another machine, described by files that an interpreter on it read from /proc and /sys."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ortune.platform.cpu import processor
from ortune.platform.linux import meminfo
from ortune.platform.sensors import CPUS_READ, SensorSnapshot, read_gauges
from ortune.platform.summary import make_host
from ortune.records import Host


@contextlib.contextmanager
def _laid_out(texts: Mapping[str, str]) -> Iterator[Path]:
    """Write the files of another machine into a temporary folder that represents its root."""
    with tempfile.TemporaryDirectory(prefix="ortune-") as name:
        root = Path(name)
        for place, text in texts.items():
            path = root / place
            # The other machine provides the paths, but must not choose where files are written.
            if ".." not in path.parts and path.is_relative_to(root):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        yield root


def remote_sensors(texts: Mapping[str, str]) -> SensorSnapshot:
    """Return the sensors of another machine; its quotas and ortune's own CPU time are unknown.

    Args:
        texts: Text of its files by path without the leading slash.
    """
    with _laid_out(texts) as root:
        # Pressure includes our own threads, and our share of the CPU time is unknown there.
        return replace(read_gauges(root, CPUS_READ), psi_cpu_some_us=None)


def remote_host(
    texts: Mapping[str, str], *, system: str, machine: str, affinity: int, memory_bytes: int
) -> Host:
    """Return the description of another machine; quotas and GPUs are unknown.

    Args:
        texts: Text of its files by path without the leading slash; empty if its system has none.
        system: System name according to its ``platform``.
        machine: Machine type according to its ``platform``.
        affinity: Number of CPUs that the interpreter may use.
        memory_bytes: Memory of the machine if no file has it; 0 if unknown.
    """
    with _laid_out(texts) as root:
        cpu, memory = processor(root), meminfo(root).get("MemTotal", memory_bytes)
    return make_host(
        system=system,
        machine=machine,
        cpu=cpu.model if cpu.model != "unknown" else machine,
        cores=cpu.cores if texts else affinity,
        logical=cpu.logical if texts else affinity,
        affinity=affinity,
        quota=None,
        memory_bytes=memory,
        memory_limit_bytes=None,
        features=cpu.features,
        gpus=(),
    )
