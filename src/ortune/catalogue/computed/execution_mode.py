"""Whether parallel mode is worth trying on a model."""

from __future__ import annotations

from ortune.catalogue.facts import ModelFacts
from ortune.catalogue.knob import OFTEN, SELDOM, Computed


def _worth(model: ModelFacts, ort_version: str) -> dict[str, float]:
    return {"parallel": OFTEN if model.parallelism_ratio >= 2 else SELDOM} if model.wide else {}


COMPUTED: Computed = {"worth": _worth}
