"""Page of a tuning: the gain, its evidence, the code to paste, and everything that was tried."""

from __future__ import annotations

from ortune.records import Comparison, Envelope
from ortune.show import headline as heads
from ortune.show import sides
from ortune.show.chart import Chart, IntervalMark, bounds_of, factor_axis
from ortune.show.document import Block, Code, Document, Head, Line, Pairs, Section, stopped
from ortune.show.numbers import detectable, times
from ortune.show.sections import sections
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs.tune import sections as folder
from ortune.verbs.tune import words as tune_words
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.sections import _points as points

METHODS = {"wilcoxon": "Wilcoxon signed-rank", "sign-flip": "exact sign-flip test"}
BASIS = "Times are candidate against baseline in randomised blocks of fresh processes; a factor above 1x is better."
GAUGE_PX = 38


def document(envelope: Envelope[TuneResult]) -> Document:
    """Return the page with the full report of a tuning."""
    result = envelope.result
    deciding = tune_facts.deciding(result)
    large, unit = _large(result, deciding)
    machine = f" on {envelope.host.cpu}" if envelope.host else ""
    return Document(
        title=f"ortune tune: {result.side.label}",
        before=stopped(envelope),
        blocks=[
            Line(result.headline or tune_headline.headline(result), "strong"),
            Line(tune_headline.other_package(result)),
            *(Line(text, "look") for text in tune_headline.limits(result)),
            Line(result.budget.unspent, "faint"),
            Section(title="Code to paste", blocks=_paste(result)),
            Section(
                title="Next", blocks=[Code(title="", lines=tune_words.next_commands(envelope), commands=True)]
            ),
            *sections(folder, envelope),
        ],
        head=Head(
            large=large,
            unit=unit,
            tone="" if large or tune_facts.stays_best(result) else "unsure",
            values=_values(result),
            beside=Section(
                title="How sure", blocks=[*_gauge(result, deciding), Pairs(rows=_sure(result, deciding))]
            ),
            origin=f"{result.statistic}{machine}, {result.side.runtime.build}",
            basis=BASIS,
        ),
    )


def title(result: TuneResult) -> str:
    """Return a short title with the result: the gain, or the verdict."""
    return " ".join(part for part in _large(result, tune_facts.deciding(result)) if part)


def _paste(result: TuneResult) -> list[Block]:
    default = "the current configuration" if tune_facts.current_plan(result) is not None else "the default"
    code = tune_words.code_lines(result.code) if not tune_words.stays(result) else []
    return [
        Code(title="", lines=code),
        Line("" if code else f"No change is proposed: you already run {default}."),
        Line(_bundle(result), "faint"),
    ]


def _bundle(result: TuneResult) -> str:
    """Return a sentence on the bundle: its path or, on the page inside the bundle, its contents."""
    text = tune_headline.bundled(result)
    if not result.bundle:
        return ""
    own = result.bundle == tune_headline.HERE
    return f"{text[:1].upper()}{text[1:]}." if own else f"The bundle, ready to ship: {text}"


def _large(result: TuneResult, claim: Comparison | None) -> tuple[str, str]:
    """Return (the gain as a factor, its unit), or ("", the verdict in words) without a confirmed gain."""
    verdict = tune_facts.verdict(result)
    if verdict == "faster" and claim is not None:
        unit = tune_headline.gain_unit(claim.ratio, claim.statistic)
        than = " than the current configuration" if tune_facts.current_plan(result) is not None else ""
        return times(1 / claim.ratio).replace("x", "×"), f"{unit}{than}"
    if tune_facts.only_corrects(result):
        return "", f"Set {result.default.describe()}"
    if tune_facts.stays_best(result):
        return "", "Keep the current configuration" if tune_facts.current_plan(result) else "Keep the default"
    text = heads.word(verdict, result.statistic, result.worth_ratio)
    return "", text[:1].upper() + text[1:]


def _gauge(result: TuneResult, claim: Comparison | None) -> list[Chart]:
    """Return a chart of the claim's interval on an axis around "no change"; [] without a claim."""
    if claim is None:
        return []
    now = tune_facts.current_plan(result) is not None
    default = tune_facts.default_name(result)
    one, base = ("current", "the current configuration") if now else (default, f"the {default}")
    low, high = bounds_of(claim.ratio_low, claim.ratio_high)
    factor = 1 / claim.ratio
    axis = factor_axis(
        [v for v in (factor, low, high) if v is not None], lambda t: one if t == 1 else times(t)
    )
    alt = f"Against {base}: {times(factor)}, {tune_headline.interval_of(claim)} {tune_headline.bounds(claim)}"
    sure = claim.phase == "confirm"
    mark = IntervalMark(middle=factor, low=low, high=high, hue="winner", sure=sure)
    return [Chart(alt=alt, marks=(mark,), height_px=GAUGE_PX, x=axis)]


def _values(result: TuneResult) -> list[tuple[str, str, str]]:
    """Return (role, name, value) for the default, the current plan and the winner, in this order."""
    figures = {
        "default": result.default_figures,
        "current": result.current_figures,
        "winner": result.winner_figures,
    }
    wrong = result.wrong_default_figures
    # The two that the headline compares are written as there.
    before, _, after = tune_headline.both_values(result).partition(" -> ")
    compared = {tune_facts.base_name(result): before, "winner": after}
    return [
        *([("other", tune_words.WRONG_DEFAULT, sides.value(wrong, result.statistic))] if wrong else []),
        *(
            (role, points.role_words(result, role), compared.get(role) or sides.value(side, result.statistic))
            for role in points.roles(result)
            if (side := figures.get(role)) is not None
        ),
    ]


def _sure(result: TuneResult, claim: Comparison | None) -> list[tuple[str, str]]:
    """Return (name, text) rows with the evidence for the claim."""
    share = tune_facts.detectable_effect(result)
    if claim is None:
        n = len(tune_facts.plans_that_ran(result.candidates))
        seen = [("minimum detectable effect", detectable(share))] if n else []
        return [("configurations tested", str(n)), *seen]
    kind = "fresh" if claim.phase == "confirm" else "search"
    dropped = f", {claim.n_dropped} dropped" if claim.n_dropped else ""
    return [
        (tune_headline.interval_of(claim), tune_headline.bounds(claim)),
        ("blocks", f"{claim.n_blocks} {kind}{dropped}"),
        # What was confirmed has been detected: the effect that would be in four of five runs may be larger.
        *([] if claim.verdict in heads.PROVEN else [("minimum detectable effect", detectable(share))]),
        (
            "method",
            METHODS.get(claim.method, claim.method) + (f", p = {claim.p:.2g}" if claim.p is not None else ""),
        ),
    ]
