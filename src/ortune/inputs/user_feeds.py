"""Reads the user's inputs: ``.npz``, ``.npy`` for a single input, ONNX ``test_data_set_*`` folders, or images."""

from __future__ import annotations

import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx import numpy_helper

from ortune import files
from ortune.errors import InputError
from ortune.graph.shapes.symbols import Size, feedable, input_sizes
from ortune.inputs import images, input_folders, recording_file
from ortune.inputs.declared import inspect_inputs
from ortune.inputs.feed_files import LABEL, Array, onnx_type, read_feeds
from ortune.inputs.feeds import MOST_BYTES, FeedValue, numpy_dtype
from ortune.inputs.input_folders import LAYOUT
from ortune.inputs.semantics import dtype_of, element_type
from ortune.inputs.token_feeds import filled
from ortune.inputs.value_files import HEADER_ERRORS, load_array

_UNREADABLE = (
    OSError, ValueError, *HEADER_ERRORS, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, RuntimeError,
)  # fmt: skip
"""Errors that damaged files cause, and RuntimeError, which an archive with a password causes."""

_TENSOR_TYPES = frozenset(onnx.TensorProto.DataType.values()) - {onnx.TensorProto.UNDEFINED}
_OF_TENSORS = ("name", "elem_type", "tensor_values")


def load(
    path: Path,
    ir_model: ir.Model,
    option: str = "--inputs",
    image: str = "",
    most: int = input_folders.MEASURED,
) -> list[dict[str, FeedValue]]:
    """Load the user's inputs for timed runs, and check them against the model.

    Args:
        path: An ``.npz`` or ``.npy``, a folder of these, of ``input_N.pb``, of ``test_data_set_*`` folders or of
            images, or a folder that ``feed_files.write_feeds`` wrote.
        ir_model: The model.
        option: The option that names the path, for errors.
        image: The options of ``--image``.
        most: Maximum number of files to read from a folder; from larger folders a uniform sample is read.

    Raises:
        InputError: The file is unreadable, or a name, type, rank or fixed size does not fit the model.
    """
    return [values for values, _ in labelled(path, ir_model, option, image, most)]


def labelled(
    path: Path, ir_model: ir.Model, option: str = "--inputs", image: str = "", most: int | None = None
) -> list[tuple[dict[str, FeedValue], Array | None]]:
    """Read sets of inputs, each with its expected result or None.

    The expected result is the array "label" of an ``.npz``, unless the model has an input with this name. ``FILE#N``
    reads the recorded inputs of one session's model. If a folder has more than ``most`` files, a uniform sample is
    read; None reads up to ``images.MOST`` images, and all files of arrays.
    """
    of_calls = recording_file.values_in(path, ir_model)
    if of_calls is not None:
        return [(raw, None) for raw in recorded(of_calls, ir_model).values()]
    if not files.exists(path):
        raise InputError("no such file or folder", where=f"{option} {path}", do=f"pass {LAYOUT}")
    values, raw_sets = (
        feedable(ir_model),
        _images(path, ir_model, option, image, most or images.MOST) or _raw_sets(path, option, most),
    )
    names = {value.name for value in values}
    if any(isinstance(raw, Mapping) and names - raw.keys() for _, raw in raw_sets):
        inputs = inspect_inputs(ir_model)
        raw_sets = [
            (where, filled(raw, inputs) if isinstance(raw, Mapping) else raw) for where, raw in raw_sets
        ]
    sets = [(where, _named(raw, values, where), _label(raw, values)) for where, raw in raw_sets]
    return [(_checked(raw, values, where), label) for where, raw, label in sets]


def recorded(of_calls: recording_file.Placed, ir_model: ir.Model) -> dict[str, dict[str, FeedValue]]:
    """Check recorded inputs and return them by case, in the order of the model's inputs.

    Raises:
        InputError: The inputs do not fit the model.
    """
    values = feedable(ir_model)
    return {name: _checked(_named(raw, values, at), values, at) for name, (at, raw) in of_calls.items()}


