"""Writes feeds and outputs as ONNX test data: one ``.pb`` per value, and an ``.npz`` if it supports all of them.

The values are read from folders of ``.npy`` files with an index (``feeds.json``, ``outputs.json``). The element type in
the index defines the meaning of a file's bits, so tensors are written as raw bytes and never converted.
"""

from __future__ import annotations

import json
import shutil
import tokenize
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from google.protobuf.message import EncodeError
from numpy.typing import NDArray

from ortune import files
from ortune.errors import InputError

VERSION = 1
_HALF_BYTES = ("int4", "uint4")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredValue:
    """One value of an index.

    Attributes:
        kind: "tensor", "sequence" (one file per element), "none" (an optional left empty) or "json" (maps).
        onnx_type: Element type in lower case.
        files: Files with the value, in order.
        shapes: True shape of each file's tensor if the file's array has a different shape (4-bit numbers), else ().
    """

    name: str
    kind: str
    onnx_type: str
    files: tuple[Path, ...]
    shapes: tuple[tuple[int, ...], ...] = ()


HEADER_ERRORS = (
    EOFError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError, RecursionError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip
"""Errors that NumPy raises for a damaged header, in addition to OSError and ValueError."""


def load_array(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy``, memory-mapped.

    The length of the file must agree with its header.

    Raises:
        OSError, ValueError: The file cannot be read, or contains records or Python objects.
    """
    with files.open_file(path) as file:  # opening a pipe would block
        # numpy's own error contains these bytes, which may be of any file.
        if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise ValueError("it is not an .npy file")
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except HEADER_ERRORS as error:
        raise ValueError(f"the header is invalid: {error}") from error
    if array.dtype.names is not None or array.dtype.subdtype is not None:
        raise ValueError("it holds records, not numbers or text")
    return np.asarray(array)


def read_index(folder: Path, what: Literal["feeds", "outputs"]) -> list[StoredValue]:
    """Return the values of a folder, in the model's order.

    Raises:
        InputError: ``<what>.json`` is missing, damaged or has a different version.
    """
    index = folder / f"{what}.json"
    try:
        listed = json.loads(files.read(index))
        if listed["version"] != VERSION:
            raise ValueError(f"version {listed['version']} is not {VERSION}")
        return [_entry(folder, entry) for entry in listed[what]]
    except (OSError, ValueError, *HEADER_ERRORS) as error:
        raise InputError(f"the {what} cannot be read: {error}", where=str(index), do="run again") from error


def write_outputs(folder: Path, values: Iterable[tuple[str, str, NDArray[Any]]]) -> None:
    """Write tensors and ``outputs.json`` to a folder, in the format of a worker's outputs.

    Args:
        folder: The folder, which is created if needed.
        values: Name, element type and array of each tensor.
    """
    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, (name, element, array) in enumerate(values):
        file = f"{number}.npy"
        np.save(folder / file, array, allow_pickle=False)
        entries.append({"name": name, "kind": "tensor", "onnx_type": element, "files": [file]})
    text = json.dumps({"version": VERSION, "outputs": entries})
    (folder / "outputs.json").write_text(text, encoding="utf-8")


def write_protobufs(values: list[StoredValue], folder: Path, prefix: str) -> None:
    """Write the values to ``<prefix>_0.pb``, ``<prefix>_1.pb`` … in a new folder; a map becomes ``<prefix>_N.json``.

    A tensor is a TensorProto, a sequence a SequenceProto, and an empty optional an OptionalProto.

    Raises:
        InputError: A file is damaged, or a value is larger than protobuf's 2 GiB.
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True)
    for number, value in enumerate(values):
        stem = folder / f"{prefix}_{number}"
        if value.kind == "json":
            shutil.copyfile(value.files[0], stem.with_suffix(".json"))
            continue
        try:
            data = _message(value).SerializeToString()
        except (OSError, ValueError, EOFError, EncodeError) as error:
            raise InputError(
                f"the value cannot be written as protobuf: {error}", where=f"{prefix} {value.name!r}"
            ) from error
        stem.with_suffix(".pb").write_bytes(data)


def write_npz(values: list[StoredValue], path: Path) -> bool:
    """Write the values by name into one ``.npz``; return False without a file if the format does not support them.

    The format supports tensors of all types except 4-bit numbers; bfloat16 and float8 are stored as bits.

    Raises:
        OSError: The file cannot be written.
    """
    if any(v.kind != "tensor" or v.onnx_type in _HALF_BYTES or not v.name.strip("\0") for v in values):
        return False
    with zipfile.ZipFile(path, "w") as archive:
        for value in values:
            archive.write(value.files[0], f"{value.name}.npy")
    return True


def _entry(folder: Path, entry: dict[str, object]) -> StoredValue:
    files = entry["files"]
    shapes = entry.get("shape") or []
    if not isinstance(files, list) or not isinstance(shapes, list):
        raise TypeError("an entry's files or shape is no list")
    if not all(
        isinstance(entry[part], str) and str(entry[part]).encode() for part in ("name", "kind", "onnx_type")
    ):
        raise TypeError("an entry's name, kind or type is no text")
    if entry["kind"] in ("tensor", "json") and len(files) != 1:
        raise ValueError(f"a {entry['kind']} has {len(files)} files")
    if entry["kind"] == "tensor":
        shapes = [shapes] if shapes else []
    return StoredValue(
        name=str(entry["name"]),
        kind=str(entry["kind"]),
        onnx_type=str(entry["onnx_type"]),
        files=tuple(folder / Path(str(file)).name for file in files),
        shapes=tuple(tuple(int(n) for n in shape) for shape in shapes),
    )


def _message(value: StoredValue) -> onnx.TensorProto | onnx.SequenceProto | onnx.OptionalProto:
    if value.kind == "none":
        return onnx.OptionalProto(name=value.name, elem_type=onnx.OptionalProto.UNDEFINED)
    tensors = [_tensor(value, position) for position in range(len(value.files))]
    if value.kind == "tensor":
        return tensors[0]
    return onnx.SequenceProto(name=value.name, elem_type=onnx.SequenceProto.TENSOR, tensor_values=tensors)


def _tensor(value: StoredValue, position: int) -> onnx.TensorProto:
    array = load_array(value.files[position])
    shape = value.shapes[position] if value.shapes else array.shape
    proto = onnx.TensorProto(name=value.name if value.kind == "tensor" else "", dims=shape)
    proto.data_type = onnx.TensorProto.DataType.Value(value.onnx_type.upper())
    if value.onnx_type == "string":
        proto.string_data.extend(str(text).encode() for text in array.ravel())
    else:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        proto.raw_data = np.ascontiguousarray(little).tobytes()
    return proto
