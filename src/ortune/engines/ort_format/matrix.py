"""Writes a set of files to compare at a place: for the CPU, for its provider, and provider-aware."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ortune import files, temporary
from ortune.catalogue.providers import COREML, CPU, NNAPI, QNN, XNNPACK
from ortune.engines.ort_format.aware import Takes
from ortune.engines.ort_format.convert import Converted, convert
from ortune.engines.ort_format.places import PLACES, DevicePlace, FileChoice, choose
from ortune.errors import ModelError, UsageError
from ortune.graph.model.open import OpenModel
from ortune.graph.model.save import require_free
from ortune.inputs.value_files import StoredValue
from ortune.records import Matrix, MatrixEntry, MatrixInput, OrtConversion
from ortune.rewrites import Tool

MANIFEST = "matrix.json"
PHONES = (NNAPI.target, COREML.target, XNNPACK.target, QNN.target)
"""Names of the places with a provider and a bench."""
_TYPES = {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "int8": "INT8", "uint8": "UINT8", "int16": "INT16",
    "int32": "INT32", "int64": "INT64", "bool": "BOOL",
}  # fmt: skip
"""Names of element types in ONNX Runtime's Java API."""


@contextlib.contextmanager
def staged(place: Path, *, replace: bool) -> Iterator[Path]:
    """Yield a temporary folder next to the path of a set, and remove the folder with all files that were not delivered.

    Args:
        place: Path of the set.
        replace: Whether an existing set may be replaced; a folder that is not a set is never replaced.

    Raises:
        UsageError: The path is not writable.
    """
    if not replace:
        require_free(place)
    if not files.exists(place):
        files.require_writable(place, "--output")
    elif not (place / MANIFEST).is_file():
        raise UsageError(
            "was not written by ortune convert --matrix, so it is not replaced",
            where=str(place),
            do="choose another --output",
        )
    with temporary.folder(place.resolve().parent) as beside:
        folder = beside / "set"
        folder.mkdir()
        yield folder


def deliver(folder: Path, place: Path) -> None:
    """Move a set to its destination."""
    if files.exists(place):
        shutil.rmtree(place)
    folder.rename(place)


def require_phone(place: DevicePlace) -> None:
    """Check that a place has a bench.

    Raises:
        UsageError: There is no bench for the place.
    """
    if place.name not in PHONES:
        raise UsageError(
            f"not available for {place.name}",
            where="--matrix",
            do=f"use --for {', '.join(PHONES)}; elsewhere ortune compare runs the files itself",
        )


def make(
    source: OpenModel,
    place: DevicePlace,
    folder: Path,
    scratch: Path,
    tool: Tool,
    takes: Takes,
    line: Callable[[str], None],
) -> tuple[list[tuple[MatrixEntry, OrtConversion]], list[str]]:
    """Write the files of a set.

    Args:
        source: An .onnx model.
        place: The place, with its provider.
        folder: Folder of the files.
        scratch: Folder for temporary files.
        tool: Callback for operations that need ONNX Runtime.
        takes: Selects the nodes that the provider supports.
        line: Callback for progress messages.

    Returns:
        The entries with their conversions, starting with the CPU's; and texts that name omitted files with the reason.

    Raises:
        OrtuneError: The model cannot be converted.
    """
    cpu = PLACES["cpu-arm64"]
    choices: list[tuple[str, str, FileChoice, Takes | None]] = [
        (CPU.target, CPU.target, choose(cpu), None),
        (f"{place.name}-basic", place.target, choose(place), None),
        (f"{place.name}-aware", place.target, choose(place, aware=True), takes),
    ]
    left_out = []
    pairs: list[tuple[MatrixEntry, OrtConversion]] = []
    for name, provider, choice, taking in choices:
        line(f"converting {name}")
        own = scratch / name
        own.mkdir(parents=True)
        levels = pairs[0][1].levels if pairs else None  # the processor is the same for all
        converted = convert(source, choice, own, tool, name=name, takes=taking, levels=levels)
        if converted.path is None or converted.record is None:
            assert converted.aware is not None
            left_out.append(f"{name}: {converted.aware.gains_nothing}")
            continue
        pairs.append((_entry(converted, folder, name, provider, choice), converted.record))
    return pairs, left_out


def _entry(converted: Converted, folder: Path, name: str, provider: str, choice: FileChoice) -> MatrixEntry:
    assert converted.path is not None
    place = converted.path.replace(folder / f"{name}.ort")
    sha256 = hashlib.sha256(place.read_bytes()).hexdigest()
    return MatrixEntry(name=name, file=place.name, provider=provider, level=choice.level, sha256=sha256)


def inputs_of(values: Sequence[StoredValue], folder: Path) -> tuple[MatrixInput, ...]:
    """Write inputs as raw files for the benches, and return their records.

    Args:
        values: The inputs of one run.
        folder: Folder of the files.

    Raises:
        ModelError: An input is not a tensor of numbers.
    """
    inputs = []
    for number, value in enumerate(values):
        if value.kind != "tensor" or value.onnx_type not in _TYPES:
            raise ModelError(
                f"The input {value.name!r} is {value.onnx_type or value.kind}, which the benchmark apps cannot feed.",
                where="--matrix",
                do="Convert without --matrix, and measure in your own app.",
            )
        array = np.load(value.files[0], allow_pickle=False)
        file = f"input-{number}.bin"
        (folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
        inputs.append(
            MatrixInput(name=value.name, file=file, type=_TYPES[value.onnx_type], shape=tuple(array.shape))
        )
    return tuple(inputs)


def matrix_of(
    source: OpenModel,
    place: DevicePlace,
    entries: Sequence[MatrixEntry],
    inputs: Sequence[MatrixInput],
    folder: Path,
    left_out: Sequence[str],
) -> Matrix:
    """Return the manifest of a set."""
    digest = hashlib.sha256("".join(entry.sha256 for entry in entries).encode())
    for value in inputs:
        digest.update((folder / value.file).read_bytes())
    return Matrix(
        id=digest.hexdigest()[:16],
        model=source.path.name,
        place=place.name,
        entries=tuple(entries),
        inputs=tuple(inputs),
        left_out=tuple(left_out),
    )
