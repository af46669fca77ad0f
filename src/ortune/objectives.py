"""Values of ``--objective``: the measures to optimize. Uses only the standard library."""

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
"""Objectives of ``ortune history``, which also finds the release in which memory began to grow."""

OF_MEMORY: tuple[Objective, ...] = ("memory", "memory:idle", "memory:released")
"""Objectives that are sizes: the peak, the memory between runs, and the memory left after sessions are deleted."""
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
