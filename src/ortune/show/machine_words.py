"""Short description of a machine for titles and lists: CPU model, number of CPUs, memory and GPUs."""

from __future__ import annotations

from ortune.records import Host
from ortune.show.numbers import memory


def origin(host: Host | None, builds: str) -> str:
    """Return the CPU and the builds of ONNX Runtime for the head of a page: "on AMD EPYC, 1.22.0"."""
    return ", ".join(filter(None, (f"on {host.cpu}" if host is not None and host.cpu else "", builds)))


def machine(host: Host | None) -> str:
    """Return the CPU model, the number of CPUs, the memory and the GPUs: "AMD EPYC, 2 CPUs, 24 GiB"."""
    if host is None:
        return "machine not recorded"
    n = f"{host.effective_cpus} CPU" + ("s" if host.effective_cpus != 1 else "")
    return ", ".join(
        [host.cpu or host.machine, n, memory(host.memory_limit_bytes or host.memory_bytes), *host.gpus]
    )
