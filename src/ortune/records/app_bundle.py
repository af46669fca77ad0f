"""What the bundle of an application says of itself."""

from __future__ import annotations

from ortune.records.base import Record, Value
from ortune.records.machine import Host
from ortune.records.plan import Calibration
from ortune.records.recording import RecordedInput


class AppSession(Record, frozen=True, kw_only=True):
    """What is changed for the sessions of one model.

    Attributes:
        name: The name of the model's file, for people; a session is found by ``sha256`` alone.
        sha256: Of the model's file or bytes; several if the same model is known in several forms.
        settings: Settings that replace the program's own, by name; a thread count is text, ``min(4, cpus)``.
        share: Whether equal requests of one process get one session.
        keep_s: Seconds that a shared session is kept after the last use.
        replacement: A model inside the bundle that is opened instead; "" for none.
        replacement_sha256: Of that file.
        only_shapes: Combinations of input shapes that the replacement is for; () for all. A call with other shapes
            goes to the original model.
        hardware_bound: Whether the replacement is only for the processor and the ONNX Runtime that it was made on.
        calibration: The calibration data of a quantized replacement.
    """

    name: str = ""
    sha256: tuple[str, ...]
    settings: dict[str, Value] = {}
    share: bool = False
    keep_s: float = 300.0
    replacement: str = ""
    replacement_sha256: str = ""
    only_shapes: tuple[tuple[RecordedInput, ...], ...] = ()
    hardware_bound: bool = False
    calibration: Calibration | None = None


class AppProof(Record, frozen=True, kw_only=True):
    """What one change did when the recorded calls were played: ratios to the recorded settings, below 1 is less.

    Attributes:
        change: The change in words.
        wall, cpu: Ratios of the time inside ONNX Runtime and of CPU time, each with its interval.
    """

    change: str
    wall: tuple[float, float, float] | None = None
    cpu: tuple[float, float, float] | None = None


class MemoryChange(Record, frozen=True, kw_only=True):
    """Peak memory of all processes with the recorded settings, and with those of the bundle."""

    before_bytes: int
    after_bytes: int


class AppBundle(Record, frozen=True, kw_only=True):
    """``ortune.json`` of the bundle of an application.

    Attributes:
        sessions: What is changed, by model.
        variables: Environment variables for the whole program: numbers of threads, from a closed list.
        command: The program that was recorded, for information; it is never run.
        ort_versions: The versions of ONNX Runtime that it used.
        contains: The gain, in a sentence.
        session: Id of the stored session, which begins with its date; "" if it was not stored.
    """

    schema: str
    sessions: tuple[AppSession, ...] = ()
    variables: dict[str, str] = {}
    command: tuple[str, ...] = ()
    ort_versions: tuple[str, ...] = ()
    host: Host | None = None
    proof: tuple[AppProof, ...] = ()
    memory: MemoryChange | None = None
    contains: str = ""
    session: str = ""
