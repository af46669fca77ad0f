"""Types and shapes of tensors as in a trace: ``[{"float":[1,3]}]``, one object per tensor."""

from __future__ import annotations

import msgspec

LARGEST = 1 << 60
"""Maximum plausible bytes and elements of a tensor; larger values mean a damaged trace."""
MOST_DIMS = 64
SIZES = {
    "float": 4, "double": 8, "float16": 2, "bfloat16": 2, "int64": 8, "uint64": 8, "int32": 4, "uint32": 4,
    "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1,
}  # fmt: skip
"""Bytes per element, by ONNX Runtime's type names."""

Tensor = tuple[str, tuple[int, ...]]

_decode = msgspec.json.Decoder(list[dict[str, list[int]]]).decode


def tensors(text: str) -> list[Tensor] | None:
    """Parse (type, shape) of each tensor; return None if the text is not a valid tensor list."""
    try:
        decoded = _decode(text) if text else None
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None
    if decoded is None:
        return None
    listed = [(dtype, tuple(shape)) for tensor in decoded for dtype, shape in tensor.items()]
    return None if any(elements(shape) is None for _, shape in listed) else listed


def elements(shape: tuple[int, ...]) -> int | None:
    """Return the number of elements of a shape; None if the shape is invalid."""
    if len(shape) > MOST_DIMS or any(size < 0 for size in shape):
        return None
    total = 1
    for size in shape:
        total *= size
    return total if total <= LARGEST else None


def n_bytes(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Return the bytes of a tensor; None for a type without a fixed element size or an invalid shape."""
    count = elements(shape)
    return None if count is None or dtype not in SIZES else count * SIZES[dtype]


def all_bytes(text: str) -> int | None:
    """Return the total bytes of a text's tensors; None if the text is invalid or a size is unknown."""
    described = tensors(text)
    if described is None:
        return None
    sizes = [n_bytes(dtype, shape) for dtype, shape in described]
    known_sizes = [size for size in sizes if size is not None]
    return sum(known_sizes) if len(known_sizes) == len(sizes) and sum(known_sizes) <= LARGEST else None
