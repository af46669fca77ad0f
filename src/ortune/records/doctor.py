"""The document of a look at the machine."""

from __future__ import annotations

from typing import Literal

from ortune.records.base import Record
from ortune.records.compare import Control
from ortune.records.finding import Finding
from ortune.records.machine import MachinePeak, Runtime
from ortune.records.runtime import AddableRuntime


class ProviderReport(Record, frozen=True, kw_only=True):
    """One execution provider in one runtime: there, usable, or why not.

    Attributes:
        do: The command that would make it usable; "" where none would, or none is known.
        emulated: Its device is software on the CPU, which shows right results and nothing of speed.
    """

    name: str
    in_build: bool
    usable: bool
    why: str = ""
    emulated: bool = False
    do: str = ""


class RuntimeReport(Record, frozen=True, kw_only=True):
    """One runtime as doctor sees it.

    Attributes:
        overlapping: Builds of ONNX Runtime that are installed into one folder, with their versions.
    """

    runtime: Runtime
    providers: tuple[ProviderReport, ...] = ()
    packages: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    overlapping: dict[str, str] = {}


class EffectRow(Record, frozen=True, kw_only=True):
    """What can be seen in that time: the smallest detectable effect as a share, and the blocks that fit."""

    minutes: float
    n_blocks: int
    smallest_effect_ratio: float | None


class NoiseReport(Record, frozen=True, kw_only=True):
    """What a run of the controls says about this machine now."""

    model: str
    latency_ns: float
    trial_s: float
    block_scale: float
    controls: tuple[Control, ...]
    table: tuple[EffectRow, ...]
    status: Literal["ok", "invalid"]


class DoctorResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune doctor --json``.

    Attributes:
        peak: Measured now, or the stored one: ``taken`` tells.
        not_started: A virtual environment in the current folder, which is started only where ``--runtime`` names it.
    """

    runtimes: tuple[RuntimeReport, ...]
    allocators: dict[str, str] = {}
    findings: tuple[Finding, ...] = ()
    noise: NoiseReport | None = None
    peak: MachinePeak | None = None
    addable: tuple[AddableRuntime, ...] = ()
    not_started: str = ""
