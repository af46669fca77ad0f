"""Parsing of shapes and dimension sizes from the command line."""

from __future__ import annotations

import math

from ortune.errors import InputError

Mix = tuple[tuple[int, float], ...]
"""(size, weight) pairs of one dimension."""


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse a ``--shape`` value like ``NAME:1x3x320x320``; the name may contain colons, and ``NAME:`` is a scalar."""
    name, colon, sizes = text.rpartition(":")
    try:
        shape = tuple(int(s) for s in sizes.split("x")) if sizes else ()
    except ValueError:
        shape, colon = (), ""
    if not colon or not name or any(s < 0 for s in shape):
        raise InputError("not a valid shape", where=f"--shape {text}", do="use --shape NAME:1x3x320x320")
    return name, shape


def parse_dim(text: str) -> tuple[str, Mix]:
    """Parse a ``--dim`` value such as ``seq=128``, ``seq=16,128,512`` or, with weights, ``seq=16:3,128:1``."""
    name, equals, listed = text.rpartition("=")
    try:
        pairs = [item.partition(":") for item in listed.split(",")]
        mix = tuple((int(size), float(weight) if colon else 1.0) for size, colon, weight in pairs)
    except ValueError:
        mix, equals = (), ""
    if not equals or not name:
        raise InputError(
            "not a valid dimension size",
            where=f"--dim {text}",
            do="use --dim seq=128, --dim seq=16,128, or with weights --dim seq=16:3,128:1",
        )
    return name, normalised(name, mix)


def normalised(name: str, mix: Mix) -> Mix:
    """Return the sizes with weights that add up to 1.

    Args:
        name: Name of the dimension, for errors.
        mix: Sizes with the user's weights.

    Raises:
        InputError: There are no sizes, a size is negative, or a weight is not above 0.
    """
    total = sum(weight for _, weight in mix)
    if not mix or any(size < 0 or weight <= 0 for size, weight in mix) or not math.isfinite(total):
        raise InputError(
            "sizes must not be negative and weights must be above 0",
            where=f"--dim {name}",
            do=f"use --dim {name}=128, or --dim {name}=16:3,128:1 for a mix",
        )
    return tuple((size, weight / total) for size, weight in mix)
