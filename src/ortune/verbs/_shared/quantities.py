"""Parsers of times, percentages, sizes, rates and pairs in command-line notation."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from ortune.errors import UsageError

_NUMBER = r"\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*"
"""Pattern of a decimal number, optionally with an exponent as in the text of very large and small floats."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
MOST_S, MOST_BYTES = 1e9, 1 << 60
"""Exclusive upper limits, about thirty years and an exabyte, which keep values within the integers of records."""


def seconds(text: str | float, option: str) -> float:
    """Parse 90s, 2m, 30ms or a plain number of seconds."""
    match = re.fullmatch(rf"{_NUMBER}(us|ms|s|m|min|h|)\s*", str(text))
    value = float(match.group(1)) * _UNITS[match.group(2)] if match else MOST_S
    if value >= MOST_S:
        raise UsageError(f"{text!r} is not a duration", where=option, do="use 30ms, 90s or 2m, for example")
    return value


def share(text: str | float | None, option: str) -> float | None:
    """Parse a fraction, written as 5% or 0.05; both mean 0.05."""
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
    """Parse 512m, 2g, 2Gi or a plain number of bytes; units are powers of 1024."""
    match = re.fullmatch(rf"{_NUMBER}([kmgKMG]?)i?[bB]?\s*", str(text))
    value = (
        # The place in the text is the power of 1024: no unit 0, k 1, m 2, g 3.
        float(match.group(1)) * 1024 ** " kmg".index(match.group(2).lower() or " ") if match else MOST_BYTES
    )
    if value >= MOST_BYTES:
        raise UsageError(f"{text!r} is not a size", where=option, do="use 512m, 2g or 2Gi, for example")
    return int(value)


NETWORKS = {"3g": 1.6e6, "4g": 10e6, "5g": 100e6}
"""Maps kinds of mobile network to the typical speed in bits per second at moderate load."""


def bits_a_second(text: str, option: str) -> float:
    """Parse a network speed such as 10mbit, 1.5gbit, 800kbit or a name in ``NETWORKS`` as bits per second."""
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
    """Parse the values of an option with the form ``a=b`` as a mapping from a to b."""
    by_left = {}
    for text in texts:
        left, sign, right = text.partition("=")
        if not (left and sign and right):
            raise UsageError(f"{text!r} is not a=b", where=option)
        by_left[left] = right
    return by_left


def per_second(text: str | float, option: str) -> float:
    """Parse 50/s, 3000/min, 0.5/s or a plain number as a rate per second."""
    match = re.fullmatch(rf"{_NUMBER}(?:/\s*(s|min|h))?\s*", str(text))
    value = float(match.group(1)) / _UNITS[match.group(2) or "s"] if match else 0.0
    if not 0 < value < MOST_S:
        raise UsageError(f"{text!r} is not a rate", where=option, do="write e.g. 50/s or 300/min")
    return value
