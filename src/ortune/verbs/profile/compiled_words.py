"""The layers inside the part that an execution provider compiled, with the number type of each, in words."""

from __future__ import annotations

from ortune.catalogue.providers import short_name
from ortune.engines.profiling.compiled import IN_PARTS
from ortune.printable import amount
from ortune.records import CompiledGraph, Plan, ProfileResult
from ortune.show.document import Block, Cell, Column, Line, Table, table
from ortune.show.numbers import duration, percent, shorten
from ortune.show.profile_nodes import NAME

UNKNOWN = "an unreported type"
MOST = 25
COLUMNS = (Column("layer", "name"), Column("type", "label"), Column("time"), Column("share"))


def by_type(graph: CompiledGraph) -> str:
    """Return a sentence with the fraction of the time spent in each number type, largest first."""
    whole = sum(layer.time_ns for layer in graph.layers)
    times: dict[str, float] = {}
    for layer in graph.layers:
        name = layer.precision or UNKNOWN
        times[name] = times.get(name, 0.0) + layer.time_ns
    parts = [
        f"{percent(ns / whole, 0)} {'of the time ' if i == 0 else ''}in {name}"
        for i, (name, ns) in enumerate(sorted(times.items(), key=lambda item: -item[1]))
        if ns > 0.005 * whole
    ]
    counted = f"{amount(len(graph.layers), 'layer')}, its own counters over {amount(graph.n_runs, 'run')}"
    if not parts:  # counters are in microseconds
        return f"{short_name(graph.provider)} takes less than a microsecond for each layer ({counted})"
    return f"{short_name(graph.provider)} computes {', '.join(parts)} ({counted})"


def layers(graph: CompiledGraph, most: int, after: int = 0) -> Table:
    """Return a table of the ``most`` most expensive layers, without the first ``after`` of them."""
    whole = sum(layer.time_ns for layer in graph.layers) or 1.0
    top = sorted(graph.layers, key=lambda layer: -layer.time_ns)[after:most]
    rows = [
        [
            Cell(shorten(layer.name, NAME), f"{layer.kind}, {layer.kernel}"),
            Cell(layer.precision),
            Cell(duration(layer.time_ns), order=layer.time_ns),
            Cell(percent(layer.time_ns / whole), order=layer.time_ns),
        ]
        for layer in top
    ]
    which = f"the next {len(rows)}" if after else f"the most expensive {len(rows)}"
    title = f"layers inside {short_name(graph.provider)} ({which} of {len(graph.layers)})" if rows else ""
    return table(COLUMNS, rows, title=title, dense=True)


def blocks(result: ProfileResult, most: int) -> list[Block]:
    """Return a line on number types and a table of the ``most`` most expensive layers; [] if none were reported."""
    graph = result.compiled
    return [] if graph is None or not graph.layers else [Line(by_type(graph)), layers(graph, most)]


def more(result: ProfileResult, after: int) -> list[Block]:
    """Return a table of the layers that follow the ``after`` most expensive; [] if no layers were reported."""
    return [] if result.compiled is None else [layers(result.compiled, MOST, after)]


def missing(plan: Plan, why: str) -> list[str]:
    """Return a note that says why the layers inside the provider's part are unknown; [] without a reason."""
    reason = "it does not run the whole model" if why == IN_PARTS else why
    return [f"layers inside {short_name(plan.provider_names[0])} are not listed: {reason}"] if why else []
