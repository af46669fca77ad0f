"""Cache of outputs from ONNX's reference evaluator: one small file per key, which depends on all that affects them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ortune.store import small_files

VERSION = 2
"""Incremented with every change of how models are evaluated."""
FOLDER = "evaluations"
MOST_BYTES = 4 << 20
"""Maximum size of stored outputs; larger ones are evaluated again."""

Array = NDArray[Any]


class _Stored(msgspec.Struct, frozen=True):
    """An array in a form for JSON."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def load(store_folder: Path, key: str) -> list[dict[str, Array]] | None:
    """Return the outputs stored under a key; None if there are none or they cannot be read."""
    stored = small_files.load(store_folder, FOLDER, key, list[dict[str, _Stored]])
    if stored is None:
        return None
    try:
        return [{name: _array(value) for name, value in outputs.items()} for outputs in stored]
    except (TypeError, ValueError):  # a damaged file: the outputs are computed again
        return None


def keep(store_folder: Path, key: str, outputs: Sequence[dict[str, Array]]) -> None:
    """Store outputs for later sessions, unless they are large."""
    if sum(array.nbytes for arrays in outputs for array in arrays.values()) > MOST_BYTES:
        return
    value = [{name: _stored(array) for name, array in arrays.items()} for arrays in outputs]
    small_files.keep(store_folder, FOLDER, key, value)


def _stored(array: Array) -> _Stored:
    return _Stored(dtype=array.dtype.str, shape=array.shape, data=array.tobytes())


def _array(stored: _Stored) -> Array:
    dtype = np.dtype(stored.dtype)
    if dtype.hasobject:
        raise ValueError("objects are not stored")
    return np.frombuffer(stored.data, dtype).reshape(stored.shape)
