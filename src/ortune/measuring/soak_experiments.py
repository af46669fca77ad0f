"""Experiments that find causes of rising memory, by soaking changes with the same calls as the unchanged model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec
import numpy as np

from ortune import targets
from ortune.catalogue import named
from ortune.catalogue.knob import Knob
from ortune.measuring.application_soak import PlayedArm, SoakedScript
from ortune.measuring.measuring import Measuring
from ortune.measuring.soaked import as_series
from ortune.measuring.soaking import ProcessMemory, SoakArm, SoakedProcess
from ortune.records import FreshInput, Plan, SoakChange, SoakExperiment, Value
from ortune.search.plan_edits import with_change
from ortune.stats import soak as soaks
from ortune.stats.pairs import wilcoxon_interval
from ortune.targets.machine import Machine

A = TypeVar("A", SoakArm, PlayedArm)
"""Configuration of one process of a soak, of a model or of an application."""
SETTINGS: Mapping[SoakChange, tuple[Knob, Value]] = {
    "no-arena": (named.ENABLE_CPU_MEM_ARENA, False),
    "arena-shrinkage": (named.MEMORY_ARENA_SHRINKAGE, "cpu:0"),
    "exact-arena": (named.ARENA_EXTEND_STRATEGY, "same_as_requested"),
    "no-pattern": (named.ENABLE_MEM_PATTERN, False),
    "no-kleidiai": (named.DISABLE_KLEIDIAI, True),
    "no-prepacking": (named.DISABLE_PREPACKING, True),
    "one-thread": (named.INTRA_OP_NUM_THREADS, 1),
}
"""Setting and value of each change that consists of one setting."""
ARM = ("aarch64", "arm64")
"""Machine names of processors with KleidiAI."""
ALLOCATORS = ("mimalloc", "jemalloc", "tcmalloc")
LEAST_ROUNDS = 6
"""Minimum number of latency pairs for a confidence interval."""


def experiment_arms(
    measuring: Measuring, fresh: tuple[FreshInput, ...], recreate: int, largest: int
) -> list[tuple[SoakArm, SoakChange, Plan | None]]:
    """Return an arm for the unchanged model, and for each change that applies, each with its change and settings.

    Args:
        measuring: The model.
        fresh: Inputs with new values in each call.
        recreate: Number of calls after which sessions are created again; 0 to keep them.
        largest: Index of the size that added the most memory.
    """
    base = measuring.arm("as-is")
    as_is = SoakArm(arm=base, fresh=fresh, seed=measuring.work.seed, recreate=recreate)
    found: list[tuple[SoakArm, SoakChange, Plan | None]] = []

    def add(change: SoakChange, wanted: SoakArm, delta: Plan | None = None) -> None:
        found.append((wanted.renamed(f"experiment-{change}"), change, delta))

    add("as-is", as_is)
    if fresh:
        add("same-values", replace(as_is, fresh=()))
    if len(base.feeds) > 1:
        add("one-size", replace(as_is, arm=replace(base, feeds=(base.feeds[largest],))))
    if recreate:
        add("kept-sessions", replace(as_is, recreate=0))
    if not base.plan.is_web:
        add("trim", replace(as_is, trim=True))
    settings = settings_for(measuring.machine)
    allocator = allocator_of(measuring.machine)
    if allocator is not None:
        settings.append(("allocator", named.ALLOCATOR, allocator))
    channels = targets.target_of(base.plan).channels
    for change, knob, value in settings:
        if knob.channel not in channels:
            continue
        delta = Plan(settings={knob.name: value})
        plan = with_change(base.plan, delta, Plan())
        # A value that the plan already has is no change.
        if plan is not None and plan != base.plan and base.plan.settings.get(knob.name) != value:
            add(change, replace(as_is, arm=replace(base, plan=plan)), delta)
    return found


def settings_for(machine: Machine) -> list[tuple[SoakChange, Knob, Value]]:
    """Return the one-setting changes that can matter on a machine's processor, with the setting and its value."""
    return [
        (change, knob, value)
        for change, (knob, value) in SETTINGS.items()
        if change != "no-kleidiai" or machine.trial_host.machine in ARM
    ]


