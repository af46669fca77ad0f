"""Another machine, from what an interpreter on it read of its /proc and /sys."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from ortune.platform.cpu import processor
from ortune.platform.linux import meminfo
from ortune.platform.sensors import CPUS_READ, Snapshot, read_gauges
from ortune.platform.summary import make_host
from ortune.records import Host


@contextlib.contextmanager
def _laid_out(texts: Mapping[str, str]) -> Iterator[Path]:
    """Write the files of another machine into a folder of their own, as they lie there below its root."""
    with tempfile.TemporaryDirectory(prefix="ortune-") as name:
        root = Path(name)
        for place, text in texts.items():
            path = root / place
            # The names come from the other machine, which does not choose what is written here.
            if ".." not in path.parts and path.is_relative_to(root):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        yield root


def sensors_elsewhere(texts: Mapping[str, str]) -> Snapshot:
    """Return the sensors of another machine; its quotas, and what of its CPU time is ours, are not known.

    Args:
        texts: Files that were read there, by their paths without the first slash.
    """
    with _laid_out(texts) as root:
        # Waits count our own threads too, and what of the CPU time is ours is not known there.
        return replace(read_gauges(root, CPUS_READ), psi_cpu_some_us=None)


def host_elsewhere(
    texts: Mapping[str, str], *, system: str, machine: str, affinity: int, memory_bytes: int
) -> Host:
    """Return the machine; quotas and GPUs are not known.

    Args:
        texts: Files that were read there, by their paths without the first slash; of a system without them none.
        system: As ``platform`` calls it there.
        machine: The same of the kind of processor.
        affinity: CPUs that the interpreter may run on.
        memory_bytes: Of the machine, where no text has it; 0 if that is not known.
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
