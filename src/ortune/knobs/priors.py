"""How likely a setting is to pay, from what it was worth on real models.

``priors.json`` holds, for each setting, its ratio to the default on each model on which it was measured;
``benchmarks/priors.py`` makes it. A handful of models prove nothing about another one, so what was measured only moves
the prior that a setting has by its kind.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune import knobs
from ortune.records import Value

TABLE = Path(__file__).parent / "priors.json"
PAYS = 0.01
"""The gain from which on a setting paid on a model."""
WEIGHT = 3.0
"""Models that the prior by kind counts for."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The table: setting -> model -> ratio to the default, below 1 is faster."""

    effects: dict[str, dict[str, float]] = {}


@functools.cache
def measured() -> Measured:
    """The table as it is in the package."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Measured) if TABLE.is_file() else Measured()


def key(settings: Mapping[str, Value], cpus: int) -> str:
    """The settings' name in the table; numbers of threads are told by the number of CPUs."""
    parts = []
    for name, value in sorted(settings.items()):
        text = str(int(value)) if isinstance(value, bool) else str(value)
        threads = knobs.find(name).threads and value == cpus > 1
        parts.append(f"{name}={'{cpus}' if threads else text}")
    return ",".join(parts)


def moved(prior: float, settings: Mapping[str, Value], cpus: int) -> float:
    """The prior of a change, moved by the share of the measured models on which it paid."""
    ratios = measured().effects.get(key(settings, cpus), {}).values()
    paid = sum(ratio < 1 - PAYS for ratio in ratios)
    return (WEIGHT * prior + paid) / (WEIGHT + len(ratios))
