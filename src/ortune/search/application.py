"""Searches for changes to a recorded application, most promising first, and evaluates the blocks of the search.

A block replays each arm once, in random order; ratios are candidate / recorded within a block.
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
from ortune.records import AppRatio, ReplayedKind, Value
from ortune.stats.calibration import identical_control
from ortune.stats.pairs import wilcoxon_interval
from ortune.stats.student import t_quantile

SCREEN_BLOCKS = 2
"""Number of blocks of a stage, which only selects the changes to confirm."""
LEAST_BLOCKS = 6
"""Minimum number of blocks of a confirmation; fewer give no 95 % interval without assumptions."""
MOST_BLOCKS = 20
WORTH = 0.02
"""Minimum saving for which a change is recommended, as a fraction."""
NOT_WORSE = 0.05
"""Maximum increase of the metric that does not decide, as a fraction."""
MEMORY_WORSE = 0.10
"""Increase of memory above which the increase is reported, as a fraction."""

Verdict = Literal["faster", "not-shown", "inconclusive"]
Form = Literal["lists", "strides", "batches"]
"""Forms of a program's inputs and calls that only its developers can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationFacts:
    """Facts about an application and its machine that the search needs.

    Attributes:
        cpus: Number of CPUs of the machine.
        processes: Number of processes that run in parallel.
        shareable: Whether a process creates equal sessions several times.
        pools: Whether a session has its own thread pool.
        arena_off: Whether a session was created without the arena.
        many_shapes: Whether a session is called with several shapes.
        forms: Forms of the calls that a replay can change.
        models: Number of candidates in each stage that changes one model's execution provider or rewrites.
    """

    cpus: int
    processes: int
    shareable: bool
    pools: bool
    arena_off: bool
    many_shapes: bool = False
    forms: frozenset[Form] = frozenset()
    models: tuple[int, ...] = ()


def stages(seen: ApplicationFacts) -> list[list[dict[str, Value | Literal["share"]]]]:
    """Return the changes to try in each stage, which are added to the changes that the previous stage kept.

    ``{"share": "share"}`` means to share sessions; all other changes are settings of every session.
    """
    found: list[list[dict[str, Value | Literal["share"]]]] = []
    if seen.shareable:
        found.append([{"share": "share"}])
    if seen.pools and seen.cpus > 1:
        counts = sorted({1, seen.cpus, max(1, seen.cpus // max(1, seen.processes))})
        pools: list[dict[str, Value | Literal["share"]]] = [{THREADS.name: n} for n in counts]
        # A single thread has no pool that could spin.
        quiet = [{**pool, SPINNING.name: False} for pool in ({}, *pools) if pool != {THREADS.name: 1}]
        found.append([*pools, *quiet])
    if seen.arena_off:
        found.append([{ARENA.name: True}])
    if seen.many_shapes:
        found.append([{PATTERNS.name: False}])
    return found


def n_plays(seen: ApplicationFacts) -> int:
    """Return the number of replays that a budget should allow: for pilot, stages, confirmation, and forms."""
    sizes = [*map(len, stages(seen)), *seen.models]
    stages_plays = sum(SCREEN_BLOCKS * (1 + size) for size in sizes)
    return 2 + stages_plays + 3 * LEAST_BLOCKS + 2 * LEAST_BLOCKS * len(seen.forms)


KINDS: Mapping[str, ReplayedKind] = {
    THREADS.name: "pool",
    SPINNING.name: "spinning",
    ARENA.name: "arena",
    PATTERNS.name: "patterns",
}
"""Maps settings to the kind of gain that a replay measures for them."""


def ratio_of(new: Sequence[float], base: Sequence[float]) -> AppRatio:
    """Return the ratio new / base of paired values, one pair per block, with its interval."""
    logs = np.log(np.asarray(new, dtype=float) / np.asarray(base, dtype=float))
    n = len(logs)
    if n >= LEAST_BLOCKS:
        interval = wilcoxon_interval(logs)
        return AppRatio(
            value=math.exp(interval.centre),
            low=math.exp(interval.low),
            high=math.exp(interval.high),
            n_blocks=n,
        )
    centre = float(logs.mean())
    if n < 3:
        return AppRatio(value=math.exp(centre), n_blocks=n)
    width = t_quantile(0.975, n - 1) * float(logs.std(ddof=1)) / math.sqrt(n)
    return AppRatio(
        value=math.exp(centre), low=math.exp(centre - width), high=math.exp(centre + width), n_blocks=n
    )


def score(cpu: AppRatio, wall: AppRatio, *, busy: bool) -> float:
    """Return the ratio that a stage minimizes: that of CPU time on a busy machine, else the geometric mean of both."""
    return cpu.value if busy else math.sqrt(cpu.value * wall.value)


def is_same(again: Sequence[float], base: Sequence[float]) -> bool:
    """Return whether the A/A check passes: two plays with the recorded settings do not differ."""
    return identical_control(np.log(np.asarray(again, dtype=float) / np.asarray(base, dtype=float))).ok


def judged(cpu: AppRatio, wall: AppRatio, *, busy: bool) -> Verdict:
    """Return the verdict of a confirmation.

    On a busy machine only CPU time decides, unless the time in ONNX Runtime is known to increase. Otherwise one of the
    two times must decrease, and the other must not increase.
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


def _without(ratio: AppRatio) -> Verdict:
    """Return "not-shown" if the interval excludes a saving worth recommending, else "inconclusive"."""
    return "not-shown" if ratio.low is not None and ratio.low > 1 - WORTH else "inconclusive"
