"""What can be made better: the values of ``--objective``. Standard library alone."""

from __future__ import annotations

from typing import Literal, get_args

Objective = Literal[
    "latency", "p95", "throughput", "cold-start", "first-result", "main-thread", "memory", "cpu"
]

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
