"""Why B is faster or slower than A: both under the profiler, turn by turn, after the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ortune import monotonic
from ortune.durations import in_words
from ortune.engines.profiling.gpu import gpu_difference
from ortune.engines.profiling.nodes import Origins, counterparts_of, origins
from ortune.engines.profiling.processes import Process, profile, profiled_arm, runs_for, slowdown
from ortune.engines.profiling.result import difference_of, side_times
from ortune.errors import MeasurementError
from ortune.measuring.budget import UNLIMITED, Budget
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import Resolved
from ortune.records import ProfileDifference
from ortune.search.phases import PROFILED_TRIALS

PROCESSES = 5  # with three, chance alone hides a node that takes three times as long among three hundred
TIMED_NS = 300_000_000


def why(
    baseline: Measuring,
    sides: tuple[Resolved, Resolved],
    arms: tuple[Arm, Arm],
    latencies_ns: tuple[float, float],
    plain_ns: float | None,
    line: Callable[[str], None],
    *,
    processes: int = PROCESSES,
    trial_ns: float = 0.0,
    budget: Budget = UNLIMITED,
) -> ProfileDifference:
    """Return where the time went, B minus A.

    Args:
        baseline: Whose workload both run.
        sides: A and B.
        arms: Theirs.
        latencies_ns: Of a run without the profiler.
        plain_ns: B minus A without the profiler; None if that is not known.
        line: Says which process it is.
        processes: Of each side at most, one at least.
        trial_ns: The length of a trial without the profiler, from which that of the first processes is expected.
        budget: The budget of the command: no process is begun in less time than the one before took.

    Raises:
        MeasurementError: The time that is left holds no process.
        OrtuneError: A side does not run under the profiler.
    """
    processes_of: tuple[list[Process], list[Process]] = ([], [])
    runs = min(
        runs_for(ns, side.model.info.n_nodes, TIMED_NS) for ns, side in zip(latencies_ns, sides, strict=True)
    )
    took_s = 1e-9 * PROFILED_TRIALS * trial_ns
    for turn in range(processes):
        if took_s > budget.left_s:
            break
        began = monotonic.now_s()
        line(f"profiling, process {turn + 1} of {processes}")
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
    # Of several shapes the latencies are those of the mix, and the first alone is profiled.
    mix = len(baseline.work.cases) > 1
    difference = difference_between(sides, processes_of, graphs, None if mix else plain_ns)
    if mix:
        difference = msgspec.structs.replace(difference, a_slowdown_ratio=None, b_slowdown_ratio=None)
    return msgspec.structs.replace(
        difference, gpu=gpu_difference(processes_of, graphs, counterparts_of(*sides))
    )


def difference_between(
    sides: Sequence[Resolved],
    processes: Sequence[Sequence[Process]],
    graphs: Sequence[Origins],
    plain_ns: float | None = None,
) -> ProfileDifference:
    """Return where the time of two sides went, B minus A; of one model under two plans each is called by its plan.

    Args:
        sides: A and B.
        processes: Of each.
        graphs: What is known of the graph that each ran.
        plain_ns: B minus A without the profiler; None if that is not known.
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


def _origins(baseline: Measuring, side: Resolved, process: Process) -> Origins:
    folder = baseline.scratch / "why"
    folder.mkdir(exist_ok=True)
    return origins(side, baseline.work, folder, process.trace, process.graph)
