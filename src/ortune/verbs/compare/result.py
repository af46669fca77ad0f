"""Result of ``ortune compare``: comparisons of the sides, their figures, outputs and gates."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    CaseResult,
    Comparison,
    Control,
    ExactCheck,
    Failed,
    Figures,
    Finding,
    Gate,
    Guard,
    OperatorCount,
    OutputDifference,
    ProfileDifference,
    ReadBack,
    Side,
)
from ortune.records.base import Record


class ComparedSide(Record, frozen=True, kw_only=True):
    """One of several sides that were compared with the base in the same blocks.

    Attributes:
        name: "B", "C", ...
        comparison: Comparison with the base; None if the side does not run or its outputs cannot be compared.
        outputs: Difference of the outputs from the base's; None if the side does not run (``failures`` has the reason).
        exact: The side's outputs compared with its model evaluated in float64; None if that was not done, for example
            because the outputs equal the base's. The comparison for the base is in the envelope.
    """

    name: str
    side: Side
    comparison: Comparison | None = None
    outputs: OutputDifference | None = None
    figures: Figures | None = None
    cases: tuple[CaseResult, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    mapped_inputs: dict[str, str] = {}
    failures: tuple[Failed, ...] = ()
    gate: Gate | None = None
    exact: ExactCheck | None = None


class AppMetric(Record, frozen=True, kw_only=True):
    """A number that an application prints, as medians over its runs.

    Attributes:
        pattern: The regular expression that finds the number.
        ratio_low, ratio_high: 95 % interval of B against A, run by run; None if there are too few runs.
    """

    pattern: str
    base: float
    new: float
    ratio_low: float | None = None
    ratio_high: float | None = None


class AppComparison(Record, frozen=True, kw_only=True):
    """Whole runs of an application, without and with the changes of a bundle.

    Attributes:
        basis: The figure that decides the verdict: "wall" is the time, "cpu" the CPU time, if the machine was busy.
        wall, cpu: The comparisons of time and of CPU time.
        memory: Peak memory of all processes together.
        others_ratio: Fraction of the CPUs that other programs used; None if unknown.
        n_outputs: Number of calls whose outputs were compared.
    """

    command: str
    bundle: str
    basis: Literal["wall", "cpu"]
    wall: Comparison
    cpu: Comparison
    memory: Guard | None = None
    others_ratio: float | None = None
    n_outputs: int = 0
    metric: AppMetric | None = None


class CompareResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune compare --json``.

    ``comparison`` and the figures are None if the new side's outputs cannot be compared with the base's: then nothing
    was timed. If the base's outputs are wrong, ``outputs`` compares the new side with the model without optimisation.
    Outputs that differ beyond the tolerance have ``outputs.ok`` false and are timed nevertheless. ``why`` locates a
    confirmed difference with separate profiled processes; None without one.

    Attributes:
        causes: Findings that only the slower side has, if a difference is confirmed.
        operators: Operators whose number differs between the graphs that ran, if times show no reason: the comparison
            is inconclusive, or profiles do not show the difference.
        name: Name of the new side: "B", or with several sides the name of the side in the headline.
        wrong_sides: Sides about which no claim is made, because their outputs are not finite, or are wrong according to
            the model without optimisation or in float64.
        exact: The new side's outputs compared with float64, as in ``ComparedSide.exact``.
        candidates: All sides, the fastest first, if there are several. The other fields then refer to the first of
            them.
        budget_s: The given budget, in seconds; 0 if there was none.
        enough_s: Budget, in seconds, that is enough for a claim with controls; None if the budget was enough.
        machines: The machine of each side, if machines are compared; () otherwise.
        app: Comparison of an application without and with a bundle, by whole runs; None for models.
        reproduce: Command that repeats the comparison; "" for the results of a phone.
    """

    base: Side
    new: Side
    comparison: Comparison | None
    outputs: OutputDifference
    base_figures: Figures | None = None
    new_figures: Figures | None = None
    cases: tuple[CaseResult, ...] = ()
    controls: tuple[Control, ...] = ()
    findings: tuple[Finding, ...] = ()
    read_back: tuple[ReadBack, ...] = ()
    mapped_inputs: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    failures: tuple[Failed, ...] = ()
    gate: Gate | None = None
    name: str = "B"
    wrong_sides: tuple[str, ...] = ()
    candidates: tuple[ComparedSide, ...] = ()
    why: ProfileDifference | None = None
    causes: tuple[Finding, ...] = ()
    operators: tuple[OperatorCount, ...] = ()
    session: str = ""
    elapsed_s: float = 0.0
    budget_s: float = 0.0
    enough_s: float | None = None
    exact: ExactCheck | None = None
    machines: tuple[str, ...] = ()
    app: AppComparison | None = None
    reproduce: str = ""
