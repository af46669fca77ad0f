"""Weights that stay in their files: tensors as parts of a file, checked when the model is opened."""

from __future__ import annotations

import io
import math
import mmap
import weakref
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import numpy_helper

from ortune.errors import ModelError
from ortune.graph.model.wire import LOOKS, OWN_FILE, give_back

_CHUNK_BYTES = 256 << 10
"""Size of a read in bytes, which fits in a core's cache while it is processed."""
_TYPES = frozenset(member.value for member in ir.DataType)
_EXPONENTS = {
    ir.DataType.FLOAT16: 0x7C00,
    ir.DataType.BFLOAT16: 0x7F80,
    ir.DataType.FLOAT: 0x7F80_0000,
    ir.DataType.DOUBLE: 0x7FF0_0000_0000_0000,
}
"""Bit mask of the exponent for each type; all of its bits are set in NaN and infinities."""


def not_finite(tensor: ir.TensorProtocol) -> tuple[int, int]:
    """Return (NaN elements, infinite elements) as counts; (0, 0) for types without an entry in ``_EXPONENTS``."""
    exponent = _EXPONENTS.get(tensor.dtype)
    if exponent is None:
        return 0, 0
    n_nan = n_inf = 0
    for numbers in pieces(tensor):
        if not _all_finite(numbers, exponent):
            n_nan, n_inf = n_nan + int(np.isnan(numbers).sum()), n_inf + int(np.isinf(numbers).sum())
    return n_nan, n_inf


def _all_finite(numbers: np.ndarray[Any, Any], exponent: int) -> bool:
    """Return whether all numbers are finite, judged by the maximum of their bit patterns read as integers.

    Positive numbers are ordered as signed integers, the magnitudes of negative ones as unsigned integers.
    """
    width = numbers.dtype.itemsize
    sign = 1 << (8 * width - 1)
    most, most_unsigned = numbers.view(f"<i{width}").max(), numbers.view(f"<u{width}").max()
    return int(most) < exponent and int(most_unsigned) < sign | exponent


def pieces(tensor: ir.TensorProtocol) -> Iterator[np.ndarray[Any, Any]]:
    """Yield a tensor's elements (of at least 8 bits) as flat arrays, each valid only until the next is requested.

    A file is read instead of mapped: a model may be larger than memory, and mapped pages count as used memory.
    """
    dtype = np.dtype(tensor.dtype.numpy())
    if isinstance(tensor, FileTensor):
        for chunk in tensor.file.chunks(tensor.offset or 0, tensor.length or 0):
            yield np.frombuffer(chunk, dtype.newbyteorder("<"))
        return
    values, at_once = tensor.numpy().reshape(-1), _CHUNK_BYTES // dtype.itemsize
    for start in range(0, values.size, at_once):
        yield values[start : start + at_once]


