"""Feeds on disk: ``.npy`` files and a ``feeds.json`` index, which NumPy alone can read without pickle.

Types that NumPy's format does not support are stored as bits: bfloat16 as uint16, float8 as uint8, 4-bit numbers in
pairs per byte, low half first. ``feeds.json`` has the true shape if it differs from the array's.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ortune.errors import InputError
from ortune.inputs.feeds import FeedValue
from ortune.inputs.value_files import HEADER_ERRORS, VERSION, load_array, read_index

Array = NDArray[Any]

_HALF_BYTES = {t.name.lower(): t.numpy() for t in (ir.DataType.INT4, ir.DataType.UINT4)}


def write_feeds(folder: Path, feeds: dict[str, FeedValue]) -> None:
    """Write feeds to a folder, which is created if needed.

    Each entry of ``feeds.json`` has a name, a kind ("tensor", "sequence" or "none"), the ONNX element type, the files
    in order, and the shapes of packed 4-bit numbers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries: list[dict[str, Any]] = []
    count = 0
    for name, value in feeds.items():
        arrays = [] if value is None else value if isinstance(value, list) else [value]
        kind = "none" if value is None else "sequence" if isinstance(value, list) else "tensor"
        types = {onnx_type(a) for a in arrays}
        if len(types) > 1:
            raise InputError(
                f"its elements have different types: {', '.join(sorted(types))}", where=f"input {name!r}"
            )
        element = types.pop() if types else "float"
        files = []
        for array in arrays:
            files.append(f"{count}.npy")
            np.save(folder / files[-1], _stored(array, element), allow_pickle=False)
            count += 1
        entry: dict[str, Any] = {"name": name, "kind": kind, "onnx_type": element, "files": files}
        if element in _HALF_BYTES:
            entry["shape"] = list(arrays[0].shape) if kind == "tensor" else [list(a.shape) for a in arrays]
        entries.append(entry)
    text = json.dumps({"version": VERSION, "feeds": entries}, indent=1)
    (folder / "feeds.json").write_text(text + "\n", encoding="utf-8")


def not_finite(array: Array) -> tuple[int, int]:
    """Return the number of NaN elements and the number of infinite elements."""
    if "float" not in array.dtype.name:
        return 0, 0
    return int(np.isnan(array).sum()), int(np.isinf(array).sum())


LABEL = "label"
"""Name of the array with the expected result for a set of inputs, unless the model has an input with this name."""


def write_label(folder: Path, label: Array) -> None:
    """Write the expected result into the folder with the feeds for which it is expected."""
    np.save(folder / f"{LABEL}.npy", label, allow_pickle=False)


def read_label(folder: Path) -> Array | None:
    """Return the expected result for the feeds of a folder; None if there is none."""
    path = folder / f"{LABEL}.npy"
    return np.asarray(load_array(path)) if path.is_file() else None


def read_feeds(folder: Path) -> dict[str, FeedValue]:
    """Read the feeds that ``write_feeds`` wrote.

    Raises:
        InputError: The folder has no feeds of this version, or a file is missing or damaged.
    """
    feeds: dict[str, FeedValue] = {}
    for value in read_index(folder, "feeds"):
        try:
            arrays = [load_array(file) for file in value.files]
            shapes = value.shapes or [()] * len(arrays)
            arrays_read = [_restored(a, value.onnx_type, s) for a, s in zip(arrays, shapes, strict=True)]
            feeds[value.name] = (
                None if value.kind == "none" else arrays_read if value.kind == "sequence" else arrays_read[0]
            )
        except (OSError, ValueError, *HEADER_ERRORS) as error:
            raise InputError(
                f"the feeds cannot be read: {error}",
                where=str(folder),
                do="save them again with --save-workload",
            ) from error
    return feeds


def onnx_type(array: Array) -> str:
    """Return the ONNX element type of an array, in lower case."""
    if array.dtype.kind in "UOS":
        return "string"
    return ir.DataType.from_numpy(array.dtype).name.lower()


def _stored(array: Array, element: str) -> Array:
    if element == "string":
        return array.astype(np.str_)
    if element in _HALF_BYTES:
        halves = array.astype(_HALF_BYTES[element]).view(np.uint8).ravel() & 0x0F
        if halves.size % 2:
            halves = np.append(halves, np.uint8(0))
        return np.asarray(halves[0::2] | (halves[1::2] << 4), np.uint8)
    if array.dtype.kind == "V" or array.dtype.num >= 256:  # numpy stores an ml_dtypes type only as bits
        return array.view(np.uint16 if array.dtype.itemsize == 2 else np.uint8)
    return array


def _restored(array: Array, element: str, shape: tuple[int, ...]) -> Array:
    if element == "string":
        return array
    if element in _HALF_BYTES:
        # ONNX packs two per byte, the first in the lower four bits.
        halves = np.stack([array & 0x0F, array >> 4], axis=-1).ravel()
        return halves[: math.prod(shape)].view(_HALF_BYTES[element]).reshape(shape)
    wanted = np.dtype(ir.DataType[element.upper()].numpy())
    return array.view(wanted) if array.dtype != wanted else array
