"""Generates input values from a seed: valid for the role of each input, and equal in every trial."""

from __future__ import annotations

import math
import zlib
from collections.abc import Collection, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.errors import InputError
from ortune.graph.shapes.symbols import feedable
from ortune.inputs.semantics import element_type
from ortune.records import Case, InputChoice

Array = NDArray[Any]
FeedValue = Array | list[Array] | None
"""The value of an input: a tensor, a sequence of tensors, or None for an optional input left empty."""

Kind = Literal["usual", "zeros", "extreme"]

_BYTES = {"float": 4, "double": 8, "int64": 8, "uint64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1,
          "bool": 1, "string": 8192}  # fmt: skip
"""Approximate bytes per element; strings count more, since they take longer to generate."""
_WORDS = ("the", "quick", "model", "runs", "faster", "on", "a", "warm", "cache", "today")
SEQUENCE_LENGTH = 3
"""Number of elements of a generated sequence."""
MOST_DIMENSIONS = 64 if int(np.__version__.partition(".")[0]) >= 2 else 32
"""Maximum rank of a NumPy array."""
_TEXT_BYTES = 64  # approximate bytes of a generated string

MOST_ELEMENTS = 1 << 28
"""Maximum number of elements of one generated input, more than an image of 8192 x 8192 has.

There must be a limit, since a few bytes in a file can declare any size.
"""
MOST_BYTES = 8 << 30
"""Maximum total bytes of the inputs of all cases, which allows a decoder's cache of several gigabytes."""


def make_feeds(ir_model: ir.Model, case: Case, *, seed: int, kind: Kind = "usual") -> dict[str, FeedValue]:
    """Generate a value for every input of a case.

    Args:
        ir_model: The model; its inputs must be those of the case.
        case: The chosen shapes, roles and ranges.
        seed: Equal seeds give equal values. Each input has its own random stream, so another input does not change it.
        kind: "usual" is realistic, "zeros" the smallest valid values, "extreme" the largest. All are valid for the
            role, so a latency that differs between them depends on values.

    Raises:
        InputError: The case was made for another model, or is too large.
    """
    wanted = [v.name or "" for v in feedable(ir_model)]
    missing = sorted(set(wanted) ^ {c.name for c in case.inputs})
    if missing:
        raise InputError(
            "the workload belongs to a model with different inputs",
            where=f"inputs {', '.join(missing)}",
            do="save a new workload for this model with --save-workload",
        )
    require_holdable([case])
    return {choice.name: _value(choice, seed, kind) for choice in case.inputs}


MOST_CASES = 4096
"""Maximum number of generated cases, each of which has a folder of inputs."""


def require_holdable(cases: Sequence[Case]) -> None:
    """Check that the cases are not too large to generate values for, before memory is allocated.

    Raises:
        InputError: A rank or size is invalid, or there are too many cases, elements or bytes.
    """
    if len(cases) > MOST_CASES:
        raise InputError(
            f"there are {len(cases):,} cases, and at most {MOST_CASES:,} are run",
            where="the workload",
            do="use fewer sizes or inputs",
        )
    total = 0
    for choice in (choice for case in cases for choice in case.inputs):
        shape = "x".join(map(str, choice.shape)) or "scalar"
        if len(choice.shape) > MOST_DIMENSIONS:
            raise InputError(
                f"it has {len(choice.shape)} dimensions, and synthetic values support at most {MOST_DIMENSIONS}",
                where=f"input {choice.name!r}",
                do="export the model with fewer dimensions",
            )
        if any(size < 0 for size in choice.shape):
            raise InputError(
                f"its shape {shape} has a negative size",
                where=f"input {choice.name!r}",
                do=f"pass --shape {choice.name}:... with other sizes",
            )
        count = math.prod(choice.shape)
        element_bytes = _TEXT_BYTES if "string" in choice.dtype else _BYTES.get(element_type(choice.dtype), 4)
        total += count * element_bytes * (SEQUENCE_LENGTH if "seq(" in choice.dtype else 1)
        if count > MOST_ELEMENTS or total > MOST_BYTES:
            above = (
                f"{count:,} values"
                if count > MOST_ELEMENTS
                else f"{total / 2**30:.3g} GiB together with the inputs before it"
            )
            most = f"{MOST_ELEMENTS:,}" if count > MOST_ELEMENTS else f"{MOST_BYTES >> 30} GiB"
            raise InputError(
                f"its shape {shape} needs {above}, and at most {most} are generated",
                where=f"input {choice.name!r}",
                do=f"pass smaller sizes with --shape {choice.name}:... or --dim, or values of your own with --inputs",
            )


def make_some(case: Case, names: Collection[str], *, seed: int) -> dict[str, FeedValue]:
    """Return the values that ``make_feeds`` generates, only for the named inputs of a case."""
    some = tuple(choice for choice in case.inputs if choice.name in names)
    require_holdable([msgspec.structs.replace(case, inputs=some)])
    return {choice.name: _value(choice, seed, "usual") for choice in some}


def _value(choice: InputChoice, seed: int, kind: Kind) -> FeedValue:
    rng = np.random.default_rng([seed, zlib.crc32(choice.name.encode())])
    if "seq(" in choice.dtype:
        return [_tensor(choice, rng, kind) for _ in range(SEQUENCE_LENGTH)]
    return _tensor(choice, rng, kind)