def _images(
    path: Path, ir_model: ir.Model, option: str, image: str, most: int
) -> list[tuple[str, Mapping[str, FeedValue] | list[FeedValue]]]:
    """Return the images of a folder as (name for errors, set of inputs); empty if it has none."""
    if not files.is_folder(path):
        return []
    return [(f"{option} {file}", dict(values)) for file, values in images.load(path, ir_model, image, most)]


def middle_shapes(path: Path, ir_model: ir.Model, option: str, image: str = "") -> dict[str, tuple[int, ...]]:
    """Return the input shapes of the user's set with the median number of elements.

    Raises:
        InputError: See ``load``.
    """
    if files.is_folder(path) and images.listed(path):  # all have one shape, so they need not be read twice
        wanted = images.image_input(ir_model, image)
        return {wanted.name: wanted.shape}
    sets = [
        {name: value.shape for name, value in values.items() if isinstance(value, np.ndarray)}
        for values, _ in labelled(path, ir_model, option, image)
    ]
    sets.sort(key=lambda shapes: sum(map(math.prod, shapes.values())))
    return sets[(len(sets) - 1) // 2]


def _label(raw: Mapping[str, FeedValue] | list[FeedValue], values: Sequence[ir.Value]) -> Array | None:
    label = raw.get(LABEL) if isinstance(raw, Mapping) else None
    is_input = LABEL in [value.name for value in values]
    return label if isinstance(label, np.ndarray) and not is_input else None


def _raw_sets(
    path: Path, option: str, most: int | None
) -> list[tuple[str, Mapping[str, FeedValue] | list[FeedValue]]]:
    """Return (location for errors, set of feeds) for every set under a path.

    The feeds are keyed by input name, or a list in the order of the model's inputs.
    """
    if not files.is_folder(path):
        return [(f"{option} {path}", read_arrays(path, f"{option} {path}"))]
    if (path / "feeds.json").is_file():
        return [(f"{option} {path}", read_feeds(path))]
    found = input_folders.sets(path)
    if not found:
        raise InputError("the folder contains no inputs", where=f"{option} {path}", do=f"pass {LAYOUT}")
    return [
        (f"{option} {each}", _from_protobuf(each) if each.is_dir() else read_arrays(each, f"{option} {each}"))
        for each in input_folders.spread(found, most or len(found))
    ]


def read_arrays(path: Path, where: str) -> Mapping[str, FeedValue] | list[FeedValue]:
    """Return the arrays of an ``.npz`` by name, or a list with the array of an ``.npy``.

    Raises:
        InputError: The file cannot be read, contains Python objects, or unpacks to too many bytes.
    """
    try:
        with files.open_file(path) as file:
            packed = file.read(2) == b"PK"
        if not packed:
            return [load_array(path)]
        _require_holdable(path, where)
        with np.load(path, allow_pickle=False) as loaded:
            arrays = {name: loaded[name] for name in loaded.files}
    except _UNREADABLE as error:
        raise InputError(
            f"reading it would run code from the file: {error}"
            if "pickle" in str(error) or "Python objects" in str(error)
            else f"it cannot be read: {error}",
            where=where,
            do=f"pass {LAYOUT}",
        ) from error
    others = [name for name, value in arrays.items() if not isinstance(value, np.ndarray)]
    if others:
        raise InputError(
            f"{', '.join(map(repr, others))} is not an array",
            where=where,
            do="save plain arrays with numpy.savez",
        )
    return arrays


def _require_holdable(path: Path, where: str) -> None:
    """Check that an archive does not unpack to too many bytes, since zeros compress a thousandfold."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(MOST_BYTES, path.stat().st_size):
        raise InputError(
            f"it unpacks to {unpacked / 2**30:.1f} GiB, and at most {MOST_BYTES >> 30} GiB are unpacked",
            where=where,
            do="save it without compression (numpy.savez), or fewer values",
        )


def _from_protobuf(folder: Path) -> list[FeedValue]:
    return [_value_of(path) for path in input_folders.by_number(folder.glob("input_*.pb"))]


def _value_of(path: Path) -> FeedValue:
    """Read an ``input_N.pb``: a tensor, or else a sequence of tensors."""
    try:
        raw = files.read(path)
    except OSError as error:
        raise InputError(f"it cannot be read: {error.strerror}", where=str(path)) from error
    try:
        tensor = onnx.TensorProto.FromString(raw)
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.data_type in _TENSOR_TYPES:
            return _array(tensor, path)
    except (DecodeError, *HEADER_ERRORS, ValueError):
        pass  # it may still be another kind of value
    try:
        sequence = onnx.SequenceProto.FromString(raw)
        sequence.DiscardUnknownFields()
        if sequence.ByteSize() < len(raw):
            raise ValueError("it is damaged, or of a kind that onnx does not know")
        others = [field.name for field, _ in sequence.ListFields() if field.name not in _OF_TENSORS]
        if others or sequence.elem_type not in (onnx.SequenceProto.UNDEFINED, onnx.SequenceProto.TENSOR):
            raise InputError(
                "it is a sequence of something other than tensors, which is not supported",
                where=str(path),
                do=f"pass {LAYOUT}",
            )
        return [_array(element, path) for element in sequence.tensor_values]
    except (DecodeError, *HEADER_ERRORS, ValueError) as error:
        raise InputError(
            f"it is neither a tensor nor a sequence: {error}", where=str(path), do=f"pass {LAYOUT}"
        ) from error


def _array(tensor: onnx.TensorProto, path: Path) -> Array:
    """Return the values of a tensor; references to other files are rejected.

    Raises:
        InputError: The values are in a different file.
        ValueError: The tensor is invalid; other errors of onnx are possible.
    """
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        raise InputError(
            "its values are in another file", where=str(path), do="save it with its values (raw_data)"
        )
    if tensor.data_type not in _TENSOR_TYPES:
        raise ValueError(f"its element type is {tensor.data_type}, which is none")
    if any(size < 0 for size in tensor.dims):
        raise ValueError(f"its shape is {'x'.join(map(str, tensor.dims))}")
    array: Array = numpy_helper.to_array(tensor)
    return array


def _named(
    raw: Mapping[str, FeedValue] | list[FeedValue], values: list[ir.Value], where: str
) -> dict[str, FeedValue]:
    names = [v.name or "" for v in values]
    if isinstance(raw, list):
        if len(raw) != len(names):
            raise InputError(
                f"it holds {len(raw)} values and the model has {len(names)} inputs: {', '.join(names)}",
                where=where,
                do="pass one value per input, in this order, or an .npz with the input names",
            )
        return dict(zip(names, raw, strict=True))
    missing = [n for n in names if n not in raw]
    extra = [n for n in raw if n not in (*names, LABEL)]
    if missing or extra:
        problems = [f"no value for {', '.join(missing)}"] if missing else []
        problems += [f"{', '.join(extra)} is not an input"] if extra else []
        raise InputError(
            "; ".join(problems),
            where=where,
            do=f"name the arrays like the model inputs: {', '.join(names)}",
        )
    return {name: raw[name] for name in names}


def _checked(raw: dict[str, FeedValue], values: list[ir.Value], where: str) -> dict[str, FeedValue]:
    symbols: dict[str, int] = {}
    for value in values:
        name = value.name or ""
        raw_value = raw[name]
        dtype = dtype_of(value)
        if raw_value is None and "optional(" in dtype:
            continue
        if isinstance(raw_value, list) != ("seq(" in dtype) or raw_value is None:
            raise InputError(
                f"the model takes {dtype} here",
                where=f"{where}, input {name!r}",
                do="pass a value of this type",
            )
        place = f"{where}, input {name!r}"
        arrays = [
            _typed(array, dtype, place)
            for array in (raw_value if isinstance(raw_value, list) else [raw_value])
        ]
        raw[name] = arrays if isinstance(raw_value, list) else arrays[0]
        if not isinstance(raw_value, list):
            _check_shape(arrays[0], input_sizes(value), symbols, name, where)
    return raw


def _typed(array: Array, dtype: str, where: str) -> Array:
    """Convert an array to the type of the model's input, in the byte order of this machine.

    Raises:
        InputError: The array is too large, or its type does not fit.
    """
    if array.nbytes > MOST_BYTES:
        raise InputError(
            f"it is {array.nbytes / 2**30:.1f} GiB, and at most {MOST_BYTES >> 30} GiB are fed",
            where=where,
            do="pass fewer values",
        )
    if not array.dtype.isnative:  # saved on a machine with the other byte order
        array = array.astype(array.dtype.newbyteorder("="))
    array = _same_bits(_text(array, where), dtype)
    _check_type(array, dtype, where)
    return array


def _text(array: Array, where: str) -> Array:
    """Convert an array of bytes or objects to NumPy strings; return other arrays unchanged."""
    if array.dtype.kind not in "SOU":
        return array
    try:
        listed = [text.decode() if isinstance(text, bytes) else text for text in array.ravel().tolist()]
        if not all(isinstance(text, str) and text.encode() is not None for text in listed):
            raise ValueError("some are of another kind")
    except (ValueError, SystemError) as error:
        raise InputError(
            f"it contains objects that are not strings: {error}", where=where, do="save texts"
        ) from error
    return np.array(listed, np.str_).reshape(array.shape)


def _same_bits(array: Array, dtype: str) -> Array:
    """Reinterpret the bits that an ``.npz`` stores for bfloat16 or float8, which it does not support, as that type."""
    element = element_type(dtype)
    stored = {"bfloat16": "uint16"}.get(element, "uint8" if element.startswith("float8") else "")
    plain = array.dtype.kind in "Vu" and not array.dtype.names and not array.dtype.subdtype
    if stored and plain and array.dtype.itemsize == np.dtype(stored).itemsize:
        return array.view(numpy_dtype(element))
    return array


def _check_type(array: Array, dtype: str, where: str) -> None:
    wanted = element_type(dtype)
    try:
        actual = onnx_type(array)
    except TypeError:  # dates, records and other types that no model has
        actual = str(array.dtype)
    if actual == wanted:
        return
    cast = "np.str_" if wanted == "string" else f"np.{np.dtype(numpy_dtype(wanted)).name}"
    raise InputError(
        f"it is {actual} and the model takes {wanted}",
        where=where,
        do=f"convert it before saving: array.astype({cast})",
    )


def _check_shape(
    array: Array, sizes: tuple[Size, ...] | None, symbols: dict[str, int], name: str, where: str
) -> None:
    if sizes is None:
        return
    fits = len(sizes) == array.ndim
    for dim, size in zip(sizes, array.shape, strict=False):
        if dim.value is not None:
            fits = fits and dim.value == size
        elif len(dim.terms) == 1 and dim.terms[0][1] == 1 and not dim.add:
            # Checked for the message only: ONNX Runtime would name the operator that fails, not the input.
            fits = fits and symbols.setdefault(dim.terms[0][0], size) == size
    if not fits:
        declared = "x".join(dim_text(d) for d in sizes) or "scalar"
        same = {s: n for d in sizes for s, _ in d.terms if (n := symbols.get(s)) is not None}
        bound = f" ({', '.join(f'{s}={n}' for s, n in same.items())})" if same else ""
        raise InputError(
            f"its shape {'x'.join(map(str, array.shape)) or 'scalar'} does not fit the model's {declared}{bound}",
            where=f"{where}, input {name!r}",
            do="reshape it, or add the batch dimension",
        )


def dim_text(dim: Size) -> str:
    """Format a size: a number, symbols, or "?" for an unnamed symbol."""
    if dim.value is not None:
        return str(dim.value)
    names = [s if f == 1 else f"{f}*{s}" for s, f in dim.terms]
    text = "+".join(["?" if n.endswith("]") else n for n in names] + ([str(dim.add)] if dim.add else []))
    return text.replace("+-", "-")


def value_range(value: FeedValue) -> tuple[float | None, float | None]:
    """Return the smallest and largest element of integers and booleans; None for other types and empty values."""
    arrays = [a for a in (value if isinstance(value, list) else [value]) if a is not None]
    numbers = [a for a in arrays if a.dtype.kind in "iub" and a.size]
    if not numbers or len(numbers) != len(arrays):
        return None, None
    return min(float(a.min()) for a in numbers), max(float(a.max()) for a in numbers)
