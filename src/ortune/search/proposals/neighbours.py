"""Values beside a value: where a search goes on around a plan that leads."""

from __future__ import annotations

from ortune.catalogue.knob import Knob
from ortune.records import Value


def neighbours(knob: Knob, value: Value, cpus: int) -> list[Value]:
    """The values next to one, lower first; none where a setting is not a number."""
    if knob.kind != "int" or isinstance(value, bool) or not isinstance(value, int):
        return []
    # Threads are counted one by one, and are never more than there are CPUs; other numbers are halved and doubled.
    beside = [value - 1, value + 1] if knob.threads else [value // 2, value * 2]
    least = max(1, knob.minimum or 0)
    most = cpus if knob.threads else max(beside)
    return [n for n in beside if least <= n <= most and n != value]
