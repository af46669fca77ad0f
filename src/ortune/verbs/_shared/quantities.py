"""Times, shares, sizes and pairs, as people write them on a command line."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ortune.errors import UsageError

_NUMBER = r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*"
"""A number as people write it, or with an exponent as Python prints very large and small ones."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
MOST_S, MOST_BYTES = 1e9, 1 << 60
"""Thirty years and an exabyte: more is not meant, and would be no number of nanoseconds or bytes in a record."""


def seconds(text: str | float, option: str) -> float:
    """Read 90s, 2m, 30ms or a plain number of seconds."""
    match = re.fullmatch(rf"{_NUMBER}(us|ms|s|m|min|h|)\s*", str(text))
    value = float(match.group(1)) * _UNITS[match.group(2)] if match else MOST_S
    if value >= MOST_S:
        raise UsageError(f"{text!r} is not a duration", where=option, do="use 30ms, 90s or 2m, for example")
    return value


def share(text: str | float | None, option: str) -> float | None:
    """Read 5% or 0.05, both as 0.05."""
    if text is None:
        return None
    match = re.fullmatch(rf"{_NUMBER}(%?)\s*", str(text))
    if not match:
        raise UsageError(f"{text!r} is not a percentage", where=option, do="write e.g. 5%")
    value = float(match.group(1)) / (100 if match.group(2) else 1)
    if not 0 <= value < 1:
        raise UsageError(f"{text!r} is not below 100 %", where=option, do="write e.g. 5%")
    return value


def size_bytes(text: str | float, option: str) -> int:
    """Read 512m, 2g, 2Gi or a plain number of bytes."""
    match = re.fullmatch(rf"{_NUMBER}([kmgKMG]?)i?[bB]?\s*", str(text))
    value = (
        # The place in the text is the power of 1024: no unit 0, k 1, m 2, g 3.
        float(match.group(1)) * 1024 ** " kmg".index(match.group(2).lower() or " ") if match else MOST_BYTES
    )
    if value >= MOST_BYTES:
        raise UsageError(f"{text!r} is not a size", where=option, do="use 512m, 2g or 2Gi, for example")
    return int(value)


NETWORKS = {"3g": 1.6e6, "4g": 10e6, "5g": 100e6}
"""Typical bits per second of a phone on a moderately loaded network."""


def bits_a_second(text: str, option: str) -> float:
    """Return the bits per second of a text such as 10mbit, 1.5gbit, 800kbit or the name of a network."""
    if text.lower() in NETWORKS:
        return NETWORKS[text.lower()]
    match = re.fullmatch(rf"{_NUMBER}([kmg])bit(?:/s|ps)?\s*", text.lower())
    value = float(match[1]) * {"k": 1e3, "m": 1e6, "g": 1e9}[match[2]] if match else 0.0
    if not 0 < value < math.inf:
        raise UsageError(
            f"{text!r} is not a network speed",
            where=option,
            do=f"write e.g. 10mbit, or one of {', '.join(NETWORKS).upper()}",
        )
    return value


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the values of ``a=b`` options by name."""
    by_left = {}
    for text in texts:
        left, sign, right = text.partition("=")
        if not (left and sign and right):
            raise UsageError(f"{text!r} is not a=b", where=option)
        by_left[left] = right
    return by_left


def per_second(text: str | float, option: str) -> float:
    """Read 50/s, 3000/min, 0.5/s or a plain number per second."""
    match = re.fullmatch(rf"{_NUMBER}(?:/\s*(s|min|h))?\s*", str(text))
    value = float(match.group(1)) / _UNITS[match.group(2) or "s"] if match else 0.0
    if not 0 < value < MOST_S:
        raise UsageError(f"{text!r} is not a rate", where=option, do="write e.g. 50/s or 300/min")
    return value
