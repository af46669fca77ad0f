"""Origins of the plans that a tuning tries, and the note on a mended default."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.printable import amount

IN_ROWS = "batches in parts"
REQUESTED = "the requested default"
ALL_AFTER, ALL_BEFORE = "all after them", "all before them"


def number_types(plan: str) -> str:
    """Return the origin of a plan with other number types."""
    return f"number types of {plan}"


def rewrite(name: str, plan: str, reason: str) -> str:
    """Return the origin of a rewrite on another target."""
    return f"rewrite {name} on {plan}: {reason}"


def islands(n: int, provider: str) -> str:
    """Return the number of nodes on the CPU between nodes on another execution provider."""
    count = amount(n, "node")
    return f"{count} on the CPU between nodes on {provider}"


def one_border(what: str, side: str) -> str:
    """Return the origin of a plan that keeps one side of such nodes on the CPU as well."""
    return f"{what}, {side} on the CPU too"


def mended(names: Sequence[str]) -> str:
    """Return the note that rewrites correct the model at the requested level."""
    return f"after {', '.join(names)} the model is right at the requested level, so every level is measured again"
