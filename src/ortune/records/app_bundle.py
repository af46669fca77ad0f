"""The bundle of an application, and a run with its changes."""

from __future__ import annotations

from ortune.records.base import Record, Value
from ortune.records.machine import Host
from ortune.records.plan import Calibration
from ortune.records.recording import MissedProcess, RecordedInput


class AppValue(Record, frozen=True, kw_only=True):
    """An input or output of a model: name, type such as "tensor(float)", and dimensions (size, name or None)."""

    name: str
    type: str
    shape: tuple[int | str | None, ...] = ()


class AppSession(Record, frozen=True, kw_only=True):
    """Changes for the sessions of one model.

    Attributes:
        name: Name of the model's file, for people; sessions are matched only by ``sha256``.
        sha256: Hashes of the model's file or bytes; several if the same model is known in several forms.
        sizes_bytes: Sizes of these files, so files of other sizes need not be hashed; () if unknown.
        settings: Settings that replace the program's own, by name; a thread count is text, ``min(4, cpus)``.
        share: Whether equal requests of one process get one session.
        provider: The execution provider that replaces the program's, with the CPU as fallback; "" for the program's.
        keep_s: Seconds for which a shared session is kept after its last use.
        replacement: Path of a model inside the bundle that is opened instead; "" for none.
        replacement_sha256: Hash of that file.
        only_shapes: Combinations of input shapes that the replacement is for; () for all. Calls with other shapes go
            to the original model.
        inputs, outputs: Inputs and outputs of the program's own model, which the program still sees; () if those of the
            replacement are the same.
        hardware_bound: Whether the replacement is only for the processor and ONNX Runtime on which it was created.
        calibration: The calibration data of a quantized replacement; None for all others.
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
    """The measured effect of a change in a replay of the recorded calls.

    Attributes:
        change: The change as text.
        wall, cpu: Time inside ONNX Runtime, and CPU time, relative to the recorded settings: the ratio and the two ends
            of its interval. Below 1 is less; None without an interval.
    """

    change: str
    wall: tuple[float, float, float] | None = None
    cpu: tuple[float, float, float] | None = None


class MemoryChange(Record, frozen=True, kw_only=True):
    """Peak memory of all processes with the recorded settings (before) and with the changes (after)."""

    before_bytes: int
    after_bytes: int


class AppBundle(Record, frozen=True, kw_only=True):
    """``ortune.json`` of the bundle of an application.

    Attributes:
        sessions: The changes for each model.
        variables: Environment variables for the whole program: numbers of threads, from a closed list.
        command: The recorded command, for information; it is never run.
        ort_versions: Versions of ONNX Runtime in the recorded processes.
        host: The machine on which it was measured.
        proof: Measured effects of the changes.
        memory: Change of the peak memory; None if unknown.
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
        name: Name of the model's file.
        sha256, sizes: Hashes and sizes of the model files that it applies to.
        what: The settings as text, ``name=value``.
        options: Attributes of SessionOptions.
        entries: Entries of the session's configuration.
        providers: Execution providers in the order of preference, each with its options; () for the program's own.
        replacement: The absolute path of the model to open instead; "" for none.
        shapes: Combinations of input shapes that the replacement is for, as (name, shape) of each input; () for all.
        inputs, outputs: Name, type and shape of inputs and outputs that the program sees instead of those of the
            replacement.
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
    """The applied changes of one entry of the bundle, over all its sessions.

    Attributes:
        name: Name of the model's file.
        created, shared: Number of sessions created with the changes, and number of further sessions that share one of
            these.
        failed: Number of sessions that failed with the changes and were created without.
        what: The changes: settings as ``name=value``, "model replaced".
        kept: Number of sessions by reason why a change was not made.
        other_shapes: Number of calls with shapes that the replacement is not for, as last reported.
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
        command: The program's command line.
        elapsed_ns, cpu_ns: Times of the whole program; CPU time includes the children that it waited for.
        code: Its exit code; 128 plus the signal number if a signal ended it.
        seen: Number of its processes.
        processes: Number of its processes that imported onnxruntime.
        onnxruntime: Versions of ONNX Runtime.
        models: The applied changes, in the order of the bundle.
        unmatched: Number of sessions by name of the model, for models that are not in the bundle.
        missed: Processes that use ONNX Runtime and could not be changed.
        stopped: Reasons why changes stopped in a process.
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
