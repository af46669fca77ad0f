"""What the bundle of an application says of itself."""

from __future__ import annotations

from ortune.records.base import Record, Value
from ortune.records.machine import Host
from ortune.records.plan import Calibration
from ortune.records.recording import MissedProcess, RecordedInput


class AppValue(Record, frozen=True, kw_only=True):
    """An input or output of a model: name, type as in "tensor(float)", and sizes, names or None."""

    name: str
    type: str
    shape: tuple[int | str | None, ...] = ()


class AppSession(Record, frozen=True, kw_only=True):
    """What is changed for the sessions of one model.

    Attributes:
        name: The name of the model's file, for people; a session is found by ``sha256`` alone.
        sha256: Of the model's file or bytes; several if the same model is known in several forms.
        sizes_bytes: Of these files; one of another size need not be read. () if they are not known.
        settings: Settings that replace the program's own, by name; a thread count is text, ``min(4, cpus)``.
        share: Whether equal requests of one process get one session.
        provider: The execution provider that runs it in place of the program's, before the CPU; "" for the program's.
        keep_s: Seconds that a shared session is kept after the last use.
        replacement: A model inside the bundle that is opened instead; "" for none.
        replacement_sha256: Of that file.
        only_shapes: Combinations of input shapes that the replacement is for; () for all. A call with other shapes
            goes to the original model.
        inputs, outputs: Of the program's own model, which the program sees; () if the replacement has the same.
        hardware_bound: Whether the replacement is only for the processor and the ONNX Runtime that it was made on.
        calibration: The calibration data of a quantized replacement.
    """

    name: str = ""
    sha256: tuple[str, ...]
    sizes_bytes: tuple[int, ...] = ()
    settings: dict[str, Value] = {}
    share: bool = False
    provider: str = ""
    keep_s: float = 300.0
    replacement: str = ""
    replacement_sha256: str = ""
    only_shapes: tuple[tuple[RecordedInput, ...], ...] = ()
    inputs: tuple[AppValue, ...] = ()
    outputs: tuple[AppValue, ...] = ()
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


class SessionChange(Record, frozen=True, kw_only=True):
    """An entry of the bundle as it is applied on this machine: ``apply.json`` of ``recorder/apply_hook.py``.

    Attributes:
        name: The name of the model's file.
        sha256, sizes: Of the files that it is for.
        what: The settings in words, ``name=value``.
        options: Attributes of SessionOptions.
        entries: Entries of the session's configuration.
        providers: Execution providers in the order of preference, each with its options; () for the program's own.
        replacement: The absolute path of the model to open instead; "" for none.
        shapes: Inputs by name, each with its sizes: combinations that the replacement is for; () for all.
        inputs, outputs: What the program sees in place of those of the replacement: name, type, shape.
        version: The only version of ONNX Runtime that the replacement is for; "" for all.
    """

    name: str = ""
    sha256: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    what: tuple[str, ...] = ()
    options: dict[str, Value] = {}
    entries: dict[str, str] = {}
    providers: tuple[tuple[str, dict[str, str]], ...] = ()
    share: bool = False
    keep_s: float = 300.0
    replacement: str = ""
    replacement_sha256: str = ""
    shapes: tuple[tuple[tuple[str, tuple[int, ...]], ...], ...] = ()
    inputs: tuple[tuple[str, str, tuple[int | str | None, ...]], ...] = ()
    outputs: tuple[tuple[str, str, tuple[int | str | None, ...]], ...] = ()
    version: str = ""


class ChangedModel(Record, frozen=True, kw_only=True):
    """What was done with the sessions of one entry of the bundle.

    Attributes:
        name: The name of the model's file.
        created, shared: Sessions that were created with the changes, and those that use one of them.
        failed: Sessions that could not be created with the changes, and were without.
        what: What was changed: settings as ``name=value``, "model replaced".
        kept: Why something was not changed, with the number of sessions.
        other_shapes: Calls with shapes that the replacement is not for, as counted last.
    """

    name: str
    created: int = 0
    shared: int = 0
    failed: int = 0
    what: tuple[str, ...] = ()
    kept: dict[str, int] = {}
    other_shapes: int = 0


class AppliedRun(Record, frozen=True, kw_only=True):
    """A run of a program with the changes of a bundle.

    Attributes:
        command: The command.
        elapsed_ns, cpu_ns: Of the whole program; CPU time with its children that it waited for.
        code: Its exit code, 128 plus the number of the signal that ended it.
        processes: Number of its processes that imported onnxruntime.
        onnxruntime: Versions of ONNX Runtime.
        models: What was done, in the order of the bundle.
        unmatched: Models that are not in the bundle, with the number of their sessions.
        missed: Processes that use ONNX Runtime and were not reached.
        stopped: Why the changes stopped in a process.
    """

    command: tuple[str, ...] = ()
    elapsed_ns: int = 0
    cpu_ns: int = 0
    code: int = 0
    seen: int = 0
    processes: int = 0
    onnxruntime: tuple[str, ...] = ()
    models: tuple[ChangedModel, ...] = ()
    unmatched: dict[str, int] = {}
    missed: tuple[MissedProcess, ...] = ()
    stopped: tuple[str, ...] = ()
