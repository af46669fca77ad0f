"""Profiles both sides in turn after the verdict, to find why B is faster or slower than A."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ortune import monotonic
from ortune.durations import in_words
from ortune.engines.profiling.gpu import gpu_difference
from ortune.engines.profiling.nodes import NodeOrigins, counterparts_of, find_origins
from ortune.engines.profiling.processes import ProfiledProcess, profile, profiled_arm, runs_for, slowdown
from ortune.engines.profiling.result import difference_of, side_times
from ortune.errors import MeasurementError
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide
from ortune.records import ProfileDifference, messages
from ortune.search.phases import PROFILED_TRIALS

PROCESSES = 5  # with three, chance could hide a node that takes three times as long among three hundred
TIMED_NS = 300_000_000


def explain_difference(
    baseline: Measuring,
    sides: tuple[ResolvedSide, ResolvedSide],
    arms: tuple[Arm, Arm],
    latencies_ns: tuple[float, float],
    plain_ns: float | None,
    *,
    processes: int = PROCESSES,
    trial_ns: float = 0.0,
    budget: Budget = UNLIMITED,
) -> ProfileDifference:
    """Profile both sides, and return the difference of their times by node, B minus A.

    Args:
        baseline: The measurement with the workload of both.
        sides: A and B.
        arms: The arms of A and B.
        latencies_ns: Duration of a run without the profiler, for each side.
        plain_ns: Difference of the latencies without the profiler, B minus A; None if unknown.
        processes: Maximum number of processes per side, at least one.
        trial_ns: Duration of a trial without the profiler, from which the time of the first processes is estimated.
        budget: The budget of the command; no process is started if less time is left than the previous one took.

    Raises:
        MeasurementError: The time left is too short for a process.
        OrtuneError: A side fails under the profiler.
    """
    processes_of: tuple[list[ProfiledProcess], list[ProfiledProcess]] = ([], [])
    runs = min(
        runs_for(ns, side.model.info.n_nodes, TIMED_NS) for ns, side in zip(latencies_ns, sides, strict=True)
    )
    took_s = 1e-9 * PROFILED_TRIALS * trial_ns
    for turn in range(processes):
        if took_s > budget.left_s:
            break
        began = monotonic.now_s()
        baseline.line(messages.ProfilingProcess(number=turn + 1, most=processes))
        keep = [baseline.scratch / f"why-{number}-{turn}.json" for number in range(2)]
        pair = profile(baseline, [profiled_arm(baseline, arm) for arm in arms], runs, keep)
        for mine, process, path in zip(processes_of, pair, keep, strict=True):
            mine.append(process)
            path.unlink(missing_ok=True)
        took_s = monotonic.now_s() - began
    if not processes_of[0]:
        raise MeasurementError(
            f"profiling both takes {in_words(took_s)} and {in_words(max(0.0, budget.left_s))} are left"
        )
    graphs = [_origins(baseline, side, mine[0]) for side, mine in zip(sides, processes_of, strict=True)]
    # With several shapes the latencies are those of the mix, but only the first is profiled.
    mix = len(baseline.work.cases) > 1
    difference = difference_between(sides, processes_of, graphs, None if mix else plain_ns)
    if mix:
        difference = msgspec.structs.replace(difference, a_slowdown_ratio=None, b_slowdown_ratio=None)
    return msgspec.structs.replace(
        difference, gpu=gpu_difference(processes_of, graphs, counterparts_of(*sides))
    )


def difference_between(
    sides: Sequence[ResolvedSide],
    processes: Sequence[Sequence[ProfiledProcess]],
    graphs: Sequence[NodeOrigins],
    plain_ns: float | None = None,
) -> ProfileDifference:
    """Return the time difference of two sides, B minus A; sides with the same label are named by their plans.

    Args:
        sides: A and B.
        processes: The profiled processes of each side.
        graphs: The origins of the nodes of each side.
        plain_ns: Difference of the latencies without the profiler, B minus A; None if unknown.
    """
    same = sides[0].label == sides[1].label
    a, b = (
        side_times(
            f"{side.label} ({side.plan.describe()})" if same else side.label,
            [(process.trace, process.attribution) for process in mine],
            graph,
        )
        for side, mine, graph in zip(sides, processes, graphs, strict=True)
    )
    slowdowns = [slowdown(mine) for mine in processes]
    return difference_of(a, b, slowdowns, plain_ns, counterparts_of(sides[0], sides[1]))


def _origins(baseline: Measuring, side: ResolvedSide, process: ProfiledProcess) -> NodeOrigins:
    folder = baseline.scratch / "why"
    folder.mkdir(exist_ok=True)
    return find_origins(side, baseline.work, folder, process.trace, process.graph)
