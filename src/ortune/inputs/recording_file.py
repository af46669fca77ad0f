"""Reads the file of a recording, and the input values in it."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune import files
from ortune.errors import InputError
from ortune.graph.shapes.symbols import feedable
from ortune.inputs.feeds import FeedValue, numpy_dtype
from ortune.inputs.semantics import dtype_of
from ortune.records import RecordedCalls, RecordedValues, RecordedWorkload, Recording, read_json

_DTYPES = frozenset(
    f"{kind}{bits}" for kind, sizes in {"float": (16, 32, 64), "int": (8, 16, 32, 64), "uint": (8, 16, 32, 64)}.items()
    for bits in sizes
) | {"bool"}  # fmt: skip
Shapes = tuple[tuple[str, tuple[int, ...]], ...]
Placed = dict[str, tuple[str, dict[str, FeedValue]]]
"""Maps the name of a case to the place of its values, for errors, and the values by input name."""


def split(path: Path) -> tuple[Path, int | None]:
    """Split ``FILE#N`` into the file and the session number; the number is None if there is none."""
    match = re.fullmatch(r"(.+)#(\d+)", str(path))
    if match is None or files.exists(path):
        return path, None
    return Path(match[1]), int(match[2])


def read(path: Path) -> Recording | None:
    """Read the recording in a workload file; None if the file is not a recording.

    Raises:
        OSError: The file cannot be read.
        InputError: The recording is damaged.
    """
    text = files.read(path)
    try:
        return read_json(text, RecordedWorkload).recording
    except msgspec.DecodeError as error:
        if not _has_recording(text):
            return None
        raise InputError(
            f"its recording is damaged: {error}", where=str(path), do="create it again with ortune record"
        ) from None


class _Part(msgspec.Struct):
    """The part of a workload file that identifies a recording."""

    recording: msgspec.Raw = msgspec.Raw(b"null")


def _has_recording(text: bytes) -> bool:
    """Return whether a file is JSON with a recording, even an invalid one."""
    try:
        return bytes(read_json(text, _Part).recording) != b"null"
    except msgspec.DecodeError:
        return False


def shapes_of(calls: RecordedCalls) -> Shapes:
    """Return the name and shape of each input with a known shape."""
    return tuple((value.name, value.shape) for value in calls.inputs if value.shape is not None)


def case_name(shapes: Shapes) -> str:
    """Return the name of a case from its shapes, such as "x=1x3,y=scalar"."""
    return ",".join(f"{name}={'x'.join(map(str, shape)) or 'scalar'}" for name, shape in shapes)


def value_name(case: str, number: int) -> str:
    """Return the name of a case with recorded values, from the name of its shapes and the index of the values."""
    return f"{case} #{number + 1}" if number else case


def counted_values(recording: Recording) -> Counter[tuple[str, Shapes]]:
    """Return the number of recorded sets of values, keyed by the model's sha256 and the shapes."""
    return Counter((recording.models[v.model].sha256, _shapes_of_values(v)) for v in recording.values)


def values_in(path: Path, ir_model: ir.Model) -> Placed | None:
    """Return the recorded inputs of the model of a session ``FILE#N``; None if the path has no session number.

    Raises:
        InputError: The file cannot be read, has no such session, or its inputs are damaged.
    """
    file, number = split(path)
    if number is None:
        return None
    try:
        recording = read(file)
    except OSError as error:
        raise InputError(f"the workload cannot be read: {error.strerror}", where=str(file)) from error
    if recording is None or not 1 <= number <= len(recording.sessions):
        raise InputError("it has no such session", where=str(path), do="create it again with ortune record")
    return values_of(recording, number, ir_model, str(path))


def values_of(recording: Recording, number: int, ir_model: ir.Model, where: str) -> Placed:
    """Return the recorded inputs of a session's model.

    Args:
        recording: The recording.
        number: Number of the session, from 1.
        ir_model: The session's model.
        where: The file, for errors.

    Raises:
        InputError: The inputs are damaged.
    """
    sha256 = recording.models[recording.sessions[number - 1].model].sha256
    dtypes = {value.name or "": dtype_of(value) for value in feedable(ir_model)}
    found: Placed = {}
    numbers: Counter[str] = Counter()
    for values in recording.values:
        if recording.models[values.model].sha256 == sha256:
            case = case_name(_shapes_of_values(values))
            place = f"{where}, recorded inputs {case}"
            found[value_name(case, numbers[case])] = place, _arrays(values, dtypes, place)
            numbers[case] += 1
    return found


def _shapes_of_values(values: RecordedValues) -> Shapes:
    return tuple((value.name, value.shape) for value in values.inputs)


def _arrays(values: RecordedValues, dtypes: dict[str, str], where: str) -> dict[str, FeedValue]:
    """Convert recorded values to the types of the model's inputs."""
    found: dict[str, FeedValue] = {}
    for value in values.inputs:
        place = f"{where}, input {value.name!r}"
        if value.dtype not in _DTYPES:
            raise InputError(f"{value.dtype!r} is not an element type", where=place)
        dtype = np.dtype(value.dtype).newbyteorder("<")
        if len(value.data) != dtype.itemsize * math.prod(value.shape):
            raise InputError("its recorded values are damaged", where=place)
        array = np.frombuffer(value.data, dtype).reshape(value.shape).astype(value.dtype)
        wanted = numpy_dtype(dtypes.get(value.name, value.dtype))
        # A list of integers has 64 bits here, but in ONNX Runtime the bits of the model's input.
        same_kind = np.issubdtype(wanted, np.integer) == np.issubdtype(array.dtype, np.integer)
        found[value.name] = array.astype(wanted) if same_kind else array
    return found
