"""A recording of ``ortune record``: how a program used ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from ortune.records.base import Record, Value
from ortune.records.model import Workload

MissedReason = Literal[
    "isolated", "no-site", "path-replaced", "environment-cleared", "not-python", "static", "frozen", "old-python",
    "other-recording", "own-library", "unknown", "unseen",
]  # fmt: skip
"""Why a process that uses ONNX Runtime was not recorded."""


class RecordedModel(Record, frozen=True, kw_only=True):
    """A model for which the program created sessions.

    Attributes:
        path: Path of its file; "" for a model from bytes, or if paths were removed.
        sha256: Hash of the file or the bytes, without external data; "" if the file no longer existed.
        size_bytes: Size of the file or the bytes.
    """

    path: str = ""
    sha256: str = ""
    size_bytes: int = 0


class Frame(Record, frozen=True, kw_only=True):
    """One frame of a call stack.

    Attributes:
        file: The source file, from the root of its package if it belongs to one.
        package, version: The distribution that the file belongs to; "" if none is known.
    """

    file: str
    line: int
    function: str
    package: str = ""
    version: str = ""


class RecordedInput(Record, frozen=True, kw_only=True):
    """One input or output of a call: name, element type and shape; ``shape`` is None if unknown."""

    name: str
    dtype: str = ""
    shape: tuple[int, ...] | None = None


class RecordedCalls(Record, frozen=True, kw_only=True):
    """Calls of one session from one place with one combination of shapes.

    Attributes:
        key: Their identifier in ``Arrival.key``.
        method: The method of the session.
        outputs_read: Indices of the outputs that the calling code reads; None if unknown, or of one output.
        place: Index in ``Recording.places``; -1 if unknown.
        count: Number of calls; ``failed`` of them raised an exception.
        total_ns, least_ns, most_ns: Time inside the calls.
        inspected: Number of calls that were inspected in full; the counts below are of these.
        with_lists: Number of calls with an input that was a Python list.
        not_contiguous: Number of calls with an input array that is not contiguous.
        chained: Number of calls with an input that is an output of the previous call.
        mask_elements, mask_set: Number of elements of inputs with "mask" in their names, and of non-zero ones.
        pool_in_ns, pool_in_wall_ns: CPU time of the session's own threads in sampled calls, and duration of these.
        pool_between_ns, pool_between_wall_ns: CPU time of these threads between two calls, and duration of these
            pauses.
    """

    key: int
    method: str = "run"
    inputs: tuple[RecordedInput, ...] = ()
    outputs: tuple[RecordedInput, ...] = ()
    outputs_read: tuple[int, ...] | None = None
    place: int = -1
    count: int = 0
    failed: int = 0
    total_ns: int = 0
    least_ns: int = 0
    most_ns: int = 0
    inspected: int = 0
    with_lists: int = 0
    not_contiguous: int = 0
    chained: int = 0
    mask_elements: int = 0
    mask_set: int = 0
    pool_in_ns: int = 0
    pool_in_wall_ns: int = 0
    pool_between_ns: int = 0
    pool_between_wall_ns: int = 0


class RecordedTensor(Record, frozen=True, kw_only=True):
    """The value of one input: name, numpy's name of the element type ("float32"), shape, and little-endian bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class RecordedValues(Record, frozen=True, kw_only=True):
    """The inputs of one call: the index of its model in ``Recording.models``, and their values."""

    model: int
    inputs: tuple[RecordedTensor, ...]


class RecordedSession(Record, frozen=True, kw_only=True):
    """One ``InferenceSession`` of the recorded program, with its settings and calls.

    Attributes:
        id: Number within its process, from 1.
        process: Index in ``Recording.processes``.
        model: Index in ``Recording.models``.
        place: Index in ``Recording.places`` of the call stack that created it; -1 if unknown.
        start_ns: Start of the creation, from the start of the recording.
        creation_ns: Time of the creation; 0 if the session existed before.
        memory_bytes: Growth of the process's resident memory during the creation; None if unknown.
        end_ns: Time at which its object was freed; None if it existed until the end of the process.
        recreated: Whether ``set_providers`` ended it by giving its object another session.
        error, error_message: Name and beginning of the exception's text if it could not be created.
        writes_model: Whether its settings name a file for the optimized model.
        on_event_loop: Whether an asyncio event loop was running in the thread that created it.
        thread: Number of that thread within the process.
        threads: Number of threads that it started; None if unknown.
        thread_cpus: CPUs that each of these threads may use.
        options: Settings that the program passed; None if it passed none.
        used: Settings that the session has.
        providers: Providers that the program requested; None if it named none.
        providers_used: Providers that the session has.
        config_from_model: Whether it was created with ORT_LOAD_CONFIG_FROM_MODEL, which discards all options.
        inherited: For a session that existed before a fork, its ``id`` in the parent; 0 for all others.
        inherited_threads: Number of threads that it had in the parent.
    """

    id: int
    process: int
    model: int
    place: int = -1
    start_ns: int = 0
    creation_ns: int = 0
    memory_bytes: int | None = None
    end_ns: int | None = None
    recreated: bool = False
    error: str = ""
    error_message: str = ""
    writes_model: bool = False
    on_event_loop: bool = False
    thread: int = 0
    threads: int | None = None
    thread_cpus: tuple[tuple[int, ...], ...] = ()
    options: dict[str, Value] | None = None
    used: dict[str, Value] = {}
    providers: tuple[str, ...] | None = None
    providers_used: tuple[str, ...] = ()
    config_from_model: bool = False
    inherited: int = 0
    inherited_threads: int = 0
    calls: tuple[RecordedCalls, ...] = ()

    @property
    def n_calls(self) -> int:
        """Number of recorded calls of the session, at all input shapes."""
        return sum(calls.count for calls in self.calls)


