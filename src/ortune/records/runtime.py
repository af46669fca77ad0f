"""Runtimes that ortune installed or can install."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.machine import Runtime


class InstalledPackage(Record, frozen=True, kw_only=True):
    """An installed package, from its own metadata; ``license`` is "" if not stated."""

    name: str
    version: str
    license: str = ""
    size_bytes: int = 0


class MadeRuntime(Record, frozen=True, kw_only=True):
    """An environment that ortune created for one ONNX Runtime build.

    Attributes:
        name: The value for ``--runtime``.
        requirements: The requested packages.
        packages: The installed packages.
        size_bytes: Size of the environment on disk.
        made: Creation time, ISO 8601.
        emulated: Whether the CPU emulates the provider's device, so times are meaningless.
        passed_over: Newer builds with the provider, and why each cannot be used here.
    """

    name: str
    requirements: tuple[str, ...]
    runtime: Runtime
    packages: tuple[InstalledPackage, ...] = ()
    size_bytes: int = 0
    made: str = ""
    passed_over: tuple[str, ...] = ()
    emulated: bool = False


class AddableRuntime(Record, frozen=True, kw_only=True):
    """A runtime that can be installed here.

    Attributes:
        name: The value for ``--runtime``.
        what: Contents and purpose of the runtime, in one sentence.
        packages: The packages to install, with versions.
        about_bytes: Approximate size on disk.
        download_bytes: Size of its wheels, as far as known.
        command: The command that installs it.
        converts: Whether it only converts models of a framework, and runs no ONNX models.
    """

    name: str
    what: str
    packages: tuple[str, ...]
    about_bytes: int
    command: str
    download_bytes: int = 0
    converts: bool = False
