"""Blocks of a session for charts, with the values of the default, the current plan, and the winner or leader."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortune.records import BlockPoint
from ortune.show import sides
from ortune.show.numbers import duration, memory
from ortune.verbs._shared import tune_facts
from ortune.verbs.tune.result import TuneResult

# Blocks name their arms by role, or by plan id in the race, where arms are not fixed.
ROLES = {
    "default": ("default", "base"),
    "current": ("current", "today"),
    "winner": ("winner", "new"),
    "leader": ("winner", "new"),
}
HUES = {"leader": "winner"}
"""Hues of the roles whose hue has another name."""


def value(result: TuneResult, point: BlockPoint, role: str) -> float | None:
    """Return the value of a role (a key of ``ROLES``) in a block; None if the block does not contain it."""
    plan = {
        "default": result.default,
        "current": result.current,
        "winner": result.winner,
        "leader": result.refused.plan if result.refused is not None else None,
    }[role]
    names = [*ROLES[role], *([plan.id] if plan is not None else [])]
    if role == "winner" and plan == result.current:
        names += ROLES["current"]
    return next((point.values[name] for name in names if name in point.values), None)


def roles(result: TuneResult) -> tuple[str, ...]:
    """Return the roles with distinct plans; the last is the winner, or the leader if it was refused."""
    names = ["default"]
    if tune_facts.current_plan(result) is not None:
        names.append("current")
    if result.winner not in (result.default, result.current):
        names.append("winner")
    if result.refused is not None:
        names.append("leader")
    return tuple(names)


def role_words(result: TuneResult, role: str) -> str:
    """Return the name of a role for a chart."""
    if role == "current" and result.winner == result.current:
        return "current, the winner"
    return tune_facts.default_name(result) if role == "default" else role


def counting(points: Sequence[BlockPoint]) -> tuple[BlockPoint, ...]:
    """Return the blocks to draw, without dropped blocks: the confirmation's, or all if nothing was confirmed."""
    good = tuple(p for p in points if not p.dropped)
    return tuple(p for p in good if p.phase == "confirm") or good


def words(result: TuneResult) -> Callable[[float], str]:
    """Return a function that formats a value of the tuning's statistic with its unit."""
    return memory if sides.kind(result.statistic) == "memory" else duration


def shown(result: TuneResult, number: float | None) -> str:
    """Return a value of the tuning's statistic as text; "" for None."""
    return "" if number is None else words(result)(number)


def middle(result: TuneResult, role: str) -> tuple[float | None, float | None, float | None]:
    """Return (median, lower quartile, upper quartile) of a role in the statistic's unit; None for unknown values."""
    figures = {
        "default": result.default_figures,
        "current": result.current_figures,
        "winner": result.winner_figures,
        "leader": result.refused.figures if result.refused is not None else None,
    }[role]
    if figures is None:
        return None, None, None
    kind = sides.kind(result.statistic)
    if kind == "memory":
        return figures.peak_bytes, None, None
    if kind == "cpu":
        return figures.cpu_per_run_ns, None, None
    if kind == "cold":
        return figures.load_ns + figures.first_run_ns, None, None
    if figures.objective_ns is not None:
        return figures.objective_ns, figures.objective_low_ns, figures.objective_high_ns
    return figures.latency_ns, figures.latency_low_ns, figures.latency_high_ns