def _tensor(choice: InputChoice, rng: np.random.Generator, kind: Kind) -> Array:
    element = element_type(choice.dtype)
    if element == "string":
        return _strings(choice.shape, rng, kind)
    dtype = numpy_dtype(element, choice.name)
    if element == "bool":
        return _mask(choice, kind).astype(np.bool_)
    if choice.values:
        return np.reshape(np.array(choice.values, dtype), choice.shape)
    if choice.role == "positions":
        return _positions(choice).astype(dtype)
    if choice.role == "mask":
        return _mask(choice, kind).astype(dtype)
    if choice.low is not None and choice.high is not None:
        values = _between(choice, rng, kind, integral=_is_integral(element))
    elif _is_integral(element):
        raise InputError("its value range is unknown", where=f"input {choice.name!r}", do="pass --inputs")
    else:
        values = _floats(choice, rng, kind)
    return np.asarray(values).astype(dtype)


def numpy_dtype(element: str, name: str = "") -> np.dtype[Any]:
    """Return the NumPy type of an ONNX element type; small floats and 4-bit integers are ml_dtypes types.

    Raises:
        InputError: NumPy has no such type.
    """
    try:
        return np.dtype(ir.DataType[element.upper()].numpy())
    except (KeyError, TypeError) as unknown:
        raise InputError(
            f"synthetic values of type {element} are not supported",
            where=f"input {name!r}",
            do="pass --inputs",
        ) from unknown


def _is_integral(element: str) -> bool:
    return element.startswith(("int", "uint"))


def _strings(shape: Sequence[int], rng: np.random.Generator, kind: Kind) -> Array:
    count = int(np.prod(shape))
    if kind == "zeros":
        texts = ["a"] * count
    else:
        words = 8 if kind == "usual" else 64
        drawn = rng.integers(0, len(_WORDS), (count, words)).tolist()  # at once: a million draws take 12 s
        texts = [" ".join([_WORDS[i] for i in row]) for row in drawn]
    return np.array(texts, dtype=np.str_).reshape(shape)


def _mask(choice: InputChoice, kind: Kind) -> Array:
    """Return a mask that passes all positions; for "zeros" only the first, since an empty mask is not valid."""
    passing = 1 if choice.low is None else int(choice.low)
    mask = np.full(choice.shape, passing, np.int8)
    if kind == "zeros" and mask.ndim >= 2:
        mask[..., 1:] = 1 - passing
    return mask


def _positions(choice: InputChoice) -> Array:
    start = int(choice.low or 0)
    line = np.arange(start, start + (choice.shape[-1] if choice.shape else 1))
    return np.broadcast_to(line if choice.shape else line[0], choice.shape)


def _between(choice: InputChoice, rng: np.random.Generator, kind: Kind, *, integral: bool) -> Array:
    low, high = float(choice.low or 0), float(choice.high or 0)
    if kind == "zeros":
        return np.full(choice.shape, low)
    if integral:
        # The largest ids alone would repeat one row; the upper half gives distinct ids.
        first = low if kind == "usual" else low + (high - low) // 2
        return rng.integers(int(first), int(high), choice.shape, endpoint=True)
    if kind == "extreme":
        return np.where(rng.random(choice.shape) < 0.5, low, high)
    return rng.uniform(low, high, choice.shape)


def _floats(choice: InputChoice, rng: np.random.Generator, kind: Kind) -> Array:
    shape, role = choice.shape, choice.role
    if role == "scales":
        # Noise, length and length noise of a VITS voice. The length stays, since it decides the amount of
        # work.
        noise = {"usual": 0.667, "zeros": 0.0, "extreme": 1.0}[kind]
        return np.resize([noise, 1.0, noise], shape)
    if kind == "zeros":
        return np.zeros(shape)
    if role == "image":
        # Smooth gradients with some noise, 0 to 1: closer to a photograph than white noise.
        values = np.asarray(rng.standard_normal(shape))
        values *= 0.1  # in place, here and below, since a large image takes gigabytes
        values += _gradient(shape)
        np.clip(values, 0.0, 1.0, out=values)
        return values if kind == "usual" else np.round(values, out=values)
    if role == "audio":
        time = np.arange(shape[-1] if shape else 1) / 16000
        tone = sum(np.sin(2 * np.pi * f * time + rng.uniform(0, 6)) for f in (110, 220, 450, 1300))
        loud = 0.05 if kind == "usual" else 0.24
        return np.asarray(loud * tone + 0.01 * rng.standard_normal(shape))
    if role == "state" and kind == "usual":
        return np.zeros(shape)  # a stream starts from an empty state
    spread = 0.5 if role == "past" else 1.0
    values = np.asarray(rng.standard_normal(shape))
    values *= spread
    return values if kind == "usual" else np.abs(values) * 8 + 1


def _gradient(shape: Sequence[int]) -> Array:
    total = np.zeros(shape)
    for axis, size in enumerate(shape):
        line = np.linspace(0, np.pi, size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
        total += np.sin(line)
    total /= max(1, len(shape))
    return total
