"""What can still be won: outside the kernels, and in them up to the machine's peak."""

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
"""What of a run is none of the operators' own work: all that can be won outside the kernels."""

MOSTLY = 0.5  # of the floor: where it is memory's, or of the time: where it is int8 already
DISTURBED = 1.3  # times the run without the profiler: from there on its parts say little of that run
EVENT_NS = 20_000.0  # that the profiler takes for an execution at most; usually 2 to 5 us
NAMED = 2
DOUBTED = 0.1  # of the kernels' time in nodes that are faster than their floor, from which on that is the peak's fault


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The conditions under which a run was profiled.

    Attributes:
        slowdown: The profiled run over one without the profiler; None if that is not known.
        plain_ns: The run without the profiler; None if that is not known.
        threads, cpus: Threads that an operator may use, and CPUs that there are for them; 0 if not known.
        busy: Other programs had the CPUs meanwhile, in words; "" if they had not, or it is not known.
        unbounded: Why the floors of these nodes bound nothing, "" if they do.
        no_peak: Why the peak is not known, "" if it is or nobody can tell.
        peak_of: What the peak was measured with, where that is not what ran.
        peak_doubted: It was measured once, or nobody saw what else ran meanwhile: it may be too low.
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
        """Return the profiler's share of a run's time; None if unknown.

        A run without the profiler may have been disturbed, and so may a profiled one: the shorter the latter was at its
        best, the less of it can be the profiler's. Nor does that take longer than so many executions to write down.
        """
        if self.slowdown is None:
            return None
        # Each bound is an upper one, so the least of them holds.
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
    """How much of a run lies outside its kernels, and how near these are to the machine's peak; without its sentence.

    All of it in a run that nothing disturbs, so that it does not depend on what else the machine does: nodes and
    categories at their fast end. Kernels do not take longer than the whole run does without the profiler, which bounds
    their nearness from below.

    Waiting that a node's floor says is needed anyway is not counted as won: threads that share out their work evenly
    still need the floor. The profiler's own cost is outside the kernels, since no event separates it; where it
    is a large part of the run no headroom is given. A node faster than its floor has none that could be used.
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
    # Beside other programs even the fast end of a kernel is slow: 60 % of the peak where it was 93 % alone.
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
    """Shares of the run by category, without the waiting that is needed anyway."""
    needed = sum(max(0.0, n.least_wait_ns - lost_ns(n)) for n in floors)
    parts: dict[str, float] = {}
    for category in categories:
        if category.name in SETTINGS and fast_ns > 0:
            ns = category.ns - needed if category.name == "thread-wait" else category.ns
            parts[category.name] = min(1.0, max(0.0, ns / fast_ns))
    return parts


def _least_nearness(covered: Sequence[ProfiledNode], at: Conditions) -> float:
    """Floors over the run without the profiler, in which the kernels are at most all."""
    return sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered) / at.plain_ns if at.plain_ns else 0.0


def _nearness(covered: Sequence[ProfiledNode], at: Conditions) -> float | None:
    """Return how near the kernels are to their peak; None if no floor is known."""
    busy = sum(_busy_ns(n) for n in covered)
    if not busy:
        return None
    floor = sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered)
    return min(1.0, max(floor / busy, _least_nearness(covered, at)))


def _busy_ns(node: ProfiledNode) -> float:
    """Return the node's time without the waiting that can be won."""
    return node.least_ns - min(node.least_wait_ns, lost_ns(node))


def _dearest(covered: Sequence[ProfiledNode]) -> tuple[LostTime, ...]:
    """Return the nodes that lose most time to their floor."""
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
