"""Linux control groups of version 1, version 2 or both: the limits of this process.

A limit applies wherever it is set between the process's own group and the root, so every query examines all visible
levels and uses the tightest limit. In a container the root is often the container's own group: limits set above it are
not visible, except those of memory, which version 1 reports.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ortune.platform.reading import read_fields, read_int, read_text

# Version 1 writes "no limit" as the largest page-aligned 63-bit number; real limits are far below this.
_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlGroup:
    """A control group that contains this process, for one controller."""

    version: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Control groups of this process, innermost first, by controller."""

    cpu: tuple[ControlGroup, ...]
    memory: tuple[ControlGroup, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttling:
    """CPU quota counters of one group since its creation."""

    group: str
    nr_periods: int
    nr_throttled: int
    throttled_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mount:
    version: int
    root: str
    point: str
    controllers: frozenset[str]


def find_groups(root: Path = Path("/")) -> Groups:
    """Return the groups of this process, from ``/proc/self/cgroup`` and ``/proc/self/mountinfo``."""
    paths = _memberships(read_text(root / "proc/self/cgroup") or "")
    mounts = _mounts(read_text(root / "proc/self/mountinfo") or "")
    return Groups(cpu=_levels("cpu", paths, mounts, root), memory=_levels("memory", paths, mounts, root))


@functools.lru_cache(maxsize=8)
def groups_once(root: Path = Path("/")) -> Groups:
    """Return the cached groups, since finding them reads the whole mount table and processes rarely change groups."""
    return find_groups(root)


def cpu_quota(groups: Groups) -> float | None:
    """Return the CPUs of the tightest quota (0.5 is half a CPU), or None without a quota."""
    quotas = [quota for level in groups.cpu if (quota := _quota(level)) is not None]
    return min(quotas, default=None)


def memory_limit_bytes(groups: Groups) -> int | None:
    """Return the tightest memory limit, or None without one."""
    limits = [limit for level in groups.memory if (limit := _memory_limit(level)) is not None]
    return min(limits, default=None)


def memory_left_bytes(groups: Groups) -> int | None:
    """Return the bytes left under the tightest limit, or None without a limit.

    Page cache that the kernel can drop (``inactive_file``) counts as free; otherwise a process that has read large
    files would seem to be out of memory.
    """
    left: list[int] = []
    for level in groups.memory:
        limit = _memory_limit(level)
        if limit is None:
            continue
        name = "memory.current" if level.version == 2 else "memory.usage_in_bytes"
        used = read_int(level.folder / name)
        if used is None:
            continue
        stat = read_fields(level.folder / "memory.stat")
        # Version 1 has both names; its usage includes child groups, as does only the one with total_.
        cache = stat.get("total_inactive_file", stat.get("inactive_file", 0))
        left.append(max(0, limit - max(0, used - cache)))
    return min(left, default=None)


def throttling(groups: Groups) -> tuple[Throttling, ...]:
    """Return the throttling counters of every level that has them, since any of them may have the effective quota."""
    counters: list[Throttling] = []
    for level in groups.cpu:
        stat = read_fields(level.folder / "cpu.stat")
        if "nr_throttled" not in stat:
            continue
        counters.append(
            Throttling(
                group=str(level.folder),
                nr_periods=stat.get("nr_periods", 0),
                nr_throttled=stat["nr_throttled"],
                # Version 2 counts microseconds, version 1 nanoseconds.
                throttled_us=stat.get("throttled_usec", stat.get("throttled_time", 0) // 1000),
            )
        )
    return tuple(counters)


def _quota(level: ControlGroup) -> float | None:
    if level.version == 2:
        # "200000 100000" is two CPUs; without a quota it is "max 100000".
        quota, _, period = (read_text(level.folder / "cpu.max") or "").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period) > 0:
            return int(quota) / int(period)
        return None
    quota_us = read_int(level.folder / "cpu.cfs_quota_us")
    period_us = read_int(level.folder / "cpu.cfs_period_us")
    # Version 1 writes no quota as -1.
    if quota_us is None or period_us is None or quota_us <= 0 or period_us <= 0:
        return None
    return quota_us / period_us


def _memory_limit(level: ControlGroup) -> int | None:
    if level.version == 2:
        # "max" is not a number, so no limit reads as None.
        return read_int(level.folder / "memory.max")
    # The hierarchical limit includes groups above a container's root, which cannot be opened from inside.
    stat = read_fields(level.folder / "memory.stat")
    limits = [read_int(level.folder / "memory.limit_in_bytes"), stat.get("hierarchical_memory_limit")]
    return min((limit for limit in limits if limit is not None and limit < _UNLIMITED_BYTES), default=None)


def _memberships(text: str) -> dict[str, str]:
    """Return the group path by controller; version 2's single hierarchy has the key ""."""
    paths: dict[str, str] = {}
    for line in text.splitlines():
        # Version 1: "4:cpu,cpuacct:/docker/abc"; version 2: "0::/user.slice".
        parts = line.split(":", 2)
        if len(parts) == 3:
            for controller in parts[1].split(","):
                paths[controller] = parts[2]
    return paths


def _mounts(text: str) -> list[_Mount]:
    mounts: list[_Mount] = []
    for line in text.splitlines():
        # Optional fields precede " - ", so both halves are read from their own ends.
        head, separator, tail = line.partition(" - ")
        fields, kinds = head.split(" "), tail.split(" ")
        if not separator or len(fields) < 5 or kinds[0] not in ("cgroup", "cgroup2"):
            continue
        mounts.append(
            _Mount(
                version=2 if kinds[0] == "cgroup2" else 1,
                root=_unescape(fields[3]),
                point=_unescape(fields[4]),
                # The file system options are the controllers of version 1: "rw,cpu,cpuacct".
                controllers=frozenset(kinds[-1].split(",")),
            )
        )
    return mounts


def _levels(
    controller: str, paths: dict[str, str], mounts: list[_Mount], root: Path
) -> tuple[ControlGroup, ...]:
    levels: list[ControlGroup] = []
    for mount in mounts:
        path = paths.get("" if mount.version == 2 else controller)
        if path is None or (mount.version == 1 and controller not in mount.controllers):
            continue
        top = root / mount.point.lstrip("/")
        folder = top / _inside(path, mount.root)
        while True:
            level = ControlGroup(version=mount.version, folder=folder)
            if folder.is_dir() and level not in levels:
                levels.append(level)
            if folder == top:
                break
            folder = folder.parent
    return tuple(levels)


def _inside(path: str, mount_root: str) -> str:
    """Return the group's path below the mount point, or "" if the group is elsewhere.

    A bind mount may show only part of the hierarchy, and a process outside its cgroup namespace has ``..`` in its path.
    The mount point is then the nearest known group.
    """
    pure = PurePosixPath(path)
    if ".." in pure.parts or not pure.is_relative_to(mount_root):
        return ""
    return str(pure.relative_to(mount_root))


def _unescape(field: str) -> str:
    """Decode the octal escapes of white space and backslashes in mountinfo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
