"""Creation of the ``Host`` record from values that were read on any system."""

from __future__ import annotations

import hashlib
import json
import math

from ortune.records import Host

_GIB = 1 << 30


def make_host(
    *,
    system: str,
    machine: str,
    cpu: str,
    cores: int,
    logical: int,
    affinity: int,
    quota: float | None,
    memory_bytes: int,
    memory_limit_bytes: int | None,
    features: tuple[str, ...],
    gpus: tuple[str, ...],
) -> Host:
    """Return a ``Host`` from the values read, with the usable CPUs and the fingerprint."""
    # A limit above the machine's memory has no effect.
    if memory_limit_bytes is not None and 0 < memory_bytes <= memory_limit_bytes:
        memory_limit_bytes = None
    # Cores instead of hardware threads, as in ONNX Runtime's default; a quota of half a CPU still runs one thread.
    usable = min(cores, affinity) if quota is None else min(cores, affinity, math.ceil(quota))
    fingerprint = _fingerprint(
        machine=machine,
        cpu=cpu,
        cores=cores,
        affinity=affinity,
        quota=None if quota is None else round(quota, 2),
        # Kernels reserve varying amounts at each start; whole gibibytes do not change.
        memory_gib=round(memory_bytes / _GIB),
        features=sorted(features),
        gpus=sorted(gpus),
    )
    return Host(
        system=system,
        machine=machine,
        cpu=cpu,
        cores=cores,
        logical=logical,
        affinity=affinity,
        quota=quota,
        effective_cpus=max(1, usable),
        memory_bytes=memory_bytes,
        memory_limit_bytes=memory_limit_bytes,
        features=features,
        gpus=gpus,
        fingerprint=fingerprint,
    )


def _fingerprint(**facts: object) -> str:
    """Return the fingerprint; results of machines with the same fingerprint may be compared."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