class WeightFile:
    """A file with weights, mapped once for all of its tensors, since one map per tensor would exhaust file handles."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = path.stat().st_size
        self._map: mmap.mmap | None = None
        self._looks = 0
        self._file: io.BufferedReader | None = None

    def map(self) -> mmap.mmap:
        """Return the whole file, mapped read-only; the system only reads the pages that are accessed."""
        if self._map is None:
            with self.path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._looks += 1
        if self._looks % LOOKS == 0:
            give_back(self._map)
        return self._map

    def chunks(self, offset: int, length: int) -> Iterator[memoryview]:
        """Yield ``length`` bytes from ``offset`` on in chunks; each chunk is overwritten by the next."""
        if self._file is None:  # opened once for all tensors
            self._file = self.path.open("rb")
            weakref.finalize(self, self._file.close)
        buffer = np.empty(min(_CHUNK_BYTES, length), np.uint8).data
        while length > 0:
            self._file.seek(offset)
            part = buffer[:length]
            if self._file.readinto(part) < len(part):
                raise ModelError(
                    "The file was truncated while it was read.",
                    where=str(self.path),
                    do="Try again when no other program writes to the model.",
                )
            offset, length = offset + len(part), length - len(part)
            yield part


class FileTensor(ir.ExternalTensor):
    """A tensor that occupies a part of a file: inline in the model file, or in external data.

    Unlike the base class, all tensors of a file share one map, and each was checked when the model was opened: the
    file is in the model's folder and long enough. ``numpy()`` returns a read-only view for types that numpy can map.
    """

    __slots__ = ("_dims", "_file", "_size")

    def __init__(
        self, file: WeightFile, offset: int, length: int, *, dtype: ir.DataType, shape: ir.Shape, name: str
    ) -> None:
        super().__init__(
            file.path.name, offset, length, dtype, shape=shape, name=name, base_dir=str(file.path.parent)
        )
        self._file = file
        self._dims = shape.numpy()
        self._size = math.prod(self._dims)

    @property
    def size(self) -> int:
        """Number of elements, computed once; onnx-ir computes it on each access."""
        return self._size

    @property
    def file(self) -> WeightFile:
        """The file with the data."""
        return self._file

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the values in the tensor's shape; 4-bit and other packed types are unpacked into memory."""
        shape = self._dims
        if self.size == 0:
            return np.empty(shape, self.dtype.numpy())
        if self.dtype.bitwidth < 8:
            packed = onnx.TensorProto(data_type=self.dtype.value, dims=shape, raw_data=self.tobytes())
            return numpy_helper.to_array(packed)
        dtype = np.dtype(self.dtype.numpy()).newbyteorder("<")
        flat = np.frombuffer(self._file.map(), dtype=dtype, count=self.size, offset=self.offset or 0)
        return flat.reshape(shape)

    def head(self, n_elements: int) -> bytes:
        """Return the bytes of the first (at most ``n_elements``) elements, for types of at least 8 bits."""
        start = self.offset or 0
        n_bytes = min(self.length or 0, n_elements * self.dtype.bitwidth // 8)
        return self._file.map()[start : start + n_bytes] if n_bytes else b""

    def tobytes(self) -> bytes:
        """Return the bytes as stored in the file."""
        start, length = self.offset or 0, self.length or 0
        return self._file.map()[start : start + length] if length else b""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def _check_path_containment(self) -> None:
        # The base class rejects hard links, and symbolic links out of the folder, but package managers and model
        # caches use these; WeightFiles applies ONNX Runtime's rule instead.
        return


MOST_AXES = 64
"""Maximum number of dimensions in numpy."""


class WeightFiles:
    """The files with a model's weights: the model itself and its external data."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.own = WeightFile(path)
        self._files: dict[str, WeightFile] = {OWN_FILE: self.own}

    def array(self, proto: onnx.TensorProto) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """Return the values of a tensor, which are in the message or in a file.

        Raises:
            ModelError: As for ``tensor``.
        """
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self.tensor(proto).numpy()
        return numpy_helper.to_array(proto)

    def tensor(self, proto: onnx.TensorProto) -> FileTensor:
        """Return the tensor of an external TensorProto, after checking that it is complete.

        Raises:
            ModelError: If the reference is malformed, leaves the model's folder, or the file is missing or too short.
        """
        name = proto.name or "(unnamed)"
        entries = {entry.key: entry.value for entry in proto.external_data}
        need = payload_bytes(proto, str(self._path))
        if need is None:
            raise self._error(f"Tensor {name!r} contains strings, which external data does not support.")
        file = self._file(entries.get("location", ""), name)
        offset = self._number(entries, "offset", 0, name)
        length = self._number(entries, "length", need, name)
        if length != need:
            dims = "x".join(map(str, proto.dims)) or "scalar"
            raise self._error(
                f"Tensor {name!r} has {length} bytes of data, and its type and shape ({dims}) need {need}."
            )
        if offset + need > file.size_bytes:
            raise self._error(
                f"Tensor {name!r} is at bytes {offset} to {offset + need} of {file.path.name!r}, "
                f"which has only {file.size_bytes} bytes.",
                do=f"Download {file.path.name!r} again: it is truncated or belongs to another export.",
            )
        shape = ir.Shape(proto.dims)
        return FileTensor(
            file, offset, need, dtype=ir.DataType(proto.data_type), shape=shape, name=proto.name
        )

    def _number(self, entries: dict[str, str], key: str, default: int, name: str) -> int:
        text = entries.get(key, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit()):
            raise self._error(f"Tensor {name!r} has the {key} {text!r}, which is not a number of bytes.")
        return int(text)

    def _file(self, location: str, name: str) -> WeightFile:
        if location not in self._files:
            self._files[location] = WeightFile(self._checked_path(location, name))
        return self._files[location]

    def _checked_path(self, location: str, name: str) -> Path:
        if not location:
            raise self._error(f"Tensor {name!r} refers to external data without a file name.")
        if "\0" in location or Path(location).is_absolute() or PureWindowsPath(location).drive:
            raise self._error(
                f"Tensor {name!r} is stored in {location!r}, an absolute path, which ONNX Runtime refuses.",
                do="Save the model again with the data file in the same folder, referenced by its plain name.",
            )
        path = self._path.parent / location
        # ONNX Runtime's rule: links are followed, and the target must be in the folder of the model's path or, if
        # that is itself a link, of its target.
        folders = (self._path.parent.resolve(), self._path.resolve().parent)
        if not any(path.resolve().is_relative_to(folder) for folder in folders):
            raise self._error(
                f"Tensor {name!r} is stored in {location!r}, outside the model's folder, which ONNX Runtime refuses.",
                do="Move the data file into the model folder, and save the model again with its plain name.",
            )
        if not path.is_file():
            raise self._error(
                f"The external data file {location!r} (tensor {name!r}) is missing next to the model.",
                do=f"Copy or download {location!r} into {self._path.parent}; the model cannot be used without it.",
            )
        return path

    def _error(self, what: str, do: str = "Export or download the model again.") -> ModelError:
        return ModelError(what, where=str(self._path), do=do)


def payload_bytes(proto: onnx.TensorProto, where: str) -> int | None:
    """Return the size in bytes of a tensor's raw data, from its type and shape; None for strings.

    Raises:
        ModelError: If the type is unknown, a dimension is negative, or there are too many dimensions.
    """
    name = proto.name or "(unnamed)"
    if len(proto.dims) > MOST_AXES:
        raise ModelError(
            f"Tensor {name!r} has {len(proto.dims)} dimensions, and at most {MOST_AXES} can be read.",
            where=where,
            do="Export the model with fewer dimensions.",
        )
    if any(dim < 0 for dim in proto.dims):
        raise ModelError(
            f"Tensor {name!r} has a negative dimension: {list(proto.dims)}.",
            where=where,
            do="Export the model again.",
        )
    if proto.data_type not in _TYPES or proto.data_type == ir.DataType.UNDEFINED.value:
        raise ModelError(
            f"Tensor {name!r} has the element type {proto.data_type}, which is not known.",
            where=where,
            do="Upgrade ortune's onnx and onnx-ir packages, or export the model again.",
        )
    if proto.data_type == ir.DataType.STRING.value:
        return None
    count = 1
    for dim in proto.dims:
        count *= dim
    return (count * ir.DataType(proto.data_type).bitwidth + 7) // 8
