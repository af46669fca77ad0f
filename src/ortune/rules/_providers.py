"""What rules on execution providers have in common."""

from __future__ import annotations

from collections.abc import Mapping

from ortune.catalogue.knob import numbers
from ortune.catalogue.named import WEB_FREE_DIMENSIONS as IN_A_PAGE
from ortune.rewrites.fixed_dimensions import REWRITE as FIXED
from ortune.rewrites.fixed_dimensions import left_open
from ortune.rules.facts import Facts


def options_of(facts: Facts, provider: str) -> Mapping[str, str]:
    """Return what a provider of the plan is given; nothing if it is not named."""
    return next((spec.options for spec in facts.plan.providers if spec.name == provider), {})


def open_inputs(facts: Facts) -> tuple[str, ...]:
    """Return the inputs that are fed and leave a size open, by name, once the plan has fixed what it fixes."""
    assert facts.model is not None
    fixed = [spec.params for spec in facts.plan.rewrites if spec.name == FIXED.name]
    if not all(fixed):
        return ()  # without a name it fixes all that the inputs have
    in_a_page = facts.plan.settings.get(IN_A_PAGE.name)
    return left_open(facts.model.ir, set(numbers(in_a_page) if in_a_page else ()).union(*fixed))
