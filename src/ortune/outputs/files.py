"""Reading of worker outputs: the index, memory-mapped arrays, and types that NumPy lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ortune import files
from ortune.errors import InputError, MeasurementError
from ortune.inputs import value_files
from ortune.inputs.value_files import StoredValue, read_index

Array = NDArray[Any]

CHUNK = 1 << 20
"""Number of elements decoded and compared at a time, to support outputs larger than memory."""

_DEEPEST = 16
"""Maximum nesting of lists and maps in an output; ONNX uses two levels."""
_MOST_DIGITS = 40

# Exponent bits, mantissa bits, bias, and the variant of non-finite bit patterns.
FLOAT8 = {
    "float8e4m3fn": (4, 3, 7, "fn"),
    "float8e4m3fnuz": (4, 3, 8, "fnuz"),
    "float8e5m2": (5, 2, 15, "ieee"),
    "float8e5m2fnuz": (5, 2, 16, "fnuz"),
}


def read_outputs(folder: Path) -> dict[str, StoredValue]:
    """Return the outputs in a folder by name, in the model's order.

    Raises:
        MeasurementError: If ``outputs.json`` is missing, damaged, or has a different version.
    """
    try:
        return {value.name: value for value in read_index(folder, "outputs")}
    except InputError as error:
        raise unreadable(folder / "outputs.json", error) from error


def tensors(folder: Path) -> dict[str, Array]:
    """Return the tensors in a folder as numeric arrays, by name.

    Raises:
        MeasurementError: As ``read_outputs``, or if a file is missing or damaged.
    """
    stored = (value for value in read_outputs(folder).values() if value.kind == "tensor")
    return {
        value.name: decode(np.asarray(array), value.onnx_type)
        if family(value.onnx_type) == "float"
        else np.asarray(array)
        for value in stored
        if (array := load_array(value.files[0], value.onnx_type)) is not None
    }


def load_array(path: Path, onnx_type: str | None = None) -> Array:
    """Return the array of a ``.npy`` file, memory-mapped; pickles are rejected.

    Args:
        path: The file.
        onnx_type: ONNX type according to the index; None to skip the check.

    Raises:
        MeasurementError: If the file is missing, damaged, of a different type, or not numbers, booleans or text.
    """
    try:
        array = value_files.load_array(path)
        text = array.dtype.kind in "SU"
        if not text and array.dtype.kind not in "biufc":
            raise ValueError(f"it holds elements of the type {str(array.dtype)[:80]}")
        if onnx_type is not None and text is not (onnx_type == "string"):
            raise ValueError(f"it holds elements of the type {array.dtype}, not {onnx_type[:80]}")
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    return array


def load_json(path: Path) -> Any:
    """Return the content of a map output: lists and dicts of text and numbers.

    Raises:
        MeasurementError: If the file is missing, not JSON, or nested too deeply.
    """
    try:
        value = json.loads(files.read(path), parse_int=_whole_number)
        _require_shallow(value)
    except (OSError, ValueError, RecursionError) as error:
        raise unreadable(path, error) from error
    return value


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError("lists or maps are nested too deep")


def unreadable(path: Path, error: Exception) -> MeasurementError:
    """Return the error for an output file that cannot be used."""
    return MeasurementError(
        f"an output file cannot be read: {error}",
        where=str(path),
        do="check that the disk is not full, and run again",
        code="outputs",
    )


def family(onnx_type: str) -> Literal["float", "integer", "bool", "string"]:
    """Return the kind of an ONNX type for comparison; plans may differ in the width within a kind."""
    if onnx_type == "string":
        return "string"
    if onnx_type == "bool":
        return "bool"
    return "float" if onnx_type.startswith(("float", "double", "bfloat", "complex")) else "integer"


def decode(array: Array, onnx_type: str) -> Array:
    """Convert floats to float64 for computation, and complex numbers to pairs; other types are unchanged."""
    if onnx_type in FLOAT8 and array.dtype == np.uint8:
        return _float8_values(onnx_type)[array]
    if onnx_type == "bfloat16" and array.dtype == np.uint16:
        # bfloat16 is the upper half of a float32.
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if array.dtype.kind == "c":
        return np.ascontiguousarray(array).view(array.real.dtype).astype(np.float64)
    return array.astype(np.float64) if family(onnx_type) == "float" else array


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Yield tuples of corresponding parts of the arrays, flattened and in memory; the arrays must have equal sizes."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, CHUNK):
        yield tuple(np.asarray(array[start : start + CHUNK]) for array in flat)


def blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Yield boxes (one slice per axis) of at most ``CHUNK`` elements that together cover an array, in order."""
    # The first axis with at most a piece per index is split; axes before it are iterated index by index.
    split = next(i for i in range(len(shape)) if math.prod(shape[i + 1 :]) <= CHUNK)
    rows = max(1, CHUNK // max(1, math.prod(shape[split + 1 :])))
    for outer in np.ndindex(*shape[:split]):
        for start in range(0, shape[split], rows):
            yield (*(slice(i, i + 1) for i in outer), slice(start, start + rows))


def _float8_values(onnx_type: str) -> Array:
    """Return the value of each of the 256 bit patterns of an 8-bit floating-point type."""
    _, mantissa_bits, bias, special = FLOAT8[onnx_type]
    bits = np.arange(256)
    sign = np.where(bits & 0x80, -1.0, 1.0)
    exponent = (bits & 0x7F) >> mantissa_bits
    fraction = (bits & ((1 << mantissa_bits) - 1)) / 2.0**mantissa_bits
    normal = (1.0 + fraction) * 2.0 ** (exponent - bias)
    # Exponent 0 means subnormal numbers, which have no leading 1.
    values = sign * np.where(exponent > 0, normal, fraction * 2.0 ** (1 - bias))
    if special == "fn":
        # No infinities; NaN has all bits set.
        values[[0x7F, 0xFF]] = np.nan
    elif special == "fnuz":
        # No infinities and no -0: its bit pattern is the only NaN.
        values[0x80] = np.nan
    else:
        top = exponent == exponent.max()
        values[top] = np.where(fraction[top] == 0.0, sign[top] * np.inf, np.nan)
    return np.asarray(values)