def most_at_once(sessions: Iterable[RecordedSession]) -> int:
    """Return the largest number of sessions that existed at the same time."""
    changes: list[tuple[int, int]] = []
    for session in sessions:
        changes.append((session.start_ns, 1))
        if session.end_ns is not None:
            changes.append((session.end_ns, -1))
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


class Arrival(Record, frozen=True, kw_only=True, array_like=True):
    """One call: its key, start (from the start of the recording), duration, thread, and number of calls in flight."""

    key: int
    start_ns: int
    took_ns: int
    thread: int
    active: int


class RecordedProcess(Record, frozen=True, kw_only=True):
    """A process of the program that imported onnxruntime.

    Attributes:
        parent: Index of the process that it was forked from; -1 for all others.
        argv: Its command line; () if arguments were removed.
        onnxruntime: Version of ONNX Runtime.
        cpus: CPUs that it may use.
        variables: Environment variables that affect ONNX Runtime.
        start_ns: Time of the import of onnxruntime, from the start of the recording.
        cpu_ns: CPU time of the process, as last observed; None if it ended too soon.
        recorder_ns: Time used by the recorder.
        arrivals: The first calls, one entry per call.
        lost_events: Number of events beyond the size limits of the recording.
        stopped: Why the recorder stopped early; "" if it did not.
    """

    pid: int
    parent: int = -1
    argv: tuple[str, ...] = ()
    python: str = ""
    executable: str = ""
    onnxruntime: str = ""
    cpus: tuple[int, ...] = ()
    variables: dict[str, str] = {}
    start_ns: int = 0
    cpu_ns: int | None = None
    recorder_ns: int = 0
    arrivals: tuple[Arrival, ...] = ()
    lost_events: int = 0
    stopped: str = ""


class MissedProcess(Record, frozen=True, kw_only=True):
    """A process that uses ONNX Runtime, or might have used it, and was not recorded.

    Attributes:
        library: The file that contains ONNX Runtime; "" if unknown.
        reason: Why it was missed.
    """

    pid: int
    argv: tuple[str, ...] = ()
    library: str = ""
    reason: MissedReason


class Recording(Record, frozen=True, kw_only=True):
    """The use of ONNX Runtime by a program.

    Attributes:
        command: The command; () if arguments were removed.
        elapsed_ns: From the start of the program to its end.
        ended_by: "program" if it ended by itself, "duration" if ``--duration`` ended it, or the name of the signal that
            ended it or requested its end.
        code: Its exit code; 128 plus the signal number if a signal ended it.
        seen: Number of the program's processes.
        cpu_ns: CPU time of the program and its children that it waited for.
        cpu_quota: CPUs that its control group allows; None without a limit.
        logical_cpus: Number of CPUs of the machine.
        busy_ratio: Fraction of all CPUs in use by all programs during the recording; None if unknown.
        missed: Processes that use ONNX Runtime and were not recorded.
        anonymous: Whether paths and arguments were removed.
        values: Inputs of some calls; () without ``--with-inputs``.
    """

    command: tuple[str, ...] = ()
    at: str = ""
    elapsed_ns: int = 0
    ended_by: str = "program"
    code: int = 0
    seen: int = 0
    cpu_ns: int = 0
    cpu_quota: float | None = None
    logical_cpus: int = 0
    busy_ratio: float | None = None
    processes: tuple[RecordedProcess, ...] = ()
    sessions: tuple[RecordedSession, ...] = ()
    models: tuple[RecordedModel, ...] = ()
    places: tuple[tuple[Frame, ...], ...] = ()
    missed: tuple[MissedProcess, ...] = ()
    anonymous: bool = False
    values: tuple[RecordedValues, ...] = ()

    @property
    def is_python(self) -> bool:
        """Whether all processes are Python; only in Python, sessions can be shared and models replaced."""
        return all(process.python for process in self.processes)

    @property
    def node_release(self) -> str:
        """Release of the onnxruntime-node that created all sessions; "" if it is unknown or not the same for all."""
        frames = [self.places[session.place][:1] if session.place >= 0 else () for session in self.sessions]
        releases = {
            frame.version if frame.package == "onnxruntime-node" else ""
            for own in frames
            for frame in own or (Frame(file="", line=0, function=""),)
        }
        return releases.pop() if len(releases) == 1 else ""

    def __post_init__(self) -> None:
        """Check the indices of the recording.

        Raises:
            ValueError: An index is out of range.
        """
        for session in self.sessions:
            _require_index(session.process, len(self.processes), "process")
            _require_index(session.model, len(self.models), "model")
            for place in (session.place, *(calls.place for calls in session.calls)):
                _require_index(place, len(self.places), "place", least=-1)
        for process in self.processes:
            _require_index(process.parent, len(self.processes), "process", least=-1)
        for values in self.values:
            _require_index(values.model, len(self.models), "model")


def _require_index(index: int, count: int, of: str, least: int = 0) -> None:
    if not least <= index < count:
        raise ValueError(f"there is no {of} {index}")


class RecordedWorkload(Workload, frozen=True, kw_only=True):
    """A workload file: the workload of one model, or the recording of a program with all its models.

    Attributes:
        recording: The recording of a program, in a file without ``cases``; None in a file of ``--save-workload``.
    """

    recording: Recording | None = None
