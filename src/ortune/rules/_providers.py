"""What rules on execution providers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.model.open import OpenModel
from ortune.rules.facts import Facts

ON_THE_CPU = ("cpu", "web-wasm")
"""Targets that run ONNX Runtime's own provider for CPUs: WebAssembly has the same."""


def options_of(facts: Facts, provider: str) -> Mapping[str, str]:
    """What a provider of the plan is given; nothing where it is not named."""
    return next((spec.options for spec in facts.plan.providers if spec.name == provider), {})


def open_inputs(model: OpenModel) -> tuple[str, ...]:
    """The inputs that are fed and leave a size open, by name."""
    return tuple(
        value.name or ""
        for value in model.ir.graph.inputs
        if not value.is_initializer() and value.shape is not None and not value.shape.is_static()
    )
