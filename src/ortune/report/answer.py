"""What a document of ``compare`` or ``tune`` answers, in one shape for both: two plans, their figures, the proof."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ortune.records import (
    BenchResult,
    CompareResult,
    Comparison,
    Control,
    DiagnoseResult,
    DoctorResult,
    Envelope,
    Figures,
    Finding,
    HistoryResult,
    LookResult,
    OutputDifference,
    ProfileResult,
    QuantizeResult,
    Record,
    Side,
    TuneResult,
)
from ortune.report import (
    bench_words,
    compare_headline,
    compare_words,
    diagnose_words,
    doctor_words,
    history_words,
    look_words,
    profile_words,
    quantize_words,
    serve_words,
    tune_facts,
    tune_headline,
    tune_words,
)
from ortune.report.document import Document
from ortune.report.numbers import change, duration, percent, span

R = TypeVar("R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Two plans of one document.

    Attributes:
        base_name, new_name: What the two are called in words ("today", "default", "A"; "winner", "B").
        new, new_figures: None where nothing beats the base, or where nothing was timed.
        settled: The comparison is a claim: a confirmation, or a comparison that is valid at every look.
        read_back: Setting and how far it was verified.
        hardware_bound: The new side's model file is bound to the kind of CPU it was made on; None where the document
            does not say.
        allowed: Guards that were let through.
        standing: Of a tuning that changes nothing, how sure that is.
        reproduce: Of a tuning, its command.
    """

    base_name: str
    new_name: str
    base: Side
    new: Side | None
    base_figures: Figures | None
    new_figures: Figures | None
    comparison: Comparison | None
    settled: bool
    estimand: str
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


def answer(envelope: Envelope[Record]) -> Answer | None:
    """The document's answer; None for a document that compares nothing."""
    if isinstance(envelope.result, CompareResult):
        return _compared(envelope.result)
    return _tuned(envelope.result) if isinstance(envelope.result, TuneResult) else None


def _compared(result: CompareResult) -> Answer:
    return Answer(
        base_name="A",
        new_name=result.name,
        base=result.base,
        new=result.new,
        base_figures=result.base_figures,
        new_figures=result.new_figures,
        comparison=result.comparison,
        settled=result.comparison is not None,
        estimand=result.comparison.estimand if result.comparison else "",
        outputs=result.outputs,
        read_back=tuple((r.knob, r.level) for r in result.read_back),
        findings=result.findings,
        controls=result.controls,
        notes=result.notes,
    )


def _tuned(result: TuneResult) -> Answer:
    today = tune_facts.today(result)
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
    return Answer(
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
        estimand=result.estimand,
        outputs=result.outputs,
        read_back=tuple((s.name, s.read_back) for s in result.settings if s.kept),
        findings=result.findings,
        controls=result.controls,
        hardware_bound=result.hardware_bound,
        allowed=result.allowed,
        notes=result.notes,
        bundle=result.bundle,
        standing=tune_facts.standing(result) if kept else None,
        reproduce=result.reproduce,
    )


def _doctor_headline(result: DoctorResult) -> str:
    n = len([r for r in result.runtimes if not r.runtime.error])
    parts = ["one usable runtime" if n == 1 else f"{n} usable runtimes"]
    if result.noise and result.noise.status == "invalid":
        parts.append("the machine was too busy to measure its noise")
    elif result.noise:
        parts.append(f"two trials of one block differ by {percent(result.noise.block_scale)}")
    if result.findings:
        n = len(result.findings)
        parts.append("one finding" if n == 1 else f"{n} findings")
    return "; ".join(parts)


def _tune_headline(result: TuneResult) -> str:
    return result.headline or tune_headline.headline(result)


def _bench_headline(result: BenchResult) -> str:
    return "; ".join(bench_words.headline(row, result) for row in result.rows) or "no shape was measured"


def _look_headline(result: LookResult) -> str:
    """A first look claims nothing: its times are single observations, and their words say so."""
    return look_words.headline(result) or "not run"


def _first_runtime(result: DoctorResult) -> str:
    return next((r.runtime.build for r in result.runtimes if r.runtime.ort_version), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[R]):
    """How a verb's documents are read and told.

    Attributes:
        result: The type of the envelope's ``result``.
        document: What an envelope of it says.
        headline: The answer in words.
        build: What ran the model, with its version.
    """

    result: type[R]
    document: Callable[[Envelope[R]], Document]
    headline: Callable[[R], str]
    build: Callable[[R], str]


KINDS: dict[str, Kind[Any]] = {
    "compare": Kind(
        result=CompareResult,
        document=compare_words.document,
        headline=compare_headline.headline,
        build=lambda r: _both(r.base.runtime.build, r.new.runtime.build),
    ),
    "tune": Kind(
        result=TuneResult,
        document=tune_words.document,
        headline=_tune_headline,
        build=lambda r: _both(r.side.runtime.build, (r.runtime or r.side.runtime).build),
    ),
    "bench": Kind(
        result=BenchResult,
        document=bench_words.document,
        headline=_bench_headline,
        build=lambda r: r.side.runtime.build,
    ),
    "serve": Kind(
        result=BenchResult,
        document=serve_words.document,
        headline=_bench_headline,
        build=lambda r: r.side.runtime.build,
    ),
    "look": Kind(
        result=LookResult,
        document=look_words.document,
        headline=_look_headline,
        build=lambda r: r.runtime.build if r.runtime else "",
    ),
    "profile": Kind(
        result=ProfileResult,
        document=profile_words.document,
        headline=profile_words.headline,
        build=lambda r: r.side.runtime.build if r.side else "",
    ),
    "diagnose": Kind(
        result=DiagnoseResult,
        document=diagnose_words.document,
        headline=diagnose_words.headline,
        build=lambda r: r.side.runtime.build,
    ),
    "history": Kind(
        result=HistoryResult,
        document=history_words.document,
        headline=history_words.headline,
        build=lambda r: f"onnxruntime {_both(r.rows[0].release, r.rows[-1].release)}",
    ),
    "quantize": Kind(
        result=QuantizeResult,
        document=quantize_words.document,
        headline=quantize_words.headline,
        build=lambda r: r.side.runtime.build,
    ),
    "doctor": Kind(
        result=DoctorResult,
        document=doctor_words.document,
        headline=_doctor_headline,
        build=_first_runtime,
    ),
}
"""Verbs whose documents can be told again; every one of these is number 1."""


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} and {b}"


def interval_words(comparison: Comparison) -> str:
    """The ratio as a signed change with its interval, in the sense of time: "-10.0 % (-11.5 % to -8.3 %)"."""
    return f"{change(comparison.ratio)} ({span(comparison.ratio_low, comparison.ratio_high)})"


def latency_words(figures: Figures) -> str:
    """Median latency with the middle half of the trials: "88.5 us [88.0 us-90.9 us]"."""
    low, high = duration(figures.latency_low_ns), duration(figures.latency_high_ns)
    return f"{duration(figures.latency_ns)} [{low}-{high}]"
