"""Result of ``ortune doctor``: runtimes, noise, detectable effects and peaks."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    AddableRuntime,
    Control,
    Finding,
    MachinePeak,
    RuntimeReport,
)
from ortune.records.base import Record


class EffectRow(Record, frozen=True, kw_only=True):
    """The precision of a comparison of this length: minimum detectable effect as a fraction, and number of blocks."""

    minutes: float
    n_blocks: int
    smallest_effect_ratio: float | None


class NoiseReport(Record, frozen=True, kw_only=True):
    """The noise of this machine now, from a run of the controls.

    Attributes:
        used_cpus: CPUs that other programs used meanwhile, of ``cpus``; None if unknown.
        busy: Whether that is more than on a quiet machine: the table is then a description of this moment.
    """

    model: str
    latency_ns: float
    trial_s: float
    block_scale: float
    controls: tuple[Control, ...]
    table: tuple[EffectRow, ...]
    status: Literal["ok", "invalid"]
    used_cpus: float | None = None
    cpus: int = 0
    busy: bool = False


class DoctorResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune doctor --json``.

    Attributes:
        peak_failed: Why the peak was not measured; "" if it was, or was not requested.
        peak: The machine's peak, measured now or stored; ``taken`` is its date.
        not_started: A virtual environment in the current folder. It is started only if ``--runtime`` names it.
    """

    runtimes: tuple[RuntimeReport, ...]
    allocators: dict[str, str] = {}
    findings: tuple[Finding, ...] = ()
    noise: NoiseReport | None = None
    peak: MachinePeak | None = None
    peak_failed: str = ""
    addable: tuple[AddableRuntime, ...] = ()
    not_started: str = ""
