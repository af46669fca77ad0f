"""The layers of a graph that a provider compiled, timed by the provider's own counters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ortune import targets
from ortune.errors import OrtuneError
from ortune.measuring.sides import ResolvedSide
from ortune.records import CompiledGraph, CompiledLayer, FeedRef, Placement
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

LIMIT_S = 120.0
IN_PARTS = "in-parts"
"""Reason for no layers: the provider runs only a part of the model, or several parts."""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The file that the worker writes; each layer is (name, kind, kernel, number type, nanoseconds)."""

    layers: tuple[tuple[str, str, str, str, float], ...]
    runs: int


def compiled_graph(
    side: ResolvedSide,
    placement: Sequence[Placement],
    feeds: Sequence[FeedRef],
    custom_ops: tuple[str, ...],
    scratch: Path,
) -> tuple[CompiledGraph | None, str]:
    """Return the layers that a side's provider compiled, and the reason if there are none.

    The reason is "" for a provider that does not time layers.

    Args:
        side: The profiled side.
        placement: The nodes of each provider, as the first run reported them.
        feeds: Inputs of the workload; only the first inputs are run.
        custom_ops: Libraries that the model needs.
        scratch: Folder for the worker's file.
    """
    provider = targets.target_of(side.plan).provider
    if not provider.layer_task:
        return None, ""
    if len(placement) != 1 or placement[0].n_parts != 1:
        return None, IN_PARTS
    place = scratch / f"compiled-layers-{side.plan.id}.json"
    tool = ToolProcess(
        runtime=side.runtime, folder=scratch, plan=side.plan, custom_ops=custom_ops, feeds=tuple(feeds[:1]),
        limits=Limits(load_s=LIMIT_S),
    )  # fmt: skip
    try:
        tool(provider.layer_task, side.runs, place, {})
        answer = msgspec.json.decode(place.read_bytes(), type=_Answer)
    except OrtuneError as error:
        return None, error.what
    rows = [
        CompiledLayer(name=name, kind=kind, kernel=kernel, precision=precision, time_ns=time_ns)
        for name, kind, kernel, precision, time_ns in answer.layers
    ]
    return CompiledGraph(provider=provider.name, layers=tuple(rows), n_runs=answer.runs), ""
