"""The answer: how much faster, how sure, what to paste."""

from __future__ import annotations

from markupsafe import Markup

from ortune.records import Comparison, Envelope, TuneResult
from ortune.report import sides
from ortune.report import tune_words as words
from ortune.report.html import points, svg
from ortune.report.numbers import percent
from ortune.report.tune_words import code_lines

ORDER = 0
TITLE = "Verdict"
NOTE = ""
UNSURE = {"nothing-tested": "Nothing was tested", "not-shown": "No improvement found"}
"""What is said in place of "Keep the default", which is an answer."""
METHODS = {"wilcoxon": "Wilcoxon signed-rank", "sign-flip": "exact sign-flip test"}


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """The large number, the interval, before and after, and the code."""
    result = envelope.result
    found = words.deciding(result)
    factor, unit = _large(result, found)
    return {
        "factor": factor,
        "unit": unit,
        "gauge": _gauge(result, found) if found is not None else "",
        "steps": _steps(result),
        "sure": _sure(result, found),
        "support": words.support(result),
        "code": code_lines(result.code) if words.replaces(result) else (),
        "kept": "today's plan" if words.today(result) is not None else "the default",
        "bundle": result.bundle,
        "headline": result.headline or words.headline(result),
        "interrupted": envelope.status == "interrupted",
    }


def title(result: TuneResult) -> str:
    """The answer in very few words."""
    return " ".join(part for part in _large(result, words.deciding(result)) if part)


def _large(result: TuneResult, found: Comparison | None) -> tuple[str, str]:
    """The factor and what it is of; words where there is no gain to name."""
    if result.budget.exploratory and not words.nothing_tested(result):
        return "", "Nothing confirmed"
    if result.wrong_default is not None and result.winner == result.default:
        return "", f"Set {result.default.describe()}"
    if result.winner == result.current or (result.winner == result.default and words.today(result) is None):
        keep = "Keep what you have" if words.today(result) else "Keep the default"
        return "", UNSURE.get(words.standing(result), keep)
    if found is None or found.verdict != "faster":
        return "", "No gain shown"
    standing = " than today" if words.today(result) is not None else ""
    standing += "" if found.phase == "confirm" else ", exploratory"
    return words.times(1 / found.ratio).replace("x", "×"), words.gain_unit(
        found.ratio, found.estimand
    ) + standing


def _gauge(result: TuneResult, found: Comparison) -> Markup:
    """The interval on a scale around "no change"."""
    low = 1 / found.ratio_high if found.ratio_high else None
    high = 1 / found.ratio_low if found.ratio_low else None
    scale = svg.factor_scale([v for v in (1 / found.ratio, low, high) if v is not None])
    sure = found.phase == "confirm"
    marks = svg.gridlines(scale, strong=1.0, down_to="38")
    marks += svg.interval(scale, 1 / found.ratio, low, high, sure=sure, kind="winner", y="18")
    now = words.today(result) is not None
    one = "today" if now else "default"
    marks += svg.labels(scale, [one if t == 1 else words.times(t) for t in scale.ticks], y=53)
    base = "what runs today" if now else "the default"
    inside = words.bounds(found)
    alt = f"Against {base}: {words.times(1 / found.ratio)}, {words.interval_of(found)} {inside}"
    return svg.picture(alt, marks, height=58, kind="gauge")


def _steps(result: TuneResult) -> list[tuple[str, str, str]]:
    """Role, name and value, slowest first in the order of the story: default, today, winner."""
    figures = {
        "default": result.default_figures,
        "current": result.current_figures,
        "winner": result.winner_figures,
    }
    return [
        (role, points.role_words(result, role), sides.value(found, result.estimand))
        for role in points.roles(result)
        if (found := figures[role]) is not None and (role != "winner" or words.both_values(result))
    ]


def _sure(result: TuneResult, found: Comparison | None) -> list[tuple[str, str]]:
    """What the claim rests on, as names and values."""
    if found is None:
        n = len(words.tried(result.candidates))
        share = result.smallest_effect_ratio
        seen = percent(share) if share else "not known"
        return [("configurations tested", str(n)), *([("minimum detectable effect", seen)] if n else [])]
    kind = "fresh" if found.phase == "confirm" else "race"
    dropped = f", {found.n_dropped} dropped" if found.n_dropped else ""
    return [
        (words.interval_of(found), words.bounds(found)),
        ("blocks", f"{found.n_blocks} {kind}{dropped}"),
        ("minimum detectable effect", percent(found.smallest_effect_ratio)),
        (
            "method",
            METHODS.get(found.method, found.method) + (f", p = {found.p:.2g}" if found.p is not None else ""),
        ),
    ]
