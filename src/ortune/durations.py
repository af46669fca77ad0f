"""Conversion of durations in seconds to text, such as "45 s" or "2m"."""

from __future__ import annotations

import math

_MINUTE_S, _HOUR_S = 60, 3600
_LONG_S = 10 * _MINUTE_S
"""Shortest duration that is shown in minutes, in seconds."""


def in_words(seconds: float) -> str:
    """Return a duration for a sentence: "45 s", "92 min", "3.5 h"."""
    if round(seconds) < _LONG_S:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR_S:
        return f"{seconds / _MINUTE_S:.0f} min"
    return f"{seconds / _HOUR_S:.1f} h"


def as_option(seconds: float) -> str:
    """Return a duration as an option's value, rounded up: "45s", "92m"."""
    whole = math.ceil(seconds)
    return f"{whole}s" if whole < _LONG_S else f"{math.ceil(whole / _MINUTE_S)}m"
