"""The page of a comparison: its document, with each side's interval drawn and all of the difference of profiles."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import CompareResult, Comparison, Envelope
from ortune.report import compare_words, sides
from ortune.report.chart import Interval, bounds_of, factor_axis
from ortune.report.document import Cell, Column, Document, Head, Line, Points, Table, Tone, table
from ortune.report.numbers import speed
from ortune.report.sections.profile import difference
from ortune.report.tune_words import factors, times

PROVEN = ("faster", "slower", "equivalent")
TONES: dict[str, Tone] = {"faster": "good", "slower": "bad"}


def document(envelope: Envelope[CompareResult]) -> Document:
    """The document as a page shows it."""
    result, plain = envelope.result, compare_words.document(envelope)
    blocks = list(plain.blocks)
    answers = next((i for i, block in enumerate(blocks) if not isinstance(block, Line)), len(blocks))
    blocks.insert(answers, _intervals(result))
    support = list(plain.support)
    if result.why:
        # The list of reasons is the beginning of the tables.
        support = [b for b in support if not (isinstance(b, Points) and b.title == compare_words.REASONS)]
        support.append(difference.why(result.why))
    return replace(plain, blocks=blocks, support=support, head=Head(unit=_large(result)))


def _large(result: CompareResult) -> str:
    """The answer in few words; of several sides that of the first."""
    claim = result.comparison
    if claim is None:
        return "Not timed"
    words = {"equivalent": "No difference", "inconclusive": "Inconclusive", "invalid": "No claim"}
    plain = words.get(claim.verdict) or f"{result.name} is {speed(claim.ratio)}"
    limits = [] if result.outputs.ok else ["outputs differ"]
    if claim.verdict in PROVEN and not result.controls:
        limits.append("controls not run")
    return "; ".join([plain, *limits])


def _intervals(result: CompareResult) -> Table:
    """Each side's interval around "as fast as A"."""
    compared = [(c.name, c.side, c.comparison) for c in result.candidates] or [
        (result.name, result.new, result.comparison)
    ]
    # Of one model with other settings its name tells nothing.
    arms = [
        (name, side.plan.describe() if side.label == result.base.label else side.label, c)
        for name, side, c in compared
        if c is not None
    ]
    ends = [1 / v for *_, c in arms for v in (c.ratio, c.ratio_low, c.ratio_high) if v]
    columns = [
        Column("side", "name"),
        Column(
            "",
            "chart",
            axis=factor_axis(ends, lambda t: "A" if t == 1 else times(t)),
            ends=("slower", "faster"),
        ),
        Column("against A", "text"),
    ]
    return table(columns, [_row(name, label, c, controlled=bool(result.controls)) for name, label, c in arms])


def _row(name: str, label: str, claim: Comparison, *, controlled: bool) -> list[Cell]:
    low, high = bounds_of(claim.ratio_low, claim.ratio_high)
    factor, tone = 1 / claim.ratio, TONES.get(claim.verdict, "")
    hue = {"good": "winner", "bad": "bad"}.get(tone, "other")
    text = f"{times(factor)} ({factors(claim.ratio_low, claim.ratio_high)})"
    mark = Interval(middle=factor, low=low, high=high, hue=hue, sure=controlled and claim.verdict in PROVEN)
    return [
        Cell(f"{name} {label}", tone=tone),
        Cell(f"{name} against A: {text}", marks=(mark,)),
        Cell(text, f"{sides.statistic(claim.estimand)}, {claim.n_blocks} blocks", "strong"),
    ]