def allocator_of(machine: Machine) -> str | None:
    """Return the name of the first alternative allocator on a machine; None without one."""
    return next((name for name in ALLOCATORS if name in machine.allocators), None)


def recorded_nodes(measuring: Measuring, fresh: tuple[FreshInput, ...]) -> SoakArm:
    """Return an arm of the unchanged model that records the memory of each node."""
    arm = replace(measuring.arm("as-is"), name="experiment-nodes")
    return SoakArm(arm=arm, fresh=fresh, seed=measuring.work.seed, nodes=True)


def groups(
    found: Sequence[tuple[A, SoakChange, Plan | None]], most_alive: int
) -> list[list[tuple[A, SoakChange, Plan | None]]]:
    """Split the changes into groups that fit in memory, each of which begins with a copy of the unchanged process."""
    as_is, change, delta = found[0]
    n = max(1, math.ceil((len(found) - 1) / max(1, most_alive - 1)))
    parts: list[list[tuple[A, SoakChange, Plan | None]]] = []
    for part in range(n):
        # Each process needs a folder with its own name.
        own = as_is.renamed(f"experiment-as-is-{part + 1}")
        parts.append([(own, change, delta)])
        parts[-1].extend(found[1 + part :: n])
    return parts


def experiments(
    soaked: Sequence[SoakedProcess | SoakedScript],
    changes: Sequence[tuple[SoakChange, Plan | None]],
    *,
    growing: bool,
) -> list[SoakExperiment]:
    """Return the results of a group: the unchanged model first, then each change compared with it.

    Args:
        soaked: The processes.
        changes: The change of each process.
        growing: Whether the memory of the unchanged model grows steadily; False if it rises to a level.
    """
    if not _has_points(soaked[0]):
        return []
    as_is = as_series(soaked[0]).held
    start = float(as_is.held_bytes[0])
    # A rise to a level is compared as a level, since a change may use more memory from the first call on.
    as_is_bytes = soaks.grown(as_is) if growing else soaks.level(as_is) - start
    least_bytes = soaks.LEAST_GROWTH_BYTES if growing else soaks.ROSE_BYTES
    found = []
    for each, (change, plan) in zip(soaked[1:], changes[1:], strict=True):
        if each.failure is not None or not _has_points(each):
            failed = each.failure.what if each.failure is not None else ""
            found.append(SoakExperiment(change=change, plan=plan, failed=failed))
            continue
        own = as_series(each).held
        rise_bytes = soaks.grown(own) if growing else soaks.level(own) - start
        share, flattens = soaks.explained_share(as_is_bytes, rise_bytes, least_bytes)
        made = SoakExperiment(
            change=change,
            plan=plan,
            calls=each.points[-1].calls,
            rise_bytes=rise_bytes,
            as_is_rise_bytes=as_is_bytes,
            explained=share,
            flattens=flattens,
        )
        # With one size the work differs, so its latency is not comparable.
        found.append(made if change == "one-size" else _with_latency(made, soaked[0], each))
    return found


def _has_points(soaked: ProcessMemory) -> bool:
    return sum(point.calls > 0 for point in soaked.points) > 1


def _with_latency(made: SoakExperiment, as_is: ProcessMemory, changed_: ProcessMemory) -> SoakExperiment:
    """Return the experiment with the latency ratio over the second half of the turns, if these are enough."""
    pairs = [
        (one.latency_ns, other.latency_ns)
        for one, other in zip(changed_.points, as_is.points, strict=False)
        if one.calls == other.calls and one.latency_ns and other.latency_ns
    ]
    pairs = pairs[len(pairs) // 2 :]
    if len(pairs) < LEAST_ROUNDS:
        return made
    interval = wilcoxon_interval([float(np.log(one / other)) for one, other in pairs])
    return msgspec.structs.replace(
        made,
        latency_ratio=interval.ratio,
        latency_low=interval.ratio_low,
        latency_high=interval.ratio_high,
    )
