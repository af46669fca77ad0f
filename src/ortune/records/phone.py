"""A set of files to be measured on a phone."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

MATRIX_SCHEMA: Literal["ortune/matrix/1"] = "ortune/matrix/1"


class MatrixEntry(Record, frozen=True, kw_only=True):
    """One file of the set, with its provider and optimisation level.

    Attributes:
        name: Name of the file in the result of the benchmark.
        file: Path in the set's folder.
        provider: The target; "cpu" for ONNX Runtime's own kernels.
        level: Its optimisation level.
        sha256: Hash of the file.
    """

    name: str
    file: str
    provider: str
    level: str
    sha256: str


class MatrixInput(Record, frozen=True, kw_only=True):
    """One input; its bytes are in a file of the set."""

    name: str
    file: str
    type: str
    shape: tuple[int, ...]


class Matrix(Record, frozen=True, kw_only=True):
    """The files of one model to measure on a device, the baseline first.

    Attributes:
        id: Changes with any file or input, so a result belongs to one set.
        left_out: Sentences on omitted files, with the reason why they would gain nothing.
    """

    schema: Literal["ortune/matrix/1"] = MATRIX_SCHEMA
    id: str
    model: str
    place: str
    entries: tuple[MatrixEntry, ...]
    inputs: tuple[MatrixInput, ...]
    left_out: tuple[str, ...] = ()
