"""Renames the nodes of a profiled model so that the branches of an If can be distinguished."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ortune.graph.branches import with_names
from ortune.graph.model.save import INLINE_LIMIT_BYTES, save_model
from ortune.measuring.sides import ResolvedSide

MOST_BYTES = 2 << 30
"""Size limit: a larger model is not copied, so its branches are not distinguished."""


def with_distinct_names(side: ResolvedSide, folder: Path) -> ResolvedSide:
    """Return the side with a copy of its model in which branches share no node names, or unchanged if they share none.

    Args:
        side: The side to profile.
        folder: Folder for the copy.
    """
    model = side.opened()
    if model.in_ort_format or model.size_bytes > MOST_BYTES:
        return side
    copy = with_names(model.ir)
    if copy is None:
        return side
    folder.mkdir(parents=True, exist_ok=True)
    # A copy is loaded as the original is: mapping weights and copying them take different times.
    limit_bytes = 0 if model.external else INLINE_LIMIT_BYTES
    save_model(copy, folder / side.runs.name, inline_limit_bytes=limit_bytes)
    return replace(side, runs=folder / side.runs.name)
