"""Statistics of outputs that are equal on other machines, since rounding removes the effect of the order of sums."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ortune.inputs.value_files import StoredValue
from ortune.outputs.figures import leaves
from ortune.outputs.files import Array, decode, family, load_array, load_json, pieces, read_outputs
from ortune.records import OutputSnapshot

DIGITS = 6
"""Significant digits of a statistic: reordered sums change only the last digit; useful tolerances are far coarser."""


def output_snapshots(folder: Path, random: bool) -> tuple[OutputSnapshot, ...]:
    """Return a snapshot of every output in a worker's folder, in the model's order.

    Raises:
        OrtuneError: A file is missing or damaged.
    """
    return tuple(_snapshot(entry, random) for entry in read_outputs(folder).values())


def _snapshot(entry: StoredValue, random: bool) -> OutputSnapshot:
    if entry.kind == "json":
        values = load_json(entry.files[0])
        return _of_maps(entry.name, values, random)
    arrays = [load_array(name) for name in entry.files]
    one = arrays[0] if entry.kind == "tensor" else None
    # A sequence has a length; an absent optional has none.
    shape = tuple(one.shape) if one is not None else (len(arrays),)
    dtype = entry.onnx_type if one is not None else f"{entry.kind}({entry.onnx_type})"
    if random:
        return OutputSnapshot(name=entry.name, dtype=dtype, shape=(-1,) * len(shape))
    kind = family(entry.onnx_type) if entry.onnx_type else "string"
    exact = "" if kind == "float" else _digest(arrays)
    if kind == "string":
        return OutputSnapshot(name=entry.name, dtype=dtype, shape=shape, exact=exact)
    chunks = (decode(piece, entry.onnx_type) for array in arrays for piece, _ in pieces(array, array))
    return _of_numbers(entry.name, dtype, shape, chunks, exact)


def _of_numbers(
    name: str, dtype: str, shape: tuple[int, ...], chunks: Iterator[Array], exact: str
) -> OutputSnapshot:
    count = start = 0
    total = squares = sketch = 0.0
    for chunk in chunks:
        values = chunk.astype(np.float64)
        finite = np.isfinite(values)
        kept = values[finite]
        weights = _weights(start, values.size)[finite]
        with np.errstate(over="ignore"):
            total, squares = total + float(kept.sum()), squares + float(kept @ kept)
            # Exchanged elements change this sum, but neither the mean nor the norm.
            sketch += float(kept @ weights)
        count, start = count + kept.size, start + values.size
    l2 = math.sqrt(squares)
    mean = total / count if count else 0.0
    return OutputSnapshot(
        name=name,
        dtype=dtype,
        shape=shape,
        finite=count,
        mean=_to_digits(mean, l2 / math.sqrt(count)) if count else 0.0,
        l2=_to_digits(l2, l2),
        sketch=_to_digits(sketch, l2),
        exact=exact,
    )


def _of_maps(name: str, values: object, random: bool) -> OutputSnapshot:
    """Return the snapshot of a list of maps: statistics of the numbers in key order, and a digest of keys and text."""
    leaf_of = dict(leaves(values))
    if random:
        return OutputSnapshot(name=name, dtype="maps", shape=(-1,))
    numbers = [v for v in leaf_of.values() if isinstance(v, float)]
    rest = [(place, v) for place, v in leaf_of.items() if not isinstance(v, float)]
    keys = json.dumps([sorted(leaf_of), rest], sort_keys=True).encode()
    exact = hashlib.sha256(keys).hexdigest()[:16]
    return _of_numbers(name, "maps", (len(leaf_of),), iter([np.array(numbers, dtype=np.float64)]), exact)


def _weights(start: int, count: int) -> Array:
    """Return pseudo-random numbers between -1 and 1 that depend only on the position (Knuth's multiplicative hash)."""
    places = np.arange(start, start + count, dtype=np.uint64)
    return np.asarray(((places + 1) * 2654435761 % 2**32).astype(np.float64) / 2**31 - 1.0)


def step(unit: float) -> float:
    """Return the rounding step of statistics with this unit; 0 if the unit is not positive and finite."""
    if not math.isfinite(unit) or unit <= 0.0:
        return 0.0
    return float(10.0 ** -_decimals(unit))


def _decimals(unit: float) -> int:
    """Return the ``ndigits`` of ``round`` that keeps DIGITS significant digits of values as large as ``unit``."""
    # Example: for a unit of 123.4, whose first digit counts hundreds, 6 - 1 - 2 = 3 decimal places.
    return DIGITS - 1 - math.floor(math.log10(unit))


def _to_digits(value: float, unit: float) -> float:
    """Round a value to the significant digits of its unit, since cancellation leaves only noise in further digits."""
    if not math.isfinite(value):
        return math.copysign(1e308, value)  # JSON has no infinity
    if not math.isfinite(unit) or unit == 0.0:
        return float(f"{value:.{DIGITS}g}")
    return float(round(value, _decimals(unit))) + 0.0


def _digest(arrays: list[Array]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape}".encode())
        for piece, _ in pieces(array, array):
            if piece.dtype.kind == "U":
                # Fixed-width text has the width of the longest: the digest is of the words without the padding.
                digest.update(json.dumps(piece.tolist()).encode())
            else:
                digest.update(np.ascontiguousarray(piece).astype(piece.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()[:16]
