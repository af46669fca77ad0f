"""The result of a ``compare`` or ``tune`` document in a common form: two plans, their statistics, the comparison."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.records import Comparison, Control, Envelope, Figures, Finding, OutputDifference, Record, Side
from ortune.show.numbers import change, duration, span
from ortune.verbs._shared import tune_facts
from ortune.verbs.compare.result import CompareResult
from ortune.verbs.tune.result import TuneResult


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPair:
    """The two plans that one document compares.

    Attributes:
        base_name, new_name: Names of the two plans in words ("current", "default", "A"; "winner", "B").
        new, new_figures: The other plan and its statistics; None if nothing beats the base, or if nothing was timed.
        settled: Whether the comparison is a claim: a confirmation, or a sequential comparison valid after any block.
        read_back: Pairs (setting, level of its verification).
        hardware_bound: Whether the new side's model file is bound to the kind of CPU that created it; None if unknown.
        allowed: Names of guards that may fail.
        standing: How certain a tuning that changes nothing is; None for others.
        reproduce: Command of the tuning or comparison.
        load: Remark on other programs, if they may explain or hide a difference where there is no other plan; "".
    """

    base_name: str
    new_name: str
    base: Side
    new: Side | None
    base_figures: Figures | None
    new_figures: Figures | None
    comparison: Comparison | None
    settled: bool
    statistic: str
    outputs: OutputDifference | None
    read_back: tuple[tuple[str, str], ...]
    findings: tuple[Finding, ...]
    controls: tuple[Control, ...]
    hardware_bound: bool | None = None
    allowed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    bundle: str = ""
    standing: tune_facts.Standing | None = None
    reproduce: str = ""
    load: str = ""


def answer(envelope: Envelope[Record]) -> PlanPair | None:
    """Return the two plans of a document; None if the document compares nothing."""
    if isinstance(envelope.result, CompareResult):
        return _compared(envelope.result)
    return _tuned(envelope.result) if isinstance(envelope.result, TuneResult) else None


def _compared(result: CompareResult) -> PlanPair:
    return PlanPair(
        base_name="A",
        new_name=result.name,
        base=result.base,
        new=result.new,
        base_figures=result.base_figures,
        new_figures=result.new_figures,
        comparison=result.comparison,
        settled=result.comparison is not None,
        statistic=result.comparison.statistic if result.comparison else "",
        outputs=result.outputs,
        read_back=tuple((r.knob, r.level) for r in result.read_back),
        findings=result.findings,
        controls=result.controls,
        notes=result.notes,
        reproduce=result.reproduce,
    )


def _tuned(result: TuneResult) -> PlanPair:
    today = tune_facts.current_plan(result)
    base_plan = today if today is not None else result.default
    base = result.current_figures if today is not None else result.default_figures
    kept = result.winner == base_plan
    comparison = None if kept else tune_facts.deciding(result)
    new = Side(
        label=result.side.label,
        model=result.side.model,
        plan=result.winner,
        runtime=result.runtime or result.side.runtime,
    )
    default = result.default_figures if result.winner == result.default else None
    claim = tune_facts.deciding_claim(result)
    others = result.others if claim is None else claim.others
    doubtful = others is not None and (others.explains or others.hides)
    return PlanPair(
        base_name=tune_facts.base_name(result),
        new_name="winner",
        base=Side(
            label=result.side.label, model=result.side.model, plan=base_plan, runtime=result.side.runtime
        ),
        new=None if kept else new,
        base_figures=base,
        new_figures=None if kept else result.winner_figures or default,
        comparison=comparison,
        settled=comparison is not None and comparison.phase == "confirm",
        statistic=result.statistic,
        outputs=result.outputs,
        read_back=tuple((s.name, s.read_back) for s in result.settings if s.kept),
        findings=result.findings,
        controls=result.controls,
        hardware_bound=result.hardware_bound,
        allowed=result.allowed,
        notes=result.notes,
        bundle=result.bundle,
        standing=tune_facts.certainty(result) if kept else None,
        reproduce=result.reproduce,
        load=others.words if kept and others is not None and doubtful else "",
    )


def interval_words(comparison: Comparison) -> str:
    """Return a ratio of times as a signed change with its interval: "-10.0 % (-11.5 % to -8.3 %)"."""
    return f"{change(comparison.ratio)} ({span(comparison.ratio_low, comparison.ratio_high)})"


def latency_words(figures: Figures) -> str:
    """Return the median latency with the middle half of the trials: "88.5 us [88.0 us-90.9 us]"."""
    low, high = duration(figures.latency_low_ns), duration(figures.latency_high_ns)
    return f"{duration(figures.latency_ns)} [{low}-{high}]"
