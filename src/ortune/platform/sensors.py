"""What is read around one trial: load, pressure, steal, throttling, clocks, swap.

Sensors explain a slow trial; they never drop one. A reading costs some milliseconds, between groups of trials, where it
does not disturb what it is there to explain. What a system does not tell is None.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from ortune import monotonic
from ortune.platform import cgroup
from ortune.platform.cpu import governor
from ortune.platform.group import own_cpu_s
from ortune.platform.reading import read_int, read_text
from ortune.records import Sensors

# Each clock or throttle file costs a kernel call to one CPU; a few stand for the rest.
CPUS_READ = tuple(range(4))
_ZONES_READ = 16
_CPUINFO_HEAD_BYTES = 8192
_WORK = (0, 1, 2, 5, 6)
"""Columns of ``/proc/stat``: user, nice, system and interrupts; not idle, not waiting for disks."""
_STEAL = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The counters and gauges of one moment; ``between`` makes the difference of two.

    Attributes:
        load1: Runnable and waiting tasks, averaged over a minute.
        psi_cpu_some_us: Time in which some task waited for a CPU, since boot, microseconds.
        busy_us: CPU time that all programs together have taken since boot, microseconds, in clock ticks.
        own_us: What of it this process and its descendants have taken, since they began; None if that is not told.
        steal_ticks: Time the hypervisor gave to others, since boot, clock ticks.
        throttling: Quota counters of each control group above this process.
        cpu_mhz: Mean clock of a few of the CPUs this process may use.
        governor: Clock governor, "" if there is none to see.
        swap_bytes: Swap in use on the machine.
        thermal_throttles: Times that heat lowered the clock, since boot.
        temperature_c: The hottest zone, in degrees Celsius.
        at_ns: When it was read, on the monotonic clock; None of one that was not.
    """

    load1: float | None = None
    psi_cpu_some_us: int | None = None
    busy_us: int | None = None
    own_us: int | None = field(default=None, compare=False)
    steal_ticks: int | None = None
    throttling: tuple[cgroup.Throttling, ...] = ()
    cpu_mhz: float | None = None
    governor: str = ""
    swap_bytes: int | None = None
    thermal_throttles: int | None = None
    temperature_c: float | None = None
    at_ns: int | None = field(default=None, compare=False)


