"""Prior probabilities that a setting helps, adjusted by the setting's effect on measured models.

``priors.json`` contains the ratio to the default of each setting on each model on which it was measured;
``benchmarks/priors.py`` writes the file. A few models prove nothing about another model, so the measurements only
adjust the prior that a setting has by its kind. Models of similar latency have more weight, since latency is the best
indication of similarity: another memory allocator helped only for runs of a tenth of a millisecond.
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
"""Minimum gain at which a setting counts as helping on a model, as a fraction."""
WEIGHT = 3.0
"""Weight of the prior by kind, as a number of models."""
ALIKE = 4.0
"""Ratio of latencies at which a model has 0.6 of the weight of one with equal latency; at a ratio of 16, 0.14."""


class MeasuredPriors(msgspec.Struct, frozen=True, kw_only=True):
    """Measured effects of settings, the content of ``priors.json``.

    Attributes:
        date: Date of the last measurement.
        effects: Ratio to the default by setting and model; below 1 is faster.
        latency_ns: Default latency by model, in nanoseconds.
    """

    date: str = ""
    effects: dict[str, dict[str, float]] = {}
    latency_ns: dict[str, float] = {}


@functools.cache
def measured() -> MeasuredPriors:
    """Read the table from the package; cached."""
    return (
        msgspec.json.decode(TABLE.read_bytes(), type=MeasuredPriors) if TABLE.is_file() else MeasuredPriors()
    )


def key(settings: Mapping[str, Value], cpus: int) -> str:
    """Return the key of settings in the table, in which a number of threads equal to the CPUs is ``{cpus}``."""
    parts = []
    for name, value in sorted(settings.items()):
        text = str(int(value)) if isinstance(value, bool) else str(value)
        threads = knobs.find(name).threads and value == cpus > 1
        parts.append(f"{name}={'{cpus}' if threads else text}")
    return ",".join(parts)


def adjusted(
    prior: float, settings: Mapping[str, Value], cpus: int, latency_ns: float | None = None
) -> float:
    """Return the prior of a change, adjusted by the fraction of measured models on which it helped.

    Args:
        prior: Prior by the kind of the setting.
        settings: The change.
        cpus: CPUs available to the process.
        latency_ns: Latency of the model with the default settings; None weights all measured models equally.
    """
    # With a prior of 0.2 and one similar model: (3 x 0.2 + 1) / 4 = 0.40 if it helped there, 0.15 if not.
    ratios = measured().effects.get(key(settings, cpus), {})
    weights = {model: _weight(measured().latency_ns.get(model), latency_ns) for model in ratios}
    paid = sum(weights[model] for model, ratio in ratios.items() if ratio < 1 - PAYS)
    return (WEIGHT * prior + paid) / (WEIGHT + sum(weights.values()))


def _weight(theirs_ns: float | None, ours_ns: float | None) -> float:
    if not theirs_ns or not ours_ns:
        return 1.0
    return math.exp(-0.5 * (math.log(theirs_ns / ours_ns) / math.log(ALIKE)) ** 2)
