"""The file format of the result of a bench on a phone."""

from __future__ import annotations

from typing import Literal

from ortune.records import Matrix
from ortune.records.base import Record

PHONE_SCHEMA: Literal["ortune/phone/1"] = "ortune/phone/1"


class PhoneTrial(Record, frozen=True, kw_only=True):
    """One session of a block.

    Attributes:
        entry: The file of the set that was run.
        identical: Whether the session is the second session of the first file, the A/A control.
        turn_runs: Number of latencies in each turn.
    """

    entry: str
    identical: bool = False
    load_ns: int
    first_ns: int
    warmup_runs: int
    latency_ns: tuple[int, ...]
    turn_runs: tuple[int, ...]


class PhoneBlock(Record, frozen=True, kw_only=True):
    """A block of sessions of all files, which are open together and take turns.

    Attributes:
        thermal: The highest thermal status during the block, 0 (none) to 6 (shutdown) as on Android; -1 if the system
            does not report it.
    """

    thermal: int = -1
    trials: tuple[PhoneTrial, ...]


class PhoneOutput(Record, frozen=True, kw_only=True):
    """One output tensor, with its bytes in base64."""

    name: str
    type: str
    shape: tuple[int, ...]
    data: bytes


class PhoneEntry(Record, frozen=True, kw_only=True):
    """The result of one file.

    Attributes:
        error: The reason that the file did not run; "" if it ran.
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
