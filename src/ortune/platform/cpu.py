"""The CPU on Linux: model, cores, instruction sets, kinds of core, NUMA nodes."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ortune.platform.reading import cpu_list, read_int, read_text

FEATURES = frozenset({
    "avx2", "fma", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "asimddp", "i8mm", "bf16", "sve",
})  # fmt: skip
"""Instruction sets that affect ONNX Runtime's choice of CPU kernels, by their names in Linux."""

# Favoured-core boost makes equal cores differ by a few percent; different kinds of cores differ by more.
_MIXED_CLOCK_RATIO = 0.85

# On Arm, /proc/cpuinfo has only the implementer's and part's numbers instead of a model name.
_ARM_PARTS = {
    ("0x41", "0xd03"): "Arm Cortex-A53", ("0x41", "0xd05"): "Arm Cortex-A55",
    ("0x41", "0xd08"): "Arm Cortex-A72", ("0x41", "0xd0b"): "Arm Cortex-A76",
    ("0x41", "0xd0c"): "Arm Neoverse-N1", ("0x41", "0xd40"): "Arm Neoverse-V1",
    ("0x41", "0xd41"): "Arm Cortex-A78", ("0x41", "0xd49"): "Arm Neoverse-N2",
    ("0x41", "0xd4f"): "Arm Neoverse-V2",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Differences between the machine's CPUs, in addition to ``records.Host``.

    Attributes:
        performance_cpus: The fast CPUs if there are several kinds of cores, else empty.
        efficiency_cpus: The slower CPUs if there are several kinds of cores, else empty.
        numa_nodes: CPUs of each NUMA node with CPUs.
        governor: The clock governor ("performance", "powersave", ...), "" if unknown.
        note: Sentence about the kinds of cores; "" if they are all alike.
    """

    performance_cpus: tuple[int, ...] = ()
    efficiency_cpus: tuple[int, ...] = ()
    numa_nodes: tuple[tuple[int, ...], ...] = ()
    governor: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """The CPU according to ``/proc/cpuinfo`` and the topology files.

    Attributes:
        model: Model name.
        cores: Number of physical cores, at least 1.
        logical: Number of online hardware threads, at least 1.
        features: Instruction sets in ``FEATURES`` that every CPU supports, sorted.
    """

    model: str
    cores: int
    logical: int
    features: tuple[str, ...]


def processor(root: Path = Path("/")) -> Processor:
    """Return the machine's CPU, regardless of the part that this process may use."""
    blocks = _cpuinfo(root)
    online = _online(root, blocks)
    logical = max(1, len(online))
    return Processor(
        model=_model(blocks, root),
        cores=_cores(root, online, blocks) or logical,
        logical=logical,
        features=_features(blocks),
    )


def cpu_vendor() -> str:
    """Return the CPU vendor, such as "GenuineIntel"; "" if unknown."""
    named = [block["vendor_id"] for block in _cpuinfo(Path("/")) if "vendor_id" in block]
    return named[0] if named else platform.processor()


def topology(root: Path = Path("/")) -> Topology:
    """Return the kinds of cores, the NUMA nodes and the governor."""
    online = _online(root, _cpuinfo(root))
    system = root / "sys/devices/system/cpu"
    clocks = _per_cpu(online, system, "cpufreq/cpuinfo_max_freq")
    fast, slow = _kinds(root, online, clocks)
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda node: int(node.name[4:]))
    cpus_of_nodes = (cpu_list(read_text(node / "cpulist") or "") for node in nodes)
    note = (
        f"{len(fast)} fast and {len(slow)} slower CPUs: threads on both wait for the slower ones"
        if slow
        else ""
    )
    return Topology(
        performance_cpus=fast,
        efficiency_cpus=slow,
        numa_nodes=tuple(cpus for cpus in cpus_of_nodes if cpus),
        governor=governor(online, root),
        note=note,
    )


