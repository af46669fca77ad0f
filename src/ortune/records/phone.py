"""A set of files to be measured on a phone, and what its bench sends back."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record

MATRIX_SCHEMA: Literal["ortune/matrix/1"] = "ortune/matrix/1"
PHONE_SCHEMA: Literal["ortune/phone/1"] = "ortune/phone/1"


class MatrixEntry(Record, frozen=True, kw_only=True):
    """One file of the set, and how it is loaded.

    Attributes:
        name: In the bench's result.
        file: In the set's folder.
        provider: The target; "cpu" for ONNX Runtime's own kernels.
        level: Of its optimisation.
        sha256: Of the file.
    """

    name: str
    file: str
    provider: str
    level: str
    sha256: str


class MatrixInput(Record, frozen=True, kw_only=True):
    """One input: its bytes lie in a file of the set."""

    name: str
    file: str
    type: str
    shape: tuple[int, ...]


class Matrix(Record, frozen=True, kw_only=True):
    """The files of one model that are worth measuring at a place, the base first.

    Attributes:
        id: Changes with any file or input: a result is of one set.
        left_out: Files that would be in it, and why they gain nothing.
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
        entry: Of the set.
        identical: It is the second session of the first entry, which must look like it.
        turn_runs: How many of the latencies each turn has.
    """

    entry: str
    identical: bool = False
    load_ns: int
    first_ns: int
    warmup_runs: int
    latency_ns: tuple[int, ...]
    turn_runs: tuple[int, ...]


class PhoneBlock(Record, frozen=True, kw_only=True):
    """Sessions of all entries, alive together and taking turns.

    Attributes:
        thermal: The highest thermal status during the block, 0 (none) to 6 (shutdown) as Android counts; -1 where the
            system does not report one.
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
    """An entry as it ran.

    Attributes:
        error: Why it did not; "" where it did.
    """

    name: str
    error: str = ""
    outputs: tuple[PhoneOutput, ...] = ()


class PhoneResult(Record, frozen=True, kw_only=True):
    """What a bench on a phone sends back.

    Attributes:
        matrix: The set, as the bench was written for it.
        device: Maker, model and system.
    """

    schema: Literal["ortune/phone/1"]
    matrix: Matrix
    device: str
    ort_version: str
    entries: tuple[PhoneEntry, ...]
    blocks: tuple[PhoneBlock, ...]
