"""Headroom of a run: the time outside kernels, and the distance of kernels from the machine's peak."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.records import Category, CategoryName, Headroom, LostTime, ProfiledNode
from ortune.trace.roofline import INT8_OPERATORS, below_floor, lost_ns

SETTINGS: tuple[CategoryName, ...] = (
    "thread-wait", "between-nodes", "outside-run", "control-flow", "device-copies", "casts-and-layout",
    "shape-arithmetic",
)  # fmt: skip
"""Categories outside the operators' own work, which settings can reduce."""

MOSTLY = 0.5  # fraction of the floor (memory-bound), or of the time (already int8)
DISTURBED = 1.3  # ratio to the run without the profiler from which on the profile is not representative
EVENT_NS = 20_000.0  # maximum cost per recorded execution; usually 2 to 5 us
NAMED = 2
DOUBTED = 0.1  # fraction of kernel time below the floor that shows that the measured peak is too low


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions under which a run was profiled, which limit the conclusions from its profile.

    Attributes:
        slowdown: Ratio of the profiled run to one without the profiler; None if unknown.
        plain_ns: Time of a run without the profiler; None if unknown.
        threads, cpus: Threads that an operator may use, and CPUs available for them; 0 if unknown.
        busy: Sentence about other programs on the CPUs; "" if there were none, or if this is unknown.
        unbounded: Reason why the nodes' floors are not lower bounds of their times; "" if they are lower bounds.
        no_peak: Reason why the peak is unknown; "" if the peak is known or there is no reason to report.
        peak_of: Runtime with which the peak was measured, if it differs from the profiled one.
        peak_doubted: Whether the peak may be too low: measured once, or with unknown other load.
    """

    slowdown: float | None = None
    plain_ns: float | None = None
    threads: int = 0
    cpus: int = 0
    busy: str = ""
    unbounded: str = ""
    no_peak: str = ""
    peak_of: str = ""
    peak_doubted: bool = False

    def cost(self, fast_ns: float, executions: float = math.inf) -> float | None:
        """Return an upper bound of the ratio of the profiled run to a run without the profiler; None if unknown.

        Either run may have been disturbed, so the bound also uses the profiled run's fast end and the maximum cost of
        recording its executions.
        """
        if self.slowdown is None:
            return None
        # Each is an upper bound, so the smallest holds.
        bounds = [self.slowdown]
        if self.plain_ns:
            bounds.append(fast_ns / self.plain_ns)
        if EVENT_NS * executions < fast_ns:
            bounds.append(fast_ns / (fast_ns - EVENT_NS * executions))
        return min(bounds)


UNKNOWN = Conditions()


def headroom(
    categories: Sequence[Category],
    nodes: Sequence[ProfiledNode],
    fast_ns: float,
    at: Conditions = UNKNOWN,
) -> Headroom:
    """Return the fraction of a run outside its kernels, and how near the kernels are to the machine's peak.

    All times are those of a run without disturbances: nodes and categories at their fast end. The kernels take at most
    as long as the whole run without the profiler, which bounds their nearness from below.

    Waiting within a node's floor does not count, because evenly distributed work would still need the floor. The cost
    of the profiler counts as time outside the kernels, since no event separates it; if that cost is a large part of the
    run, no headroom is reported. The floor of a node that is faster than its floor is not used.
    """
    wrong = {n.name for n in below_floor(nodes)}
    floors = [n for n in nodes if n.floor_ns is not None and n.name not in wrong]
    kernels = [n for n in nodes if n.category == "kernels"]
    covered = [n for n in floors if n.category == "kernels"]
    short = [n for n in covered if n.bound == "overhead"]
    total, covered_ns = _least_ns(kernels), _least_ns(covered)
    cost = at.cost(fast_ns, sum(n.calls for n in nodes))
    is_trusted = cost is None or cost <= DISTURBED
    doubted = at.peak_doubted and _least_ns([n for n in kernels if n.name in wrong]) > DOUBTED * total
    parts = _outside(categories, floors, fast_ns) if is_trusted else {}
    # With other programs running, even a kernel's fast end is slow: 60 % of the peak instead of 93 %.
    known_well = not (at.busy or doubted)
    ratio = _nearness(covered, at) if is_trusted and known_well else None
    floor = sum(n.floor_ns or 0.0 for n in covered)
    device = sum(c.ns for c in categories if c.name == "device-wait")
    return Headroom(
        settings_ratio=min(1.0, sum(parts.values())) if is_trusted else None,
        parts=parts,
        kernels_ratio=ratio,
        plain_kernels_ratio=_least_nearness(covered, at) if known_well else 0.0,
        unbounded=at.unbounded,
        covered_ratio=covered_ns / total if total else 0.0,
        overhead_ratio=_least_ns(short) / covered_ns if covered_ns else 0.0,
        overhead_calls=sum(n.calls for n in short),
        overhead_ns=_least_ns(short),
        device_ratio=device / fast_ns if fast_ns > 0 else 0.0,
        memory_bound=sum(n.floor_ns or 0.0 for n in covered if n.bound == "memory") > MOSTLY * floor,
        int8=_least_ns([n for n in covered if n.op_type in INT8_OPERATORS]) > MOSTLY * covered_ns,
        dearest=_dearest(covered),
        slowdown_ratio=cost,
        threads=at.threads,
        cpus=at.cpus,
        busy=at.busy,
        no_peak=at.no_peak,
        peak_of=at.peak_of,
        beyond_peak=bool(wrong) and (not covered or doubted),
    )


def _least_ns(nodes: Sequence[ProfiledNode]) -> float:
    return sum(n.least_ns for n in nodes)


def _outside(
    categories: Sequence[Category], floors: Sequence[ProfiledNode], fast_ns: float
) -> dict[str, float]:
    """Return fractions of the run by category, without waiting within the floors."""
    needed = sum(max(0.0, n.least_wait_ns - lost_ns(n)) for n in floors)
    parts: dict[str, float] = {}
    for category in categories:
        if category.name in SETTINGS and fast_ns > 0:
            ns = category.ns - needed if category.name == "thread-wait" else category.ns
            parts[category.name] = min(1.0, max(0.0, ns / fast_ns))
    return parts


def _least_nearness(covered: Sequence[ProfiledNode], at: Conditions) -> float:
    """Return a lower bound of the nearness: floors as a fraction of the run without the profiler; 0.0 if unknown."""
    return sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered) / at.plain_ns if at.plain_ns else 0.0


def _nearness(covered: Sequence[ProfiledNode], at: Conditions) -> float | None:
    """Return the nearness of kernels to the peak: the ratio of floors to kernel time; None if no floor is known."""
    busy = sum(_busy_ns(n) for n in covered)
    if not busy:
        return None
    floor = sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered)
    return min(1.0, max(floor / busy, _least_nearness(covered, at)))


def _busy_ns(node: ProfiledNode) -> float:
    """Return the node's time without avoidable waiting."""
    return node.least_ns - min(node.least_wait_ns, lost_ns(node))


def _dearest(covered: Sequence[ProfiledNode]) -> tuple[LostTime, ...]:
    """Return the nodes with the most time above their floor."""
    total = sum(lost_ns(n) for n in covered)
    worst = sorted(covered, key=lambda n: (-lost_ns(n), n.name))[:NAMED]
    return tuple(
        LostTime(
            name=n.originals[0] if n.originals else n.name,
            op_type=n.op_type,
            share_ratio=lost_ns(n) / total if total else 0.0,
        )
        for n in worst
    )