def governor(cpus: Iterable[int], root: Path = Path("/")) -> str:
    """Return the clock governor of the first CPU that has one; "" if there is none, as in virtual machines."""
    for cpu in cpus:
        text = read_text(root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor")
        if text:
            return text
    return ""


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """Return one mapping per ``processor`` block of cpuinfo; other lines (Arm's trailer) form a separate block."""
    blocks: list[dict[str, str]] = []
    for chunk in re.split(r"\n\s*\n", read_text(root / "proc/cpuinfo") or ""):
        pairs = (line.partition(":") for line in chunk.splitlines())
        block = {name.strip(): value.strip() for name, colon, value in pairs if colon}
        if block:
            blocks.append(block)
    return blocks


def _online(root: Path, blocks: list[dict[str, str]]) -> tuple[int, ...]:
    online = cpu_list(read_text(root / "sys/devices/system/cpu/online") or "")
    return online or tuple(int(b["processor"]) for b in blocks if b.get("processor", "").isdigit())


def _cores(root: Path, online: tuple[int, ...], blocks: list[dict[str, str]]) -> int:
    """Return the number of physical cores, counted as groups of sibling threads; 0 if unknown."""
    system = root / "sys/devices/system/cpu"
    siblings = {read_text(system / f"cpu{cpu}/topology/thread_siblings_list") for cpu in online} - {None}
    if siblings:
        return len(siblings)
    return len({(b.get("physical id"), b["core id"]) for b in blocks if "core id" in b})


def _model(blocks: list[dict[str, str]], root: Path) -> str:
    for name in ("model name", "Model", "cpu model", "cpu"):
        for block in blocks:
            if block.get(name):
                return re.sub(r"\s+", " ", block[name])
    for block in blocks:
        key = (block.get("CPU implementer", ""), block.get("CPU part", ""))
        if all(key):
            return _ARM_PARTS.get(key, f"Arm implementer {key[0]} part {key[1]}")
    board = read_text(root / "proc/device-tree/model")
    return board.rstrip("\0\ufffd") if board else "unknown"


def _features(blocks: list[dict[str, str]]) -> tuple[str, ...]:
    flags = [set((b.get("flags") or b.get("Features") or "").split()) for b in blocks if "processor" in b]
    common = set.intersection(*flags) if flags else set()
    return tuple(sorted(common & FEATURES))


def _per_cpu(online: tuple[int, ...], system: Path, name: str) -> dict[int, int]:
    values = {cpu: read_int(system / f"cpu{cpu}" / name) for cpu in online}
    return {cpu: value for cpu, value in values.items() if value}


def _kinds(
    root: Path, online: tuple[int, ...], clocks: dict[int, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the fast and the slower CPUs; both are empty if all are alike.

    Linux lists both kinds for Intel's hybrid processors, and a capacity of each CPU for Arm. Otherwise, the highest
    clock rate decides.
    """
    devices = root / "sys/devices"
    fast = cpu_list(read_text(devices / "cpu_core/cpus") or "")
    slow = cpu_list(read_text(devices / "cpu_atom/cpus") or "")
    if fast and slow:
        return fast, slow
    speeds = _per_cpu(online, devices / "system/cpu", "cpu_capacity")
    if len(set(speeds.values())) < 2:
        speeds = clocks
    limit = max(speeds.values(), default=0) * _MIXED_CLOCK_RATIO
    slow = tuple(cpu for cpu, speed in speeds.items() if speed < limit)
    return (tuple(cpu for cpu in speeds if cpu not in slow), slow) if slow else ((), ())


def cache_bytes(cpus: Iterable[int], root: Path = Path("/")) -> int | None:
    """Return the total last-level cache of these CPUs; None if unknown.

    A virtual machine shows what its host configured.
    """
    sizes: dict[tuple[int, str], int] = {}
    for cpu in cpus:
        for index in (root / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index[0-9]*"):
            level, size = read_int(index / "level"), _size_bytes(read_text(index / "size") or "")
            if level and size and read_text(index / "type") != "Instruction":
                # If it is unknown who shares an instance, each CPU has its own.
                shared = read_text(index / "shared_cpu_list") or str(cpu)
                sizes[level, shared] = size
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last) or None


def _size_bytes(text: str) -> int:
    """Return the bytes of a size such as ``32768K``; 0 if it is invalid."""
    number, unit = text[:-1], text[-1:]
    if text.isdigit():
        return int(text)
    return int(number) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(unit, 0) if number.isdigit() else 0
