"""A set of files to be measured on a phone, and what its bench sends back."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

MATRIX_SCHEMA: Literal["ortune/matrix/1"] = "ortune/matrix/1"
PHONE_SCHEMA: Literal["ortune/phone/1"] = "ortune/phone/1"


class MatrixEntry(Record, frozen=True, kw_only=True):
    """One file of the set, and how it is loaded.

    Attributes:
        name: Its name in the bench's result.
        file: Its path in the set's folder.
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
        left_out: Files that are omitted, and why they would gain nothing.
    """

    schema: Literal["ortune/matrix/1"] = MATRIX_SCHEMA
    id: str
    model: str
    place: str
    entries: tuple[MatrixEntry, ...]
    inputs: tuple[MatrixInput, ...]
    left_out: tuple[str, ...] = ()


class PhoneTrial(Record, frozen=True, kw_only=True):
    """One session of a block.

    Attributes:
        entry: The file of the set.
        identical: Whether it is the second session of the first file, the A/A control.
        turn_runs: Number of latencies of each turn.
    """

    entry: str
    identical: bool = False
    load_ns: int
    first_ns: int
    warmup_runs: int
    latency_ns: tuple[int, ...]
    turn_runs: tuple[int, ...]


class PhoneBlock(Record, frozen=True, kw_only=True):
    """Sessions of all files, open together and taking turns.

    Attributes:
        thermal: The highest thermal status during the block, 0 (none) to 6 (shutdown) as on Android; -1 if the system
            does not report it.
    """

    thermal: int = -1
    trials: tuple[PhoneTrial, ...]


class PhoneOutput(Record, frozen=True, kw_only=True):
    """One output, its bytes in base64."""

    name: str
    type: str
    shape: tuple[int, ...]
    data: bytes


class PhoneEntry(Record, frozen=True, kw_only=True):
    """The result of one file.

    Attributes:
        error: Why it did not run; "" if it did.
    """

    name: str
    error: str = ""
    outputs: tuple[PhoneOutput, ...] = ()


class PhoneResult(Record, frozen=True, kw_only=True):
    """The result file of a bench on a phone.

    Attributes:
        matrix: The set, as it was when the bench was written.
        device: Manufacturer, model and system.
    """

    schema: Literal["ortune/phone/1"]
    matrix: Matrix
    device: str
    ort_version: str
    entries: tuple[PhoneEntry, ...]
    blocks: tuple[PhoneBlock, ...]
