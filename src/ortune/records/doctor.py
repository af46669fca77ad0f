"""The runtimes and execution providers in the result of ``ortune doctor``."""

from __future__ import annotations

from ortune.records.base import Record
from ortune.records.machine import Runtime


class ProviderReport(Record, frozen=True, kw_only=True):
    """One execution provider in one runtime: usable, or the reason why not.

    Attributes:
        do: The command that makes it usable; "" if there is none.
        emulated: Whether the CPU emulates its device: outputs are correct, times are meaningless.
    """

    name: str
    in_build: bool
    usable: bool
    why: str = ""
    emulated: bool = False
    do: str = ""


class RuntimeReport(Record, frozen=True, kw_only=True):
    """One runtime in the result of ``ortune doctor``.

    Attributes:
        overlapping: Builds of ONNX Runtime that share one folder, with their versions.
    """

    runtime: Runtime
    providers: tuple[ProviderReport, ...] = ()
    packages: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    overlapping: dict[str, str] = {}
