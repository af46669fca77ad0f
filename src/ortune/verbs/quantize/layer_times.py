"""Times of each node of the float and the quantized model, from two profiles measured in alternation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortune.engines.profiling.nodes import find_origins, profiled_nodes
from ortune.engines.profiling.processes import ProfiledProcess, profile, profiled_arm, runs_for
from ortune.errors import OrtuneError
from ortune.graph.model.open import open_model
from ortune.measuring.measuring import Measuring
from ortune.measuring.sides import ResolvedSide
from ortune.records import Plan
from ortune.search.blocks import BASE
from ortune.search.figures import figure
from ortune.verbs.quantize.steps_words import no_layer_times

TIMED_NS = 400_000_000


def layer_times(baseline: Measuring, plan: Plan, path: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return two mappings from node name to nanoseconds per run: float model, quantized model; empty if that fails.

    Args:
        baseline: Measurement of the float model. A failure is added to its notes.
        plan: Plan of the quantized model.
        path: File of the quantized model.
    """
    side = baseline.side
    sides = (side, replace(side, model=open_model(path), runs=path, plan=plan))
    arms = [
        profiled_arm(baseline, baseline.arm(BASE)),
        profiled_arm(baseline, baseline.arm("bits", plan=plan, model=path)),
    ]
    latency_ns = figure(baseline.pilot.first, "median") or 1e6
    n_nodes = max(len(side.model.ir.graph) for side in sides)
    keep = [baseline.scratch / f"layers-{number}.json" for number in range(2)]
    try:
        processes = profile(baseline, arms, runs_for(latency_ns, n_nodes, TIMED_NS), keep)
    except OrtuneError as error:
        baseline.note(no_layer_times(error.what))
        return {}, {}
    finally:
        for place in keep:
            place.unlink(missing_ok=True)
    before, after = (_by_node(baseline, *pair) for pair in zip(sides, processes, strict=True))
    return before, after


def _by_node(baseline: Measuring, side: ResolvedSide, process: ProfiledProcess) -> dict[str, float]:
    """Map node names to nanoseconds per run; the time of a fused node is divided equally among its origins."""
    folder = baseline.scratch / "layers"
    folder.mkdir(exist_ok=True)
    node_origins = find_origins(side, baseline.work, folder, process.trace, process.graph)
    times: dict[str, float] = {}
    for node in profiled_nodes(process.trace, process.attribution, node_origins):
        names = node.originals or (node.name,)
        for name in names:
            times[name] = times.get(name, 0.0) + node.time_ns / len(names)
    return times
