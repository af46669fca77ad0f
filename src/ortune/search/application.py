"""Search for changes to a recorded application, most promising first, and evaluation of its blocks.

A block is one replay of each arm, in random order; ratios are candidate / recorded within a block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ortune.catalogue.named import ALLOW_SPINNING as SPINNING
from ortune.catalogue.named import ENABLE_CPU_MEM_ARENA as ARENA
from ortune.catalogue.named import ENABLE_MEM_PATTERN as PATTERNS
from ortune.catalogue.named import INTRA_OP_NUM_THREADS as THREADS
from ortune.records import ReplayedKind, Value
from ortune.stats.calibration import identical_control
from ortune.stats.pairs import wilcoxon_interval
from ortune.stats.student import t_quantile

SCREEN_BLOCKS = 2
"""Blocks of a stage, which only selects what to confirm."""
LEAST_BLOCKS = 6
"""Minimum blocks of a confirmation; fewer cannot give a 95 % interval without assumptions."""
MOST_BLOCKS = 20
WORTH = 0.02
"""Minimum saving to recommend a change."""
NOT_WORSE = 0.05
"""Maximum increase of a metric that is not the deciding one."""
MEMORY_WORSE = 0.10
"""Increase of memory above which it is reported."""

Verdict = Literal["faster", "not-shown", "inconclusive"]
Form = Literal["lists", "strides", "batches"]
"""Forms of a program's inputs that only its developers can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """Facts about an application and its machine that the search needs.

    Attributes:
        cpus: Number of CPUs of the machine.
        processes: Number of processes that run in parallel.
        shareable: Whether a process creates equal sessions several times.
        pools: Whether a session has its own threads.
        arena_off: Whether a session was created without the arena.
        many_shapes: Whether a session is called with several shapes.
        forms: Forms of the calls that a replay can change.
        models: Number of candidates for each stage of one model: its execution providers or its rewrites.
    """

    cpus: int
    processes: int
    shareable: bool
    pools: bool
    arena_off: bool
    many_shapes: bool = False
    forms: frozenset[Form] = frozenset()
    models: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A ratio with its 95 % interval; the ends are None if there are too few blocks."""

    value: float
    low: float | None = None
    high: float | None = None
    n_blocks: int = 0


def stages(seen: ApplicationFacts) -> list[list[dict[str, Value | Literal["share"]]]]:
    """Return the changes to try: each stage adds to what the previous stage kept.

    Sharing sessions is ``{"share": "share"}``; all else are settings of every session.
    """
    found: list[list[dict[str, Value | Literal["share"]]]] = []
    if seen.shareable:
        found.append([{"share": "share"}])
    if seen.pools and seen.cpus > 1:
        counts = {1, seen.cpus, max(1, seen.cpus // max(1, seen.processes))}
        pool: list[dict[str, Value | Literal["share"]]] = [{THREADS.name: n} for n in sorted(counts)]
        found.append([*pool, {SPINNING.name: False}])
    if seen.arena_off:
        found.append([{ARENA.name: True}])
    if seen.many_shapes:
        found.append([{PATTERNS.name: False}])
    return found


def n_plays(seen: ApplicationFacts) -> int:
    """Return the number of replays that a budget should allow: a pilot, the stages, a confirmation, and the forms."""
    sizes = [*map(len, stages(seen)), *seen.models]
    stages_plays = sum(SCREEN_BLOCKS * (1 + size) for size in sizes)
    return 2 + stages_plays + 3 * LEAST_BLOCKS + 2 * LEAST_BLOCKS * len(seen.forms)


KINDS: Mapping[str, ReplayedKind] = {
    THREADS.name: "pool",
    SPINNING.name: "spinning",
    ARENA.name: "arena",
    PATTERNS.name: "patterns",
}
"""The kind of gain by setting."""


def ratio_of(new: Sequence[float], base: Sequence[float]) -> Ratio:
    """Return the ratio of paired values, one pair per block."""
    logs = np.log(np.asarray(new, dtype=float) / np.asarray(base, dtype=float))
    n = len(logs)
    if n >= LEAST_BLOCKS:
        interval = wilcoxon_interval(logs)
        return Ratio(
            value=math.exp(interval.centre),
            low=math.exp(interval.low),
            high=math.exp(interval.high),
            n_blocks=n,
        )
    centre = float(logs.mean())
    if n < 3:
        return Ratio(value=math.exp(centre), n_blocks=n)
    width = t_quantile(0.975, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return Ratio(
        value=math.exp(centre), low=math.exp(centre - width), high=math.exp(centre + width), n_blocks=n
    )


def score(cpu: Ratio, wall: Ratio, *, busy: bool) -> float:
    """Return the value that a stage minimizes: CPU time if other programs use the CPUs, else the mean of both."""
    return cpu.value if busy else math.sqrt(cpu.value * wall.value)


def is_same(again: Sequence[float], base: Sequence[float]) -> bool:
    """Return whether the A/A check passes: the recorded settings do not differ from themselves."""
    return identical_control(np.log(np.asarray(again, dtype=float) / np.asarray(base, dtype=float))).ok


def judged(cpu: Ratio, wall: Ratio, *, busy: bool) -> Verdict:
    """Return the verdict of a confirmation.

    On a busy machine only CPU time decides, unless the time in ONNX Runtime is known to increase. Otherwise one of the
    two must decrease, and the other must not increase.
    """
    if cpu.n_blocks < LEAST_BLOCKS or cpu.high is None or wall.high is None:
        return "inconclusive"
    if any(ratio.low is not None and ratio.low > 1 + NOT_WORSE for ratio in (cpu, wall)):
        return "not-shown"
    if busy:
        return "faster" if cpu.high < 1 - WORTH else _without(cpu)
    for deciding, other in ((wall, cpu), (cpu, wall)):
        assert deciding.high is not None and other.high is not None
        if deciding.high < 1 - WORTH and other.high < 1 + NOT_WORSE:
            return "faster"
    return "not-shown" if (_without(cpu), _without(wall)) == ("not-shown",) * 2 else "inconclusive"


def _without(ratio: Ratio) -> Verdict:
    """Return "not-shown" if an interval excludes a saving worth recommending, else "inconclusive"."""
    return "not-shown" if ratio.low is not None and ratio.low > 1 - WORTH else "inconclusive"
