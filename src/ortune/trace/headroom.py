"""What can still be won, in one sentence: outside the kernels, and in them up to the machine's peak."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ortune.records import Category, CategoryName, Headroom, ProfiledNode
from ortune.trace.roofline import INT8_OPERATORS, below_floor, lost_ns

SETTINGS: tuple[CategoryName, ...] = (
    "thread-wait", "between-nodes", "outside-run", "control-flow", "device-copies", "casts-and-layout",
    "shape-arithmetic",
)  # fmt: skip
"""What of a run is none of the operators' own work: all that can be won outside the kernels."""

_WORDS: Mapping[str, str] = {
    "thread-wait": "thread wait",
    "between-nodes": "overhead",
    "outside-run": "overhead",
    "control-flow": "overhead",
    "device-copies": "copies",
    "casts-and-layout": "casts and layout",
    "shape-arithmetic": "shapes",
}

_REMEDIES: Mapping[str, str] = {
    "thread wait": "fewer threads help",
    "overhead": "fewer nodes (fusions, fixed shapes), I/O binding or larger batches help",
    "copies": "keeping values on one device helps",
    "casts and layout": "one type and one layout throughout help",
    "shapes": "fixed shapes help",
}

NEAR = 0.7  # of the peak: a product of usual shapes seldom gets nearer
PROVEN = 0.9  # of the peak, in so much of the kernels' time: from there on kernels leave nothing to settings
COVERED = 0.5  # of the kernels' time: with less of it known, a ratio would speak of the rest too
SMALL = 0.5  # of the run: where kernels take less, they are not what the run consists of
MOSTLY = 0.5  # of the floor: where it is memory's, or of the time: where it is int8 already
DISTURBED = 1.3  # times the run without the profiler: from there on its parts say little of that run
TELLING = 0.2  # of the peak: a run that consists of other things than kernels says less of them
COSTS = 1.1  # the same: from there on the profiler's own cost is told
EVENT_NS = 20_000.0  # that the profiler takes for an execution at most; usually 2 to 5 us
NAMED, LONGEST = 2, 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How a run was profiled.

    Attributes:
        slowdown: The profiled run over one without the profiler; None where that is not known.
        plain_ns: The run without the profiler; None where that is not known.
        threads, cpus: Threads that an operator may use, and CPUs that there are for them; 0 where not known.
        busy: Other programs had the CPUs meanwhile, in words; "" where they had not, or it is not known.
        unbounded: Why the floors of these nodes bound nothing, "" where they do.
        no_peak: Why the peak is not known, "" where it is or nobody can tell.
        peak_of: What the peak was measured with, where that is not what ran.
    """

    slowdown: float | None = None
    plain_ns: float | None = None
    threads: int = 0
    cpus: int = 0
    busy: str = ""
    unbounded: str = ""
    no_peak: str = ""
    peak_of: str = ""

    @property
    def limited(self) -> bool:
        """Whether more threads could be used."""
        return 0 < self.threads < self.cpus

    @property
    def whose(self) -> str:
        """What has the peak that the floors are made of."""
        if not self.limited:
            return "this machine's"
        return "one thread's" if self.threads == 1 else f"{self.threads} threads'"

    def cost(self, fast_ns: float, executions: float = math.inf) -> float | None:
        """How much longer the profiler makes a run; None where that is not known.

        A run without the profiler may have been disturbed, and so may a profiled one: the shorter the latter was at its
        best, the less of it can be the profiler's. Nor does that take longer than so many executions to write down.
        """
        if self.slowdown is None:
            return None
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
    """How much of a run lies outside its kernels, and how near these are to the machine's peak.

    All of it in a run that nothing disturbs, so that it does not depend on what else the machine does: nodes and
    categories at their fast end. Kernels do not take longer than the whole run does without the profiler, which bounds
    their nearness from below.

    Waiting that a node's floor says is needed anyway is not counted as won: threads that share out their work evenly
    still need the floor. What the profiler itself costs is outside the kernels, since no event tells it apart; where it
    is a large part of the run nothing is told. A node faster than its floor has none that could be used.
    """
    wrong = {n.name for n in below_floor(nodes)}
    floors = [n for n in nodes if n.floor_ns is not None and n.name not in wrong]
    needed = sum(max(0.0, n.least_wait_ns - lost_ns(n)) for n in floors)
    parts: dict[str, float] = {}
    for category in categories:
        if category.name in SETTINGS and fast_ns > 0:
            ns = category.ns - needed if category.name == "thread-wait" else category.ns
            parts[category.name] = min(1.0, max(0.0, ns / fast_ns))
    outside = min(1.0, sum(parts.values()))
    kernels = [n for n in nodes if n.category == "kernels"]
    covered = [n for n in floors if n.category == "kernels"]
    total, known = sum(n.least_ns for n in kernels), sum(n.least_ns for n in covered)
    covered_ratio = known / total if total else 0.0
    ratio = _nearness(covered, at)
    short = [n for n in covered if n.bound == "overhead"]
    device = sum(c.ns for c in categories if c.name == "device-wait")
    overhead = sum(n.least_ns for n in short) / known if known else 0.0
    cost = at.cost(fast_ns, sum(n.calls for n in nodes))
    why = f"nothing bounds what can be won ({at.unbounded}); " if at.unbounded else ""
    if cost is not None and cost > DISTURBED:
        return Headroom(
            settings_ratio=None,
            unbounded=at.unbounded,
            covered_ratio=covered_ratio,
            overhead_ratio=overhead,
            sentence=f"{why}{_disturbed_words(cost, at)}{_plain_words(covered, at)}",
        )
    if fast_ns > 0 and device > SMALL * fast_ns:
        words = _device_words(device / fast_ns)
    else:
        if wrong and not covered and not at.no_peak:
            at = replace(at, no_peak="they are faster than the stored one (ortune doctor measures it again)")
        words = _kernel_words(covered, short, ratio, covered_ratio, parts, at)
    return Headroom(
        settings_ratio=outside,
        parts=parts,
        kernels_ratio=ratio,
        kernels_least=ratio is not None and bool(at.busy),
        unbounded=at.unbounded,
        covered_ratio=covered_ratio,
        overhead_ratio=overhead,
        sentence=f"{why}{_outside_words(outside, parts, cost, at)}; {words}",
    )


def _disturbed_words(cost: float, at: Conditions) -> str:
    what = f"the profiler, or that {at.busy}, makes" if at.busy else "the profiler itself makes"
    return (
        f"{what} this run take {cost:.1f} times as long, so its parts do not tell what settings can win: only a race "
        "does (ortune tune)"
    )


def _plain_words(covered: Sequence[ProfiledNode], at: Conditions) -> str:
    """How near the kernels are at least, from the run without the profiler; "" where that says next to nothing."""
    ratio = _least(covered, at)
    return (
        f"; its kernels run at {round(100 * ratio)} % or more of {at.whose} peak" if ratio >= TELLING else ""
    )


def _least(covered: Sequence[ProfiledNode], at: Conditions) -> float:
    """Floors over the run without the profiler, in which the kernels are at most all."""
    return sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered) / at.plain_ns if at.plain_ns else 0.0


def _nearness(covered: Sequence[ProfiledNode], at: Conditions) -> float | None:
    """How near the kernels are to their peak; None where no floor is known."""
    busy = sum(_busy_ns(n) for n in covered)
    if not busy:
        return None
    floor = sum(min(n.floor_ns or 0.0, n.least_ns) for n in covered)
    return min(1.0, max(floor / busy, _least(covered, at)))


def _busy_ns(node: ProfiledNode) -> float:
    """The node's time without the waiting that can be won."""
    return node.least_ns - min(node.least_wait_ns, lost_ns(node))


