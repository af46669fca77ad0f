"""Prior probabilities that a setting pays, from its effect on real models.

``priors.json`` holds, for each setting, its ratio to the default on each model on which it was measured;
``benchmarks/priors.py`` writes it. A handful of models prove nothing about another one, so the measurements only move
the prior that a setting has by its kind. Models are weighted by similar latency, the best indication of similarity:
another memory allocator paid for runs of a tenth of a millisecond, and for no others.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ortune.catalogue import knobs
from ortune.records import Value

TABLE = Path(__file__).parent / "priors.json"
PAYS = 0.01
"""The gain from which on a setting paid on a model."""
WEIGHT = 3.0
"""Models that the prior by kind counts for."""
ALIKE = 4.0
"""A model whose run is so many times as long or short as here counts 0.6 of what one alike does; at 16 times, 0.14."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The table.

    Attributes:
        date: When the effects were measured last.
        effects: Setting -> model -> ratio to the default, below 1 is faster.
        latency_ns: Model -> what a run took by default.
    """

    date: str = ""
    effects: dict[str, dict[str, float]] = {}
    latency_ns: dict[str, float] = {}


@functools.cache
def measured() -> Measured:
    """Return the table as it is in the package."""
    return msgspec.json.decode(TABLE.read_bytes(), type=Measured) if TABLE.is_file() else Measured()


def key(settings: Mapping[str, Value], cpus: int) -> str:
    """Return the key of settings in the table; a number of threads equal to that of CPUs is written ``{cpus}``."""
    parts = []
    for name, value in sorted(settings.items()):
        text = str(int(value)) if isinstance(value, bool) else str(value)
        threads = knobs.find(name).threads and value == cpus > 1
        parts.append(f"{name}={'{cpus}' if threads else text}")
    return ",".join(parts)


def moved(prior: float, settings: Mapping[str, Value], cpus: int, latency_ns: float | None = None) -> float:
    """Return the prior of a change, moved by the share of the measured models on which it paid.

    Args:
        prior: Prior by the kind of the setting.
        settings: The change.
        cpus: CPUs available to the process.
        latency_ns: Latency of the model with the default settings; None weights all measured models equally.
    """
    # A prior of 0.2 and one model alike: (3 x 0.2 + 1) / 4 = 0.40 where it paid there, 0.15 where it did not.
    ratios = measured().effects.get(key(settings, cpus), {})
    weights = {model: _weight(measured().latency_ns.get(model), latency_ns) for model in ratios}
    paid = sum(weights[model] for model, ratio in ratios.items() if ratio < 1 - PAYS)
    return (WEIGHT * prior + paid) / (WEIGHT + sum(weights.values()))


def _weight(theirs_ns: float | None, ours_ns: float | None) -> float:
    if not theirs_ns or not ours_ns:
        return 1.0
    return math.exp(-0.5 * (math.log(theirs_ns / ours_ns) / math.log(ALIKE)) ** 2)
