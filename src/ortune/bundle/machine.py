"""Facts about the machine that decide how a bundle is loaded: its CPUs, and whether it is the tuned machine.

Standard library only, Python 3.8: ``ortune.load`` uses this module, and its source is part of every ``load.py``.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
from pathlib import Path
from typing import Any

_ROOT = Path("/")
PACKAGES = {
    "mimalloc": "libmimalloc-dev",
    "jemalloc": "libjemalloc-dev",
    "tcmalloc": "libgoogle-perftools-dev",
}
"""Debian packages of the allocators, with names that stay the same in all releases."""

OTHER_TYPES = "other number types are computed, so outputs and speed differ from what was measured"


def cpus(root: Path = _ROOT) -> int:
    """Return the CPUs for this process: the minimum of physical cores, affinity and cgroup quota, at least 1."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        allowed = os.cpu_count() or 1
    quotas = _quotas(root)
    limits = [allowed, _cores(root) or allowed, *(math.ceil(quota) for quota in quotas)]
    return max(1, min(limits))


def threads(measured: int, tuned_cpus: int, root: Path = _ROOT) -> int:
    """Return the measured thread count, but at most one per CPU if there are fewer CPUs than on the tuned machine.

    Args:
        measured: Threads of the plan; may exceed the number of CPUs if that was fastest.
        tuned_cpus: ``cpus`` on the tuned machine.
        root: Root of the file tree.
    """
    here = cpus(root)
    return min(measured, here) if here < tuned_cpus else measured


def forbid_huge_pages() -> str:
    """Disable transparent huge pages for later allocations of this process; return "" on success, else a warning."""
    try:
        failed = ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # PR_SET_THP_DISABLE
    except (AttributeError, OSError, TypeError):  # no such function or, on Windows, no such library
        failed = True
    return "cannot set transparent_huge_pages=never on this system" if failed else ""


def cpu_name(root: Path = _ROOT) -> str:
    """Return the processor's name; "" if the system does not report one (Linux on Arm)."""
    if platform.system() != "Linux":
        return brand() or platform.processor()
    match = re.search(r"^(?:model name|Model|cpu model|cpu)\s*:\s*(\S.*)$", _cpuinfo(root), re.MULTILINE)
    return re.sub(r"\s+", " ", match.group(1)).strip() if match else ""


def brand() -> str:
    """Return the processor's name on macOS ("Apple M2"), where Python only reports "arm"; "" on other systems."""
    buffer = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(buffer))
    name = b"machdep.cpu.brand_string"
    try:
        failed = ctypes.CDLL(None).sysctlbyname(name, buffer, ctypes.byref(size), None, ctypes.c_size_t(0))
    except (AttributeError, OSError, TypeError):  # no such function or, on Windows, no such library
        return ""
    return "" if failed else buffer.value.decode(errors="replace").strip()


def other_hardware(tuned_on: dict[str, Any], root: Path = _ROOT) -> str:
    """Return a clause on how this CPU differs from the CPU of the tuning; "" if they match.

    Args:
        tuned_on: "machine", "cpu" and "features" as in ``ortune.json``; empty matches any machine.
        root: Root of the file tree.
    """
    if not tuned_on:
        return ""
    if platform.machine() != tuned_on["machine"]:
        return f"{platform.machine()} here, tuned on {tuned_on['machine']}"
    name, tuned_name = cpu_name(root), tuned_on["cpu"]
    if name and name != tuned_name:
        return f"{name} here, tuned on {tuned_name}"
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", _cpuinfo(root), re.MULTILINE)
    missing = [f for f in tuned_on["features"] if match and f not in match.group(1).split()]
    return f"no {', '.join(missing)} here" if missing else ""


def without_instructions(needed: dict[str, Any], root: Path = _ROOT) -> str:
    """Return the settings with number types that this CPU lacks, as text; "" if there are none or the CPU is unknown.

    Args:
        needed: Instruction sets by setting; the processor needs at least one of them.
        root: Root of the file tree.
    """
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", _cpuinfo(root), re.MULTILINE)
    here = match.group(1).split() if match else []
    lacking = [
        f"{setting} needs {' or '.join(sets)}"
        for setting, sets in needed.items()
        if match and not any(name in here for name in sets)
    ]
    return ", ".join(lacking)


