"""Code shared by rules on execution providers."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.catalogue.knob import numbers
from ortune.catalogue.named import WEB_FREE_DIMENSIONS as IN_A_PAGE
from ortune.rewrites.fixed_dimensions import REWRITE as FIXED
from ortune.rewrites.fixed_dimensions import inputs_left_open
from ortune.rules.facts import Facts


def options_of(facts: Facts, provider: str) -> Mapping[str, str]:
    """Return the options of a provider in the plan; empty if the plan does not name it."""
    return next((spec.options for spec in facts.plan.providers if spec.name == provider), {})


def open_inputs(facts: Facts) -> tuple[str, ...]:
    """Return the names of the inputs that keep a dynamic dimension after the plan's fixed sizes."""
    assert facts.model is not None
    fixed = [spec.params for spec in facts.plan.rewrites if spec.name == FIXED.name]
    if not all(fixed):
        return ()  # without parameters, the rewrite fixes all dimensions
    in_a_page = facts.plan.settings.get(IN_A_PAGE.name)
    return inputs_left_open(facts.model.ir, set(numbers(in_a_page) if in_a_page else ()).union(*fixed))
