"""Every plan that was tried, with its interval and what became of it."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from ortune.records import Candidate, Comparison, Envelope, TuneResult
from ortune.report import sides
from ortune.report import tune_words as words
from ortune.report.html import svg

ORDER = 80
TITLE = "Every plan tried"
NOTE = (
    "Against the default. Filled and solid: confirmed on fresh blocks. Hollow and dotted: race data, exploratory: "
    "the best of many looks better than it is. Retired means not worth more time, never slower."
)
STOPPED = ("failed", "wrong-output", "not-tried")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the forest plot."""

    name: str
    origin: str
    kind: str
    factor: str
    interval: str
    n_blocks: int
    fate: str
    why: str
    plot: Markup


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """Measured plans in the order of their ratio, then those that failed or were not tried with the reason."""
    result = envelope.result
    measured = [c for c in result.candidates if c.ratio is not None and c.fate not in STOPPED]
    rest = [c for c in result.candidates if c.ratio is None or c.fate in STOPPED]
    if not result.candidates and not result.not_tried:
        return None
    scale = _scale(result, measured)
    rows = []
    if result.against_default is not None and result.winner != result.default:
        rows.append(_confirmed(result, result.against_default, scale))
    rows += [_raced(c, scale) for c in sorted(measured, key=lambda c: c.ratio or 0.0)]
    less = sides.kind(result.estimand) in ("memory", "cpu")
    return {
        "rows": rows,
        "axis": svg.axis(scale, words.times),
        "ends": ("more", "less") if less else ("slower", "faster"),
        "rest": [
            (c.plan.describe(), c.origin, words.FATES[c.fate], c.why or "no reason was recorded")
            for c in rest
        ],
        "not_tried": result.not_tried,
    }


def _scale(result: TuneResult, measured: list[Candidate]) -> svg.Scale:
    factors = [1 / c.ratio for c in measured if c.ratio]
    found = result.against_default
    if found is not None and result.winner != result.default:
        factors += [1 / v for v in (found.ratio, found.ratio_low, found.ratio_high) if v]
    # An interval after two blocks spans everything: it may widen the scale by a tenth at most.
    lowest, highest = min([1.0, *factors]) / 1.1, max([1.0, *factors]) * 1.1
    bounds = [1 / v for c in measured for v in (c.ratio_low, c.ratio_high) if v]
    return svg.factor_scale([*factors, *(min(highest, max(lowest, b)) for b in bounds)])


def _confirmed(result: TuneResult, found: Comparison, scale: svg.Scale) -> Row:
    sure = found.phase == "confirm"
    fate = "winner, confirmed" if sure and found.verdict == "faster" else "winner, not confirmed"
    return _row(
        result.winner.describe(),
        found.ratio,
        (found.ratio_low, found.ratio_high),
        scale,
        sure=sure,
        kind="winner",
        n_blocks=found.n_blocks,
        fate=fate,
        why="on fresh blocks, none of them from the race" if sure else "",
    )


def _raced(candidate: Candidate, scale: svg.Scale) -> Row:
    kind = {"winner": "winner", "current": "current", "default": "default"}.get(candidate.fate, "other")
    fate = "winner, in the race" if candidate.fate == "winner" else words.FATES[candidate.fate]
    return _row(
        candidate.plan.describe(),
        candidate.ratio or 1.0,
        (None, None) if candidate.fate == "default" else (candidate.ratio_low, candidate.ratio_high),
        scale,
        sure=False,
        kind=kind,
        n_blocks=candidate.n_blocks,
        fate=fate,
        why=candidate.why,
        origin=candidate.origin,
    )


def _row(
    name: str,
    ratio: float,
    bounds: tuple[float | None, float | None],
    scale: svg.Scale,
    *,
    sure: bool,
    kind: str,
    n_blocks: int,
    fate: str,
    why: str,
    origin: str = "",
) -> Row:
    ratio_low, ratio_high = bounds
    known = ratio_low is not None
    marks = svg.gridlines(scale, strong=1.0)
    marks += svg.interval(
        scale,
        1 / ratio,
        (1 / ratio_high if ratio_high else None) if known else 1 / ratio,
        (1 / ratio_low if ratio_low else None) if known else 1 / ratio,
        sure=sure,
        kind=kind,
    )
    factor = words.times(1 / ratio)
    interval = words.factors(ratio_low, ratio_high) if known else ""
    standing = "confirmed" if sure else "exploratory"
    return Row(
        name=name,
        origin=origin,
        kind=kind,
        factor=factor,
        interval=interval,
        n_blocks=n_blocks,
        fate=fate,
        why=why,
        plot=svg.picture(" ".join(p for p in (factor, interval, standing) if p), marks),
    )
