"""The page of a comparison: its document, plus a chart of the intervals and the complete profile difference."""

from __future__ import annotations

from dataclasses import replace

from ortune.printable import amount
from ortune.records import Comparison, Envelope
from ortune.show import difference_section as difference
from ortune.show import headline as heads
from ortune.show import machine_words, others_words, sides
from ortune.show.chart import IntervalMark, bounds_of, factor_axis
from ortune.show.document import Cell, Column, Document, Head, Points, Table, Tone, table
from ortune.show.numbers import change, factor, span, times
from ortune.verbs.compare import words as compare_words
from ortune.verbs.compare.result import CompareResult

PROVEN = ("faster", "slower", "equivalent")
TONES: dict[str, Tone] = {"faster": "good", "slower": "bad"}


def document(envelope: Envelope[CompareResult]) -> Document:
    """Return the page of a comparison: the terminal document plus a chart of intervals and the profile difference."""
    result, plain = envelope.result, compare_words.document(envelope)
    if result.app is not None:
        return plain
    support = list(plain.support)
    if result.why:
        # The list of reasons is the beginning of the tables.
        support = [b for b in support if not (isinstance(b, Points) and b.title == compare_words.REASONS)]
        support.append(difference.why(result.why))
    head = replace(_head(result), origin=_origin(envelope))
    return replace(plain.with_below_lines(_intervals(result)), support=support, head=head)


def _origin(envelope: Envelope[CompareResult]) -> str:
    """Return the machine's CPU and the ONNX Runtime builds of all sides, as text."""
    result = envelope.result
    sides_ = [side.side for side in result.candidates] or [result.new]
    builds = dict.fromkeys(side.runtime.build for side in (result.base, *sides_))
    return machine_words.origin(envelope.host, " and ".join(builds))


def _head(result: CompareResult) -> Head:
    """Return the head of the page: the verdict in the headline, with a large number only if it is confirmed."""
    claim = result.comparison
    if claim is None:
        return Head(unit="Not timed", tone="unsure")
    text = heads.word(claim.verdict, claim.statistic)
    limits = [] if result.outputs.ok and not result.wrong_sides else ["outputs differ"]
    if claim.verdict in PROVEN and not result.controls:
        limits.append("controls not run")
    if others_words.doubts(claim):
        limits.append("measured next to other programs")
    if limits or claim.verdict not in heads.PROVEN:
        return Head(unit="; ".join([text[:1].upper() + text[1:], *limits]), tone="unsure")
    of = sides.statistic_name(claim.statistic)
    large = f"{factor(max(claim.ratio, 1 / claim.ratio))}×"
    tone: Tone = "bad" if claim.verdict == "slower" else ""
    return Head(large=large, unit=f"{text} in {of}, {result.name} against A", tone=tone)


def _intervals(result: CompareResult) -> Table:
    """Return a chart with the interval of each side's speed relative to A."""
    compared = [(c.name, c.side, c.comparison) for c in result.candidates] or [
        (result.name, result.new, result.comparison)
    ]
    # If both sides are one model with different settings, the model's name does not distinguish them.
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
            # The labels at the ends give the direction: 2x on the left takes twice as long.
            axis=factor_axis(ends, lambda t: "A" if t == 1 else times(max(t, 1 / t))),
            ends=("slower", "faster"),
        ),
        Column("against A", "text"),
    ]
    return table(columns, [_row(name, label, c, controlled=bool(result.controls)) for name, label, c in arms])


def _row(name: str, label: str, claim: Comparison, *, controlled: bool) -> list[Cell]:
    low, high = bounds_of(claim.ratio_low, claim.ratio_high)
    tone = TONES.get(claim.verdict, "")
    hue = {"good": "winner", "bad": "bad"}.get(tone, "other")
    if claim.verdict in heads.PROVEN:
        large = factor(max(claim.ratio, 1 / claim.ratio))
        text = f"{large}x {heads.word(claim.verdict, claim.statistic)} ({heads.bounds(claim)})"
    else:
        ratio, least, most = sides.as_shown(claim)
        text = f"{change(ratio)} ({span(least, most)})"
    mark = IntervalMark(
        middle=1 / claim.ratio, low=low, high=high, hue=hue, sure=controlled and claim.verdict in PROVEN
    )
    return [
        Cell(f"{name} {label}", tone=tone),
        Cell(f"{name} against A: {text}", marks=(mark,)),
        Cell(text, f"{sides.statistic_name(claim.statistic)}, {amount(claim.n_blocks, 'block')}", "strong"),
    ]
