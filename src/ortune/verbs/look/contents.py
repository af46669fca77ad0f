"""Contents of a model file: operators, the work of one run, and repeated regions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import msgspec

from ortune.graph import regions
from ortune.graph.model.graphs import parameters, stored_bytes, type_name
from ortune.graph.model.open import OpenModel
from ortune.graph.ort_files import inspect
from ortune.inputs import workload
from ortune.inputs.run_cost import run_cost
from ortune.records import ModelCost, OperatorProfile, Workload
from ortune.verbs.look import words as look_words
from ortune.verbs.look.result import LookResult, OperatorEstimate, RepeatedRegion

MOST_REGIONS = 8


def contents(model: OpenModel) -> LookResult:
    """Return a result with all facts that need neither input shapes nor a run of the model."""
    sizes: Counter[str] = Counter()
    count = 0
    for tensor in parameters(model.ir):
        count += tensor.size
        sizes[type_name(tensor.dtype)] += stored_bytes(tensor)
    return LookResult(
        model=model.info,
        parameters=count,
        parameter_bytes=sizes.total(),
        weight_types=dict(sizes.most_common()),
        operators=dict(sorted(model.op_counts.items(), key=lambda item: (-item[1], item[0]))),
        ort_file=inspect(model),
    )


FLOPS_PER_BYTE = 8
"""Approximate number of operations that a CPU executes while it moves one byte, used to estimate shares."""
LEAST_KNOWN = 0.9
"""Minimum fraction of nodes with known work for an estimate."""


def estimated(cost: ModelCost) -> tuple[OperatorEstimate, ...]:
    """Return the estimated share of each operator in a run, the largest first; () if too little is known.

    Args:
        cost: The work of a run, by node.
    """
    nodes = [node for node in cost.nodes if node.times and node.op_type != "Constant"]
    if not nodes or sum(node.known for node in nodes) < LEAST_KNOWN * len(nodes):
        return ()
    work: Counter[str] = Counter()
    for node in nodes:
        moved = node.bytes_read + node.bytes_written
        work[node.op_type] += node.times * max(node.flops, FLOPS_PER_BYTE * moved)
    counts, whole = Counter(node.op_type for node in nodes), work.total()
    return tuple(
        OperatorEstimate(op_type=op, n_nodes=counts[op], share_ratio=units / whole)
        for op, units in work.most_common()
        if units
    )


def with_work(
    result: LookResult, model: OpenModel, work: Workload, stop: Callable[[], bool]
) -> tuple[LookResult, ModelCost | None]:
    """Return the result with the inputs in words and the floating-point operations of one run; and the work by node.

    Args:
        result: Result for the file.
        model: The model.
        work: Inputs of the model.
        stop: Callback that is called at each node; counting stops if it returns True.

    Raises:
        CountingStopped: ``stop`` returned True.
    """
    if not work.cases:
        return with_inputs(result, work), None
    flops, cost = run_cost(model.ir, work, stop)
    complete = not look_words.uncounted(cost)
    counted = msgspec.structs.replace(
        with_inputs(result, work),
        flops=flops if flops or complete else None,
        flops_complete=complete,
        flops_note=look_words.flops_note(cost),
    )
    return counted, cost


def with_inputs(result: LookResult, work: Workload) -> LookResult:
    """Return the result with the inputs in words."""
    return msgspec.structs.replace(result, inputs=workload.describe(work))


def repeated_regions(
    model: OpenModel,
    times: Mapping[str, float],
    cost: ModelCost | None,
    profile: OperatorProfile | None = None,
) -> tuple[RepeatedRegion, ...]:
    """Return the repeated regions of a graph, the largest share of the run first.

    Args:
        model: The model.
        times: Nanoseconds by node; empty to use the estimated operations.
        cost: Estimated operations by node; None if unknown.
        profile: Profile of a run, whose total time shares refer to.
    """
    every = regions.regions(model.ir) if model.info.format == "onnx" else []
    weights = dict(times)
    # Nodes that the optimiser inserted have a time too, and are no nodes of the model.
    total = sum(o.time_ns for o in profile.operators) if times and profile is not None else None
    if not weights and cost is not None:
        weights = {node.called: float(node.flops * node.times) for node in cost.nodes}
    rows = [
        RepeatedRegion(
            copies=region.copies,
            n_nodes=region.n_nodes,
            first=region.nodes[0],
            operators=region.operators,
            share_ratio=regions.share(region, weights, total) if weights else None,
            share_from="profile" if times else "cost",
        )
        for region in every
    ]
    return tuple(
        sorted(rows, key=lambda row: (-(row.share_ratio or 0.0), -row.copies * row.n_nodes))[:MOST_REGIONS]
    )