def read_sensors(root: Path = Path("/")) -> Snapshot:
    """Return the current readings of this Linux."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))[: len(CPUS_READ)]
    return replace(
        read_gauges(root, cpus),
        own_us=round(own_cpu_s() * 1e6),
        throttling=cgroup.throttling(cgroup.groups_once(root)),
    )


def read_gauges(root: Path, cpus: tuple[int, ...]) -> Snapshot:
    """Return the readings that need no process of that machine: load, pressure, steal, clocks, swap, heat.

    Args:
        root: The root of its files.
        cpus: The CPUs whose clocks stand for the rest.
    """
    ticks = _cpu_ticks(root)
    return Snapshot(
        load1=_load1(root),
        psi_cpu_some_us=_psi_cpu_some_us(root),
        busy_us=round(sum(ticks[at] for at in _WORK) * 1e6 / os.sysconf("SC_CLK_TCK")) if ticks else None,
        steal_ticks=ticks[_STEAL] if ticks else None,
        cpu_mhz=_cpu_mhz(root, cpus),
        governor=governor(cpus, root),
        swap_bytes=_swap_bytes(root),
        thermal_throttles=_thermal_throttles(root, cpus),
        temperature_c=_temperature_c(root),
        at_ns=monotonic.now_ns(),
    )


def between(
    before: Snapshot,
    after: Snapshot,
    *,
    involuntary_switches: int | None = None,
    cpu_over_wall: float | None = None,
) -> Sensors:
    """Return what happened from one snapshot to the next.

    Counters are differences; load, clock and swap are as they stand at the end.

    Args:
        before: Read before the trial.
        after: Read after it, by the same process.
        involuntary_switches: The trial's own count, where the caller has it.
        cpu_over_wall: The trial's CPU seconds over its wall seconds, where the caller has them.
    """
    throttled = _most_throttled(before.throttling, after.throttling)
    return Sensors(
        load1=after.load1,
        psi_cpu_some_us=_difference(before.psi_cpu_some_us, after.psi_cpu_some_us),
        others_cpu_us=_others(before, after),
        steal_ticks=_difference(before.steal_ticks, after.steal_ticks),
        involuntary_switches=involuntary_switches,
        nr_throttled=throttled.nr_throttled if throttled else None,
        nr_periods=throttled.nr_periods if throttled else None,
        throttled_us=throttled.throttled_us if throttled else None,
        cpu_mhz=after.cpu_mhz,
        swap_bytes=after.swap_bytes,
        thermal_throttles=_difference(before.thermal_throttles, after.thermal_throttles),
        temperature_c=after.temperature_c,
        cpu_over_wall=cpu_over_wall,
        elapsed_ns=_difference(before.at_ns, after.at_ns),
    )


def _difference(before: int | None, after: int | None) -> int | None:
    """Return a counter that went backwards was reset (a CPU came back, a group was made anew): not known."""
    if before is None or after is None or after < before:
        return None
    return after - before


def _most_throttled(
    before: tuple[cgroup.Throttling, ...], after: tuple[cgroup.Throttling, ...]
) -> cgroup.Throttling | None:
    """Return the group that lost most time to its quota: adding up nested groups would count one stop twice."""
    earlier = {level.group: level for level in before}
    deltas = [
        cgroup.Throttling(
            group=late.group,
            nr_periods=late.nr_periods - early.nr_periods,
            nr_throttled=late.nr_throttled - early.nr_throttled,
            throttled_us=late.throttled_us - early.throttled_us,
        )
        for late in after
        if (early := earlier.get(late.group)) is not None and late.nr_periods >= early.nr_periods
    ]
    return max(deltas, key=lambda level: (level.throttled_us, level.nr_periods), default=None)


def _load1(root: Path) -> float | None:
    match = re.match(r"\d+\.\d+", read_text(root / "proc/loadavg") or "")
    return float(match[0]) if match else None


def _psi_cpu_some_us(root: Path) -> int | None:
    match = re.search(r"^some .*total=(\d+)", read_text(root / "proc/pressure/cpu") or "", re.MULTILINE)
    return int(match[1]) if match else None


def _others(before: Snapshot, after: Snapshot) -> int | None:
    busy, own = _difference(before.busy_us, after.busy_us), _difference(before.own_us, after.own_us)
    # The two are read one after the other, in ticks of 10 ms as a rule: a little below zero is none.
    return None if busy is None or own is None else max(0, busy - own)


def _cpu_ticks(root: Path) -> list[int]:
    """Return what all CPUs together spent, by kind, in clock ticks; [] if it is not told."""
    fields = (read_text(root / "proc/stat", 256) or "").partition("\n")[0].split()
    return [int(field) for field in fields[1:]] if len(fields) > 8 and fields[0] == "cpu" else []


def _cpu_mhz(root: Path, cpus: tuple[int, ...]) -> float | None:
    system = root / "sys/devices/system/cpu"
    clocks = [khz / 1000 for cpu in cpus if (khz := read_int(system / f"cpu{cpu}/cpufreq/scaling_cur_freq"))]
    if not clocks:
        # Virtual machines have no cpufreq; the kernel makes cpuinfo as it is read, so only its head is.
        head = read_text(root / "proc/cpuinfo", _CPUINFO_HEAD_BYTES) or ""
        clocks = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)\n", head, re.MULTILINE)]
    return sum(clocks) / len(clocks) if clocks else None


def _swap_bytes(root: Path) -> int | None:
    text = read_text(root / "proc/meminfo") or ""
    sizes = dict(re.findall(r"^(Swap(?:Total|Free)):\s+(\d+) kB$", text, re.MULTILINE))
    if len(sizes) < 2:
        return None
    return (int(sizes["SwapTotal"]) - int(sizes["SwapFree"])) * 1024


def _temperature_c(root: Path) -> float | None:
    zones = [root / f"sys/class/thermal/thermal_zone{number}/temp" for number in range(_ZONES_READ)]
    known = [millidegrees / 1000 for zone in zones if (millidegrees := read_int(zone)) is not None]
    return max(known, default=None)


def _thermal_throttles(root: Path, cpus: tuple[int, ...]) -> int | None:
    folders = [root / f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle" for cpu in cpus]
    counts = [read_int(folder / "core_throttle_count") for folder in folders]
    # All CPUs of a package show the same package count; the first stands for it.
    counts += [read_int(folders[0] / "package_throttle_count")] if folders else []
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None
