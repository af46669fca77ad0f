"""What is tried on a recorded application, in the order of what usually helps most, and what its blocks say.

A block is one play of each arm, in random order; ratios are of the same block, candidate / recorded.
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
"""Of a stage: what it keeps is only kept for the confirmation."""
LEAST_BLOCKS = 6
"""Of a confirmation: fewer reach no 95 % without assumptions."""
MOST_BLOCKS = 20
WORTH = 0.02
"""A change that saves less is not recommended."""
NOT_WORSE = 0.05
"""A figure that does not decide may rise by so much."""
MEMORY_WORSE = 0.10
"""Memory that rises by more is named."""

Verdict = Literal["faster", "not-shown", "inconclusive"]
Form = Literal["lists", "strides", "batches"]
"""What a program does with its inputs, and only its developers can change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a search needs to know of an application and its machine.

    Attributes:
        cpus: CPUs of the machine.
        processes: Processes that run at once.
        shareable: Whether a process creates equal sessions several times.
        pools: Whether a session has threads of its own.
        arena_off: Whether a session was created without the arena.
        many_shapes: Whether a session is called with several shapes.
        forms: What else of the calls a replay can change.
        models: For each stage of one model, its execution providers or its rewrites, the number of candidates.
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
    """A ratio with its 95 % interval; without ends if there are too few blocks for one."""

    value: float
    low: float | None = None
    high: float | None = None
    n_blocks: int = 0


def stages(seen: Seen) -> list[list[dict[str, Value | Literal["share"]]]]:
    """Return what is tried: each stage on top of what the stage before kept.

    Sharing is spelled ``{"share": "share"}``; all else are settings of every session.
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


def n_plays(seen: Seen) -> int:
    """Return the number of plays that a budget should hold: a pilot, the stages, a confirmation, and the forms."""
    sizes = [*map(len, stages(seen)), *seen.models]
    stages_plays = sum(SCREEN_BLOCKS * (1 + size) for size in sizes)
    return 2 + stages_plays + 3 * LEAST_BLOCKS + 2 * LEAST_BLOCKS * len(seen.forms)


KINDS: Mapping[str, ReplayedKind] = {
    THREADS.name: "pool",
    SPINNING.name: "spinning",
    ARENA.name: "arena",
    PATTERNS.name: "patterns",
}
"""What a setting says of an application that was recorded without it."""


def ratio_of(new: Sequence[float], base: Sequence[float]) -> Ratio:
    """Return the ratio of paired figures, one of each block."""
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
    """Return what a stage compares: CPU time where other programs use the CPUs, else both alike."""
    return cpu.value if busy else math.sqrt(cpu.value * wall.value)


def same(again: Sequence[float], base: Sequence[float]) -> bool:
    """Return whether the recorded settings do not differ from themselves."""
    return identical_control(np.log(np.asarray(again, dtype=float) / np.asarray(base, dtype=float))).ok


def judged(cpu: Ratio, wall: Ratio, *, busy: bool) -> Verdict:
    """Return what a confirmation says.

    On a busy machine CPU time decides alone, unless the time in ONNX Runtime is known to rise. Elsewhere one of the two
    must fall, and the other must not rise.
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
    """Return whether an interval excludes a gain that is worth having."""
    return "not-shown" if ratio.low is not None and ratio.low > 1 - WORTH else "inconclusive"
