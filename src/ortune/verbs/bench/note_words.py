"""Notes of a benchmark on the machine and the processes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortune.printable import amount
from ortune.records import Sensors

WEIGHTS_IGNORED = "shape weights are ignored: each shape is measured in its own processes"


def planned(processes: int, runs: int, callers: int, *, asked: bool) -> str:
    """Return the numbers of processes and requests of a shape.

    Args:
        processes: Number of processes.
        runs: Requests of each caller in a process.
        callers: Callers of all sessions together.
        asked: Whether the user chose the number of processes.
    """
    # A caller that has done its requests continues until the last caller has.
    more = " or more" if callers > 1 else ""
    about = "" if asked or processes == 1 else "about "
    of_processes = "1 process" if processes == 1 else f"{about}{processes} processes"
    requests = amount(runs * callers, "request")
    return f"{of_processes} of {requests}{more}"


def plan(shapes: Sequence[tuple[str, str]]) -> list[str]:
    """Return a sentence for each shape and its plan; one for all shapes if their plans are equal."""
    if len(shapes) == 1:
        return [shapes[0][1]]
    if len({text for _, text in shapes}) == 1:
        return [f"{shapes[0][1]} for each of {len(shapes)} sizes"]
    return [f"{name}: {text}" for name, text in shapes]


def over_budget(processes: int, needed_s: float, *, asked: bool) -> str:
    """Return a note that processes take longer than the budget.

    Args:
        processes: Number of processes.
        needed_s: Seconds that they are expected to take.
        asked: Whether the user chose the number of processes. If not, no figure has an interval.
    """
    instead = "" if asked else ", so no figure has an interval"
    return (
        f"{processes} processes take about {math.ceil(needed_s)} s, more than is left of the budget{instead}"
    )


def pools(sessions: int, threads: int, cpus: int) -> str:
    """Return a note that the pools of all sessions have more threads than there are CPUs."""
    return (
        f"{sessions} sessions have one thread pool each, {threads} threads on {amount(cpus, 'CPU')} "
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
        return f"{said}, including the process's own {own_threads} threads on {amount(cpus, 'CPU')}"
    return f"busy machine: {said}"


def other_tasks(tasks: float, cpus: int) -> str:
    """Return a remark on the number of other programs' tasks that were ready to run."""
    return f"busy machine: about {tasks:.1f} other tasks on {amount(cpus, 'CPU')}"


def throttled(share_ratio: float) -> str:
    """Return a remark that a CPU quota throttled the processes."""
    return f"CPU quota throttled in {100 * share_ratio:.0f} % of its periods"


def stolen(cpus: float) -> str:
    """Return a remark that the hypervisor took CPU time, as a number of CPUs over all CPUs of the machine."""
    return f"CPU steal by the hypervisor: {100 * cpus:.0f} % of one CPU"


def conditions(sensors: Sequence[Sensors]) -> str:
    """Return a text with the range of load and temperature over the processes; "" if neither is known."""
    loads = [one.load1 for one in sensors if one.load1 is not None]
    degrees = [one.temperature_c for one in sensors if one.temperature_c is not None]
    said = [f"load {min(loads):.1f} to {max(loads):.1f}"] if loads else []
    said += [f"hottest zone {min(degrees):.0f} to {max(degrees):.0f} °C"] if degrees else []
    return ", ".join(said)


def heat(events: int) -> str:
    """Return a remark that the processor slowed down because of its temperature."""
    return f"thermal throttling: {amount(events, 'event')}"
