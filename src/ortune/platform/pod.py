"""Emulation of a pod: a CPU quota and a memory limit around each trial, as in a container."""

from __future__ import annotations

import contextlib
import math
import os
import time
from pathlib import Path

from ortune.errors import UsageError
from ortune.platform import cgroup
from ortune.records import PodSize

PERIOD_US = 100_000  # default of the kernel and of Kubernetes


class Pod:
    """Limits of CPU time and memory for the processes of trials, as of a container; ``how`` describes those in effect.

    If control groups cannot be created (no root, no delegation, not Linux), CPUs are limited by affinity, which allows
    only whole CPUs and never throttles, and memory by ortune's own watcher.

    Raises:
        UsageError: If CPUs are to be limited on a system without control groups and affinity (macOS, Windows).
    """

    def __init__(self, size: PodSize, root: Path = Path("/")) -> None:
        self.size = size
        self._folders: list[Path] = []
        self._cpu_folder: Path | None = None
        groups = cgroup.find_groups(root) if os.name == "posix" else cgroup.Groups(cpu=(), memory=())
        self.cpu_by = self._limit_cpu(groups) if size.cpus is not None else ""
        self.memory_by = self._limit_memory(groups) if size.memory_bytes is not None else ""

    @property
    def how(self) -> str:
        """Description of the limits: "4 CPUs by cgroup quota, 2048 MiB by cgroup"."""
        parts = []
        if self.size.cpus is not None:
            whole = math.ceil(self.size.cpus) if self.cpu_by == "affinity" else self.size.cpus
            parts.append(f"{whole:g} {'CPU' if whole == 1 else 'CPUs'} by {self.cpu_by}")
        if self.size.memory_bytes is not None:
            parts.append(f"{self.size.memory_bytes >> 20} MiB by {self.memory_by}")
        return ", ".join(parts)

    @property
    def affinity(self) -> str:
        """CPUs to bind a trial to, as "0,1"; "" if a quota limits them."""
        if self.cpu_by != "affinity" or self.size.cpus is None:
            return ""
        allowed = sorted(os.sched_getaffinity(0))
        return ",".join(map(str, allowed[: max(1, math.ceil(self.size.cpus))]))

    def enter(self, pid: int) -> None:
        """Move a process into the pod, before it has created threads."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def throttling(self) -> tuple[cgroup.Throttling, ...]:
        """Return the quota's counters so far; empty without a quota."""
        if self._cpu_folder is None:
            return ()
        level = cgroup.ControlGroup(version=_version(self._cpu_folder), folder=self._cpu_folder)
        return cgroup.throttling(cgroup.Groups(cpu=(level,), memory=()))

    def close(self) -> None:
        """Remove the groups, retrying for about a second while processes are still ending."""
        for folder in self._folders:
            for _ in range(50):
                try:
                    folder.rmdir()
                    break
                except OSError:
                    time.sleep(0.02)
        self._folders.clear()

    def _limit_cpu(self, groups: cgroup.Groups) -> str:
        quota = str(int((self.size.cpus or 0) * PERIOD_US))
        # Only below the own group: a child of an outer one would escape the limits in between.
        for level in groups.cpu[:1]:
            folder = _child(level.folder)
            if folder is None:
                continue
            try:
                if level.version == 2:
                    (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
                else:
                    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                    (folder / "cpu.cfs_quota_us").write_text(quota)
            except OSError:
                # Version 2: no such file if the parent has not delegated its controller, which a parent with
                # processes cannot do.
                _remove(folder)
                continue
            self._folders.append(folder)
            self._cpu_folder = folder
            return "cgroup quota"
        if not hasattr(os, "sched_getaffinity"):
            raise UsageError(
                "this system supports neither CPU quotas nor CPU affinity",
                where="--cpus",
                do="omit --cpus, or measure in a Linux container with a CPU limit",
            )
        return "affinity"

    def _limit_memory(self, groups: cgroup.Groups) -> str:
        for level in groups.memory[:1]:
            folder = _child(level.folder)
            if folder is None:
                continue
            name = "memory.max" if level.version == 2 else "memory.limit_in_bytes"
            try:
                (folder / name).write_text(str(self.size.memory_bytes))
            except OSError:
                if folder not in self._folders:
                    _remove(folder)
                continue
            if folder not in self._folders:
                self._folders.append(folder)
            return "cgroup"
        return "ortune's watcher"


def _child(parent: Path) -> Path | None:
    """Create a child of a group; both controllers of version 2 share the same one. Return None if that fails."""
    folder = parent / f"ortune-{os.getpid()}"
    try:
        folder.mkdir(exist_ok=True)
    except OSError:
        return None
    return folder


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _version(folder: Path) -> int:
    return 2 if (folder / "cgroup.controllers").exists() else 1
