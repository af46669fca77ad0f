"""Result of ``ortune look``: file facts, a first latency, and the operators."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    Finding,
    GpuRun,
    Headroom,
    ModelInfo,
    OperatorProfile,
    OrtFile,
    PeakInTurn,
    Placement,
    Plan,
    Runtime,
)
from ortune.records.base import Record


class LookTiming(Record, frozen=True, kw_only=True):
    """One process with the default or requested settings: a single observation without an interval.

    Attributes:
        latency_ns: Median over the runs (weighted mean over several shapes); the first run if ``n_runs`` is 0.
        warmed_up: Whether there was a warm-up before the runs; if not, the budget was too small.
        flops_per_s: Floating-point operations of the model divided by that latency; None if unknown.
        peak_bytes: Peak resident memory of the process, interpreter included.
        peak_in_turn: The same with several sizes in turn; None if sizes are fixed or memory is unknown.
        gpu_run: Transfer times of a run on a device with separate memory; None elsewhere, or if unknown.
        placement: Nodes by execution provider; empty for the CPU only, or if not reported.
    """

    latency_ns: float
    n_runs: int
    warmed_up: bool = True
    first_run_ns: float
    load_ns: float
    peak_bytes: int | None = None
    peak_in_turn: PeakInTurn | None = None
    flops_per_s: float | None = None
    gpu_run: GpuRun | None = None
    placement: tuple[Placement, ...] = ()


class RepeatedRegion(Record, frozen=True, kw_only=True):
    """Consecutive groups of nodes that compute the same with other weights: equal layers, or unrolled steps.

    Attributes:
        copies: Number of groups.
        n_nodes: Nodes of one group.
        first: Name of the first node of the first group.
        operators: Nodes of all groups by operator, the most frequent first.
        share_ratio: Share of all groups together in the time of all operators; None if unknown.
        share_from: Basis of that share: "profile" (a measured run) or "cost" (estimated from operations).
    """

    copies: int
    n_nodes: int
    first: str = ""
    operators: dict[str, int] = {}
    share_ratio: float | None = None
    share_from: Literal["profile", "cost"] = "profile"


class OperatorEstimate(Record, frozen=True, kw_only=True):
    """The estimated share of one operator in a run, from its operations and bytes; not measured."""

    op_type: str
    n_nodes: int
    share_ratio: float


class LookResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune MODEL --json``. Fields that need a run are None if the model does not run here.

    Attributes:
        parameters: Elements of all initializers and constant tensors; ``parameter_bytes`` is their stored size.
        weight_types: Bytes of the parameters by element type, the largest first.
        operators: Number of nodes by operator, the most frequent first, subgraphs and functions included.
        flops: Floating-point operations of one run with the chosen shapes; None if unknown.
        flops_complete: Whether every node was counted; otherwise ``flops`` is a lower bound.
        flops_note: Omissions and assumptions of ``flops``.
        regions: Repeated layers or steps, the largest share first.
        estimate: Estimated shares of operators, the largest first, if the budget left out the profile; otherwise ().
        headroom: Upper bound of the gain by settings, from the profile.
        findings: Findings, the most important first.
        left_out: Sentences on steps that were skipped for lack of time.
        busy: Load by other programs, in words; "" for none, or if unknown.
        next_commands: Commands to run next, the best first.
        ort_file: Properties of a file in ORT format; None for an .onnx file.
    """

    model: ModelInfo
    parameters: int
    parameter_bytes: int
    weight_types: dict[str, int] = {}
    operators: dict[str, int] = {}
    flops: float | None = None
    flops_complete: bool = True
    flops_note: str = ""
    inputs: str = ""
    runtime: Runtime | None = None
    plan: Plan = Plan()
    timing: LookTiming | None = None
    profile: OperatorProfile | None = None
    estimate: tuple[OperatorEstimate, ...] = ()
    regions: tuple[RepeatedRegion, ...] = ()
    headroom: Headroom | None = None
    findings: tuple[Finding, ...] = ()
    left_out: tuple[str, ...] = ()
    next_commands: tuple[str, ...] = ()
    busy: str = ""
    session: str = ""
    elapsed_s: float = 0.0
    ort_file: OrtFile | None = None
