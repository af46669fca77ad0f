"""Notes of a benchmark on the machine and the processes."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Sensors
from ortune.show.headline import count

WEIGHTS_IGNORED = "shape weights are ignored: each shape is measured in its own processes"


def pools(sessions: int, threads: int, cpus: int) -> str:
    """Return a note that the pools of all sessions have more threads than there are CPUs."""
    return (
        f"{sessions} sessions have one thread pool each, {threads} threads on {count(cpus, 'CPU')} "
        "(--shared-pool shares one)"
    )


def not_steady(unsteady: int, processes: int) -> str:
    """Return a note that processes were still warming up when timing began."""
    were = "was" if unsteady == 1 else "were"
    return f"{unsteady} of {processes} processes {were} still warming up when timing began"


def waited(share_ratio: float, own_threads: int, cpus: int) -> str:
    """Return a remark that tasks waited for a CPU, possibly because the process has more threads than CPUs."""
    said = f"tasks waited for a CPU {100 * share_ratio:.0f} % of the time"
    if own_threads > cpus:
        return f"{said}, including the process's own {own_threads} threads on {count(cpus, 'CPU')}"
    return f"busy machine: {said}"


def other_tasks(tasks: float, cpus: int) -> str:
    """Return a remark on the number of other programs' tasks that were ready to run."""
    return f"busy machine: about {tasks:.1f} other tasks on {count(cpus, 'CPU')}"


def throttled(share_ratio: float) -> str:
    """Return a remark that a CPU quota throttled the processes."""
    return f"CPU quota throttled in {100 * share_ratio:.0f} % of its periods"


def stolen(share_ratio: float) -> str:
    """Return a remark that the hypervisor took CPU time."""
    return f"CPU steal by the hypervisor {100 * share_ratio:.0f} %"


def conditions(sensors: Sequence[Sensors]) -> str:
    """Return a text with the range of load and temperature over the processes; "" if neither is known."""
    loads = [one.load1 for one in sensors if one.load1 is not None]
    degrees = [one.temperature_c for one in sensors if one.temperature_c is not None]
    said = [f"load {min(loads):.1f} to {max(loads):.1f}"] if loads else []
    said += [f"hottest zone {min(degrees):.0f} to {max(degrees):.0f} °C"] if degrees else []
    return ", ".join(said)


def heat(events: int) -> str:
    """Return a remark that the processor slowed down because of its temperature."""
    return f"thermal throttling: {events} event{'' if events == 1 else 's'}"
