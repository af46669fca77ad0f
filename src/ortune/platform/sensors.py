"""Sensors read around a trial: load, pressure, steal, throttling, clocks, swap.

Sensors explain a slow trial but never cause it to be dropped. A reading takes some milliseconds, and occurs between
groups of trials to avoid disturbing them. Values that a system does not provide are None.
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

# Each clock or throttle file requires a kernel call to one CPU, so a few represent all.
CPUS_READ = tuple(range(4))
_ZONES_READ = 16
_CPUINFO_HEAD_BYTES = 8192
_WORK = (0, 1, 2, 5, 6)
"""Columns of ``/proc/stat`` that count work: user, nice, system and interrupts, but not idle time or disk waits."""
_STEAL = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSnapshot:
    """Counters and gauges at one moment; ``between`` computes the difference of two.

    Attributes:
        load1: Mean number of runnable and waiting tasks over a minute.
        psi_cpu_some_us: Time with some task waiting for a CPU, since boot, microseconds.
        busy_us: CPU time of all programs since boot, microseconds, in steps of clock ticks.
        own_us: CPU time of this process and its descendants, microseconds; None if unknown.
        steal_ticks: Time that the hypervisor gave to other virtual machines since boot, clock ticks.
        throttling: Quota counters of each control group of this process.
        cpu_mhz: Mean clock rate of a few CPUs that this process may use.
        governor: Clock governor; "" if unknown.
        swap_bytes: Swap in use on the machine.
        thermal_throttles: Number of times that heat lowered the clock rate, since boot.
        temperature_c: Temperature of the hottest zone, in degrees Celsius.
        at_ns: Time of the reading on the monotonic clock; None without a reading.
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


def read_sensors(root: Path = Path("/")) -> SensorSnapshot:
    """Return the current readings on Linux."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))[: len(CPUS_READ)]
    return replace(
        read_gauges(root, cpus),
        own_us=round(own_cpu_s() * 1e6),
        throttling=cgroup.throttling(cgroup.groups_once(root)),
    )


def read_gauges(root: Path, cpus: tuple[int, ...]) -> SensorSnapshot:
    """Return the readings that involve no process: load, pressure, steal, clocks, swap, heat.

    Args:
        root: Root of the machine's file tree.
        cpus: The CPUs with clocks to read, which represent all.
    """
    ticks = _cpu_ticks(root)
    return SensorSnapshot(
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
    before: SensorSnapshot,
    after: SensorSnapshot,
    *,
    involuntary_switches: int | None = None,
    cpu_over_wall: float | None = None,
) -> Sensors:
    """Return the changes between two snapshots.

    Counters are differences; load, clock rate and swap are the values of ``after``.

    Args:
        before: Snapshot before the trial.
        after: Snapshot after it, from the same process.
        involuntary_switches: Count for the trial; None if unknown.
        cpu_over_wall: CPU seconds over wall seconds of the trial; None if unknown.
    """
    throttled = _most_throttled(before.throttling, after.throttling)
    return Sensors(
        load1=after.load1,
        psi_cpu_some_us=_difference(before.psi_cpu_some_us, after.psi_cpu_some_us),
        others_cpu_us=_cpu_us_of_others(before, after),
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
    """Return the increase of a counter; None if unknown or reset (a CPU came back, a group was recreated)."""
    if before is None or after is None or after < before:
        return None
    return after - before


def _most_throttled(
    before: tuple[cgroup.Throttling, ...], after: tuple[cgroup.Throttling, ...]
) -> cgroup.Throttling | None:
    """Return the increase of the counters of the group that lost most time to its quota.

    Nested groups count the same stop repeatedly, so counters are not added up.
    """
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


def _cpu_us_of_others(before: SensorSnapshot, after: SensorSnapshot) -> int | None:
    busy, own = _difference(before.busy_us, after.busy_us), _difference(before.own_us, after.own_us)
    # The two are read one after the other, usually in ticks of 10 ms, so small negative values are 0.
    return None if busy is None or own is None else max(0, busy - own)


def _cpu_ticks(root: Path) -> list[int]:
    """Return the ticks of all CPUs combined, by kind; [] if unknown."""
    fields = (read_text(root / "proc/stat", 256) or "").partition("\n")[0].split()
    return [int(field) for field in fields[1:]] if len(fields) > 8 and fields[0] == "cpu" else []


def _cpu_mhz(root: Path, cpus: tuple[int, ...]) -> float | None:
    system = root / "sys/devices/system/cpu"
    clocks = [khz / 1000 for cpu in cpus if (khz := read_int(system / f"cpu{cpu}/cpufreq/scaling_cur_freq"))]
    if not clocks:
        # Virtual machines have no cpufreq; the kernel generates cpuinfo as it is read, so only its head is read.
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
    # All CPUs of a package share the package count, so the first is used.
    counts += [read_int(folders[0] / "package_throttle_count")] if folders else []
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if known_counts else None
