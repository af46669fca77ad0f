"""Neighbouring values of a numeric setting, which the search tries around the leading plan."""

from __future__ import annotations

from ortune.catalogue.knob import Knob
from ortune.records import Value


def neighbours(knob: Knob, value: Value, cpus: int) -> list[Value]:
    """Return the next lower and next higher value of a numeric setting; [] for other settings."""
    if knob.kind != "int" or isinstance(value, bool) or not isinstance(value, int):
        return []
    # Threads change by one and never exceed the CPUs; other numbers are halved and doubled.
    near = [value - 1, value + 1] if knob.threads else [value // 2, value * 2]
    least = max(1, knob.minimum or 0)
    most = cpus if knob.threads else max(near)
    return [n for n in near if least <= n <= most and n != value]
