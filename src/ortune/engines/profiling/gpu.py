"""Counts and compares the GPU kernels in profiles, since host times only measure how kernels are queued."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortune import targets
from ortune.catalogue.providers import WEB_WEBGPU
from ortune.engines.profiling.kernels import kernels_a_run, with_kernel_times
from ortune.engines.profiling.nodes import NodeOrigins
from ortune.engines.profiling.processes import LEAST_OF_TURN, ProfiledProcess, profile, profiled_arm
from ortune.engines.profiling.result import difference_of, side_times
from ortune.errors import OrtuneError
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.records import GpuDifference, messages


def kernels_by_side(baseline: Measuring, sides: Mapping[str, Arm]) -> tuple[dict[str, int], dict[str, str]]:
    """Count the GPU kernels of one run in a browser page; return the counts and the errors, each by side.

    Args:
        baseline: Baseline whose processes run the sides.
        sides: Arms by name; arms with a provider other than WebGPU are skipped.
    """
    counts: dict[str, int] = {}
    trouble: dict[str, str] = {}
    for name, arm in sides.items():
        if targets.target_of(arm.plan).provider != WEB_WEBGPU:
            continue
        baseline.line(messages.CountingKernels(side=name))
        try:
            place = baseline.scratch / f"kernels-{arm.name}"
            (process,) = profile(baseline, [profiled_arm(baseline, arm)], LEAST_OF_TURN, [place])
        except OrtuneError as error:  # outputs and placement are still an answer
            trouble[name] = error.what
            continue
        if (count := kernels_a_run(process.trace)) is not None:
            counts[name] = count
    return counts, trouble


def gpu_difference(
    sides: tuple[Sequence[ProfiledProcess], Sequence[ProfiledProcess]],
    graph_origins: Sequence[NodeOrigins],
    counterparts: Mapping[str, str] | None,
) -> GpuDifference | None:
    """Compare GPU kernels of both sides, B minus A; None if a side has no kernels with known nodes.

    Args:
        sides: The profiled processes of each side.
        graph_origins: The origins of each side's nodes.
        counterparts: Maps nodes of B whose name differs in A to the name in A.
    """
    counts = [kernels_a_run(mine[0].trace) for mine in sides]
    every = [process.trace for mine in sides for process in mine]
    if None in counts or any(trace.device_only or not len(trace.kernels.row) for trace in every):
        return None
    a, b = (
        side_times("", [(p.trace, with_kernel_times(p.trace, p.attribution)) for p in mine], origins)
        for mine, origins in zip(sides, graph_origins, strict=True)
    )
    rows = difference_of(a, b, counterparts=counterparts)
    return GpuDifference(
        a_ns=rows.a_wall_ns,
        b_ns=rows.b_wall_ns,
        low_ns=rows.low_ns,
        high_ns=rows.high_ns,
        a_kernels=counts[0] or 0,
        b_kernels=counts[1] or 0,
        nodes=rows.nodes,
    )