def _bounded(ratio: float | None, covered_ratio: float, at: Conditions) -> bool:
    """Whether the kernels are known to leave nothing to be won with the same work and the same threads."""
    return ratio is not None and ratio >= PROVEN and covered_ratio >= PROVEN and not at.unbounded


def _outside_words(outside: float, parts: Mapping[str, float], cost: float | None, at: Conditions) -> str:
    used = "is" if at.threads == 1 else "are"
    more = (
        f"; in them more threads may win ({at.threads} of {at.cpus} CPUs {used} used)" if at.limited else ""
    )
    if outside < 0.005:
        return f"next to nothing of the run is outside the kernels{more}"
    shown = ", ".join(f"{word} {percent}" for word, percent in _whole(_by_word(parts), outside))
    own = ""
    if cost is None:
        own = "; what the profiler itself costs is in it, and not known"
    elif cost > COSTS:
        own = "; what the profiler itself costs is in it"
    return f"{round(100 * outside)} % of the run is outside the kernels ({shown}{own}){more}"


def _by_word(parts: Mapping[str, float]) -> dict[str, float]:
    words: dict[str, float] = {}
    for name, share in parts.items():
        words[_WORDS[name]] = words.get(_WORDS[name], 0.0) + share
    return words


def _whole(words: Mapping[str, float], settings: float) -> Iterator[tuple[str, int]]:
    """Whole percents that add up to that of all, the largest first; none of 0."""
    found = {word: int(100 * share) for word, share in words.items()}
    missing = round(100 * settings) - sum(found.values())
    for word in sorted(words, key=lambda w: 100 * words[w] - found[w], reverse=True)[: max(0, missing)]:
        found[word] += 1
    for word, percent in sorted(found.items(), key=lambda item: -item[1]):
        if percent:
            yield word, percent