def other_build(tuned_with: str, version: str) -> str:
    """Return a clause on both ONNX Runtime versions if the model was optimised for a different one; "" otherwise."""
    return (
        f"onnxruntime {version} here, tuned with {tuned_with}" if version != (tuned_with or version) else ""
    )


def without_allocator(names: list[str], preload: str, root: Path = _ROOT) -> str:
    """Return a clause on the allocators that this process has not loaded, with install commands; "" if all are loaded.

    Args:
        names: Values of the setting ``allocator``.
        preload: The text of LD_PRELOAD, used if the system does not show which libraries are loaded.
        root: Root of the file tree.
    """
    # LD_PRELOAD ignores a library that is missing or for another processor; the memory map lists what is loaded.
    loaded = _text(root / "proc/self/maps") or preload
    missing = [name for name in names if f"lib{name}" not in loaded]
    packages = ", ".join(f"{name} (Debian: apt install {PACKAGES.get(name, name)})" for name in missing)
    return f"allocator not loaded: {packages}" if missing else ""


def allocator_library(name: str, root: Path = _ROOT) -> str:
    """Return the path of a memory allocator's shared library in the usual folders; "" if it is not installed."""
    own = f"usr/lib/{platform.machine()}-*"
    for stem in ("lib" + name + "_minimal", "lib" + name):
        for folder in (own, "usr/lib64", "usr/local/lib*", "usr/lib", "lib*", "opt/homebrew/lib"):
            for ending in (".so", ".so.[0-9]*", ".dylib"):
                paths = sorted((str(path) for path in root.glob(f"{folder}/{stem}{ending}")), key=len)
                if paths:
                    return paths[0]
    return ""


def is_preloaded(library: str, preload: str) -> bool:
    """Return whether LD_PRELOAD lists a library, under any of its file names."""
    paths = [path for path in re.split("[ :]", preload) if path]
    return os.path.realpath(library) in [os.path.realpath(path) for path in paths if os.sep in path]


def _cpuinfo(root: Path) -> str:
    return _text(root / "proc/cpuinfo")


def _cores(root: Path) -> int:
    """Return the number of physical cores (distinct groups of sibling threads); 0 if unknown."""
    paths = root.glob("sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
    siblings = {_text(path).strip() for path in paths} - {""}
    if siblings:
        return len(siblings)
    blocks = [dict(re.findall(r"^([^:\n]*\S)\s*:\s*(.*)$", b, re.M)) for b in _cpuinfo(root).split("\n\n")]
    return len({(b.get("physical id"), b["core id"]) for b in blocks if "core id" in b})


def _quotas(root: Path) -> list[float]:
    """Return the CPU quotas of this process's cgroup and its parents (v1 and v2), in CPUs."""
    groups = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            groups.update(dict.fromkeys(parts[1].split(","), parts[2]))
    quotas = []
    for line in _text(root / "proc/self/mountinfo").splitlines():
        head, _, tail = line.partition(" - ")
        fields, kinds = head.split(" "), tail.split(" ")
        if len(fields) < 5 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        modern = kinds[0] == "cgroup2"
        group = groups.get("" if modern else "cpu")
        if group is None or not (modern or "cpu" in kinds[-1].split(",")):
            continue
        top = root / _plain_path(fields[4]).strip("/")
        shown = _plain_path(fields[3]).rstrip("/")
        # A bind mount may show only a part of the hierarchy, and ".." is outside the namespace.
        below = group[len(shown) :] if (group + "/").startswith(shown + "/") and ".." not in group else ""
        folder = top / below.strip("/")
        quotas.append(_quota(folder, modern))
        while folder != top:
            folder = folder.parent
            quotas.append(_quota(folder, modern))
    return [quota for quota in quotas if quota]


def _quota(folder: Path, modern: bool) -> float | None:
    if modern:
        pair = _text(folder / "cpu.max").split()
    else:
        pair = [_text(folder / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
    if len(pair) == 2 and all(part.isdigit() and int(part) > 0 for part in pair):
        return int(pair[0]) / int(pair[1])
    return None


def _plain_path(field: str) -> str:
    """Decode white space, which mountinfo writes as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), field)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def without_providers(wanted: list[Any], actual: list[str]) -> str:
    """Return a clause on an execution provider that a silent fallback removed from the session; "" if there is none."""
    names = [entry if isinstance(entry, str) else entry[0] for entry in wanted]
    missing = [name for name in names if name not in actual]
    return f"{missing[0]} is not available here" if missing else ""
