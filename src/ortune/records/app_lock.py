"""The lock of a recorded application: how it uses ONNX Runtime, without any timing."""

from __future__ import annotations

from ortune.records.base import Record


class LockedUse(Record, frozen=True, kw_only=True):
    """The use of one model by an application.

    Attributes:
        sha256: Hashes of its files or bytes, sorted.
        sessions: Number of sessions that were created, in all processes.
        copies: Largest number of sessions of the same model file that existed in one process at the same time.
        threads: Largest number of threads of a session, its caller included; None if unknown.
        threads_set: Whether the program sets that number.
        shapes: Combinations of input shapes that were called, as text, sorted.
    """

    sha256: tuple[str, ...] = ()
    sessions: int = 0
    copies: int = 0
    threads: int | None = None
    threads_set: bool = False
    shapes: tuple[str, ...] = ()


class AppSnapshot(Record, frozen=True, kw_only=True):
    """A lock file of ``ortune lock app.workload``.

    Attributes:
        schema: "ortune/app-snapshot/1".
        onnxruntime: Versions of ONNX Runtime.
        packages: Versions of the packages that create or call sessions, by name.
        logical_cpus: Number of CPUs of the machine, which determines default numbers of threads.
        missed: Number of processes that could not be recorded.
        models: Uses by name of the model's file; a model from bytes has the name of the package that loads it.
    """

    schema: str
    onnxruntime: tuple[str, ...] = ()
    packages: dict[str, str] = {}
    logical_cpus: int = 0
    missed: int = 0
    models: dict[str, LockedUse] = {}
