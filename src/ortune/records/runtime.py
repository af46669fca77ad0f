"""The runtimes that ortune made, and the document about them."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.machine import Runtime


class InstalledPackage(Record, frozen=True, kw_only=True):
    """One package of an environment, by its own metadata; ``license`` is "" where that says none."""

    name: str
    version: str
    license: str = ""
    size_bytes: int = 0


class MadeRuntime(Record, frozen=True, kw_only=True):
    """An environment that ortune made for one build of ONNX Runtime.

    Attributes:
        name: What ``--runtime`` calls it.
        requirements: What was asked of the package index.
        packages: What came.
        size_bytes: Of the whole environment on disk.
        made: When, ISO 8601.
        emulated: The device of its provider is software on the CPU, which shows nothing of speed.
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
    """A runtime that can be made here.

    Attributes:
        name: What ``--runtime`` calls it.
        what: What it brings, one sentence.
        packages: What is installed, with versions.
        about_bytes: About its size on disk.
        download_bytes: The size of its wheels, as far as it is known.
        command: What makes it.
    """

    name: str
    what: str
    packages: tuple[str, ...]
    about_bytes: int
    command: str
    download_bytes: int = 0


class RuntimeResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune runtime --json``.

    Attributes:
        folder: Where the environments are.
        runtimes: Those that are there now.
        changed: Names of those that were added or removed now.
        addable: What else can be made here.
    """

    action: Literal["add", "list", "remove"]
    folder: str
    runtimes: tuple[MadeRuntime, ...] = ()
    changed: tuple[str, ...] = ()
    addable: tuple[AddableRuntime, ...] = ()
