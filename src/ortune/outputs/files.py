"""Reading the outputs that a worker left: the index, mapped arrays, and types that numpy lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ortune.errors import InputError, OrtuneError
from ortune.inputs.value_files import StoredValue, read_index

Array = NDArray[Any]

CHUNK = 1 << 20
"""Elements decoded and compared at a time, so that outputs larger than memory can be."""

# Exponent bits, mantissa bits, bias, and which bit patterns are no finite numbers.
FLOAT8 = {
    "float8e4m3fn": (4, 3, 7, "fn"),
    "float8e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "fnuz"),
}


def read_outputs(folder: Path) -> dict[str, StoredValue]:
    """The outputs in a folder, by name, in the model's order.

    Raises:
        OrtuneError: ``outputs.json`` is missing, damaged, or of another version.
    """
    try:
        return {value.name: value for value in read_index(folder, "outputs")}
    except InputError as error:
        raise unreadable(folder / "outputs.json", error) from error


def tensors(folder: Path) -> dict[str, Array]:
    """The tensors of a folder by name, as numbers.

    Raises:
        OrtuneError: As ``read_outputs``, and where a file is missing or damaged.
    """
    stored = (value for value in read_outputs(folder).values() if value.kind == "tensor")
    return {
        value.name: decode(np.asarray(array), value.onnx_type)
        if family(value.onnx_type) == "float"
        else np.asarray(array)
        for value in stored
        if (array := load_array(value.files[0])) is not None
    }


def load_array(path: Path) -> Array:
    """A ``.npy`` file, mapped rather than read; never a pickle.

    Raises:
        OrtuneError: Missing, damaged, or not an array of numbers, booleans or text.
    """
    try:
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(path, error) from error


def load_json(path: Path) -> Any:
    """A map output: lists and dicts of text and numbers.

    Raises:
        OrtuneError: Missing, or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> OrtuneError:
    """The one error for an output file that cannot be used."""
    return OrtuneError(
        f"an output file cannot be read: {error}",
        where=str(path),
        do="check that the disk is not full, and run again",
        code="outputs",
    )


def family(onnx_type: str) -> Literal["float", "integer", "bool", "string"]:
    """How values of a type compare. Widths within a family may differ between two plans."""
    if onnx_type == "string":
        return "string"
    if onnx_type == "bool":
        return "bool"
    return "float" if onnx_type.startswith(("float", "double", "bfloat", "complex")) else "integer"


def decode(array: Array, onnx_type: str) -> Array:
    """Values as numpy can compute with them: any float as float64 (complex as pairs), the rest as it is."""
    if onnx_type in FLOAT8 and array.dtype == np.uint8:
        return _float8_values(onnx_type)[array]
    if onnx_type == "bfloat16" and array.dtype == np.uint16:
        # bfloat16 is the upper half of a float32.
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(array.real.dtype).astype(np.float64)
    return array.astype(np.float64) if family(onnx_type) == "float" else array


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yields the same stretch of every array, flat and in memory, piece by piece; the sizes are equal."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, CHUNK):
        yield tuple(np.asarray(array[start : start + CHUNK]) for array in flat)


def blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Boxes that cover an array of one dimension or more, in order, each of no more elements than a piece."""
    # The first axis of which one index holds at most a piece is cut; those before it are walked index by
    # index.
    split = next(i for i in range(len(shape)) if math.prod(shape[i + 1 :]) <= CHUNK)
    rows = max(1, CHUNK // max(1, math.prod(shape[split + 1 :])))
    for outer in np.ndindex(*shape[:split]):
        for start in range(0, shape[split], rows):
            yield (*(slice(i, i + 1) for i in outer), slice(start, start + rows))


def _float8_values(onnx_type: str) -> Array:
    """The value of each of the 256 bit patterns."""
    _, mantissa_bits, bias, special = FLOAT8[onnx_type]
    bits = np.arange(256)
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent = (bits & 0x7F) >> mantissa_bits
    fraction = (bits & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    normal = (1.0 + fraction) * 2.0 ** (exponent - bias)
    # Exponent 0 is that of subnormal numbers, which have no leading 1.
    values = sign * np.where(exponent > 0, normal, fraction * 2.0 ** (1 - bias))
    if special == "fn":
        # No infinities; NaN has all bits set.
        values[[0x7F, 0xFF]] = np.nan
    elif special == "fnuz":
        # Neither infinities nor -0, whose pattern is the only NaN.
        values[0x80] = np.nan
    else:
        top = exponent == exponent.max()
        values[top] = np.where(fraction[top] == 0.0, sign[top] * np.inf, np.nan)
    return np.asarray(values)