def _device_words(share: float) -> str:
    return (
        f"{round(100 * share)} % of the run waits for the device: only faster kernels there, or fewer of them, make it "
        "shorter"
    )


def _kernel_words(
    covered: Sequence[ProfiledNode],
    short: Sequence[ProfiledNode],
    ratio: float | None,
    covered_ratio: float,
    parts: Mapping[str, float],
    at: Conditions,
) -> str:
    if sum(parts.values()) > SMALL:
        words = _by_word(parts)
        remedy = _REMEDIES[max(words, key=words.__getitem__)]
        return f"less than half of the run is kernels: {remedy} before faster kernels do"
    if not covered or ratio is None:
        why = f": {at.no_peak}" if at.no_peak else ""
        return f"how near the kernels are to {at.whose} peak is not known{why}"
    if covered_ratio < COVERED:
        return (
            f"how near the kernels are to {at.whose} peak is known for only {round(100 * covered_ratio)} % of their "
            "time"
        )
    spent = sum(n.least_ns for n in short)
    if spent > MOSTLY * sum(n.least_ns for n in covered):
        calls = sum(n.calls for n in short)
        return (
            f"most of the kernels' time goes to {calls:.0f} executions of {spent / calls / 1000:.1f} us, too short for "
            "any peak to matter: overhead for each node bounds them, and fewer nodes or larger batches help"
        )
    floor = sum(n.floor_ns or 0.0 for n in covered)
    at_memory = sum(n.floor_ns or 0.0 for n in covered if n.bound == "memory") > MOSTLY * floor
    what = "memory bandwidth" if at_memory else "peak"
    partly = (
        ""
        if covered_ratio >= PROVEN
        else f" in the {round(100 * covered_ratio)} % of their time that is known"
    )
    known = ", ".join(text for text in (at.busy, at.peak_of) if text)
    near = (
        f"the kernels run at {round(100 * ratio)} %{' or more' if at.busy else ''} of {at.whose} {what}{partly}"
        f"{f' ({known})' if known else ''}"
    )
    return near + _next(covered, ratio, at_memory, _bounded(ratio, covered_ratio, at), at)


def _next(
    covered: Sequence[ProfiledNode], ratio: float, at_memory: bool, bounded: bool, at: Conditions
) -> str:
    """What may make the kernels faster; only this will, where they are near enough to the peak."""
    more = "more threads, " if at.limited else ""
    if ratio < NEAR:
        most = "threads, " if not at.limited and at.threads != 1 else more
        return f": {most}fusions, layout or another engine may help; dearest: {_dearest(covered)}"
    only, help = (f"only {more}", "will help") if bounded else (more, "may help")
    if at_memory:
        return f": {only}smaller weights (int8, 4 bits) or a larger batch {help}"
    int8 = sum(n.least_ns for n in covered if n.op_type in INT8_OPERATORS)
    if int8 > MOSTLY * sum(n.least_ns for n in covered):
        return f", in int8 already: {only}a smaller model or another machine {help}"
    return f": {only}int8 or another engine {help}"


def _dearest(covered: Sequence[ProfiledNode]) -> str:
    """The nodes that lose most time to their floor."""
    total = sum(lost_ns(n) for n in covered)
    worst = sorted(covered, key=lambda n: (-lost_ns(n), n.name))[:NAMED]
    return ", ".join(
        f"{_short(n.originals[0] if n.originals else n.name) or 'a node without a name'} ({n.op_type}, "
        f"{round(100 * lost_ns(n) / total) if total else 0} % of what is lost)"
        for n in worst
    )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 3]}..."
