"""The optimization levels that may differ from the default for a model."""

from __future__ import annotations

from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knob import OFTEN, Computed

_LAYOUT = (
    "Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "FusedConv",
    "QLinearConv", "ConvInteger", "QLinearAveragePool", "QLinearGlobalAveragePool",
)  # fmt: skip


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    """Return the lower levels that may give a graph different from the default's, each with its prior.

    The level above ``extended`` adds only layout optimizations, and the highest level only those for float16.
    """
    levels = ["basic"] if model.n_nodes > 1 else []
    if model.float16 or model.has(*_LAYOUT):
        levels.append("extended")
    if model.float16:
        levels.append("layout")
    return dict.fromkeys([*levels, "disable"], OFTEN)


COMPUTED: Computed = {"worth": _worth}
