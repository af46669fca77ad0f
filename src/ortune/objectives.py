"""What can be made better: the values of ``--objective``. Standard library alone."""

from __future__ import annotations

from typing import Literal, get_args

Objective = Literal[
    "latency",
    "p95",
    "throughput",
    "cold-start",
    "first-result",
    "main-thread",
    "event-loop",
    "memory",
    "memory:idle",
    "memory:released",
    "cpu",
]

HistoryObjective = Literal[Objective, "memory-growth"]
"""Of ``ortune history``, which also finds the release in which memory began to grow."""

OF_MEMORY: tuple[Objective, ...] = ("memory", "memory:idle", "memory:released")
"""Objectives that are sizes: the peak, what is held between runs, and what stays when sessions are deleted."""
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
