"""Which execution provider ran which part of a model, in words."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Placement

_MOST_TYPES = 4


def placed(placement: Sequence[Placement]) -> list[str]:
    """One sentence: what the provider that was asked for took, and what stayed on others; none where it is not told."""
    if not placement:
        return []
    total = sum(part.n_nodes for part in placement)
    first, *others = sorted(placement, key=lambda part: part.provider == "CPUExecutionProvider")
    pieces = f" in {first.n_parts} parts" if first.n_parts > 1 else ""
    said = f"{_short(first.provider)} runs {first.n_nodes} of {total} nodes{pieces}"
    if not others:
        return [said if pieces else f"{_short(first.provider)} runs all {total} nodes"]
    stayed = "; ".join(f"{part.n_nodes} stayed on {_short(part.provider)}: {_types(part)}" for part in others)
    return [f"{said}; {stayed}"]


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider")


def _types(part: Placement) -> str:
    ranked = sorted(part.operators.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{count} {name}" for name, count in ranked[:_MOST_TYPES])
    return named + (", ..." if len(ranked) > _MOST_TYPES else "")
