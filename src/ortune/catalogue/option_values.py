"""Checks of the values of execution provider options, by setting."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ortune.catalogue.knob import Knob
from ortune.catalogue.knobs import all_knobs

_SWITCH = {"0": "0", "1": "1", "false": "0", "true": "1"}


def refused_value(provider: str, options: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first option with an invalid value, as (``name=value``, allowed values); None if all are valid.

    A provider accepts many invalid values without an error and ignores the option.
    """
    own = {
        k.key: k for k in all_knobs().values() if k.provider == provider and k.channel == "provider_option"
    }
    for name, value in options.items():
        allowed = _allowed(own[name], value) if name in own else ""
        if allowed:
            return f"{name}={value}", allowed
    return None


def _allowed(knob: Knob, value: str) -> str:
    """Return a text with the allowed values if a value is invalid; "" if the value is valid."""
    if knob.kind == "int":
        if not re.fullmatch(r"-?\d+", value, re.ASCII):
            return "an integer"
        least = knob.minimum if knob.minimum is not None else int(value)
        inside = knob.beyond or least <= int(value) <= knob.maximum
        return "" if inside else f"{knob.minimum} to {knob.maximum}"
    if knob.kind == "text":
        return "" if re.fullmatch(knob.pattern, value) else f"what matches {knob.pattern}"
    spelled = [str(knob.applied(choice).value) for choice in knob.choices]
    switch = {_SWITCH.get(choice) for choice in spelled} == {"0", "1"}
    if knob.beyond or value in spelled or (switch and value.lower() in _SWITCH):
        return ""
    return ", ".join(spelled)
