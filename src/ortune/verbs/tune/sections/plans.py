"""Every plan that was tried, with its interval and outcome."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.printable import amount
from ortune.records import Candidate, Comparison, Envelope, Plan
from ortune.show import numbers, sides
from ortune.show.chart import Axis, IntervalMark, bounds_of, factor_axis
from ortune.show.document import Block, Cell, Column, Points, Row, Tone, table
from ortune.verbs.tune import details as tune_details
from ortune.verbs.tune.result import TuneResult

ORDER = 80
TITLE = "All tested configurations"
NOTE = (
    "Against the default. Filled and solid: confirmed on fresh blocks. Hollow and dotted: exploratory, and the "
    "best of many looks better than it is. Eliminated means not worth more time, not slower."
)
STOPPED = ("failed", "wrong-output", "not-tried")
WITHOUT = (Column("plan", "name"), Column("status", "label"), Column("why", "text"))
TONES: dict[str, Tone] = {"winner": "good", "current": "look"}


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return tables of measured plans, sorted by ratio, and of plans that failed or were not tried, with reasons."""
    result = envelope.result
    measured = [c for c in result.candidates if c.ratio is not None and c.status not in STOPPED]
    rest = [c for c in result.candidates if c.ratio is None or c.status in STOPPED]
    if not result.candidates and not tune_details.not_tried(result) and result.wrong_against_default is None:
        return []
    confirmed = result.against_default if result.winner != result.default else None
    axis = _axis(confirmed, measured, result.wrong_against_default)
    rows = [_confirmed(result.winner, confirmed)] if confirmed is not None else []
    rows += [_raced(c) for c in sorted(measured, key=lambda c: c.ratio or 0.0)]
    rows += _wrong_default(result)
    less = sides.kind(result.statistic) in ("memory", "cpu")
    columns = [
        Column("plan", "name"),
        Column("", "chart", axis=axis, ends=("more", "less") if less else ("slower", "faster")),
        Column("against the default, and outcome", "text"),
    ]
    reasons: list[Row] = [
        [
            Cell(c.plan.describe(), c.origin),
            tune_details.STATUSES[c.status],
            c.why or "no reason was recorded",
        ]
        for c in rest
    ]
    return [
        table(columns, rows),
        table(WITHOUT, reasons, title="Without a figure"),
        Points(items=tune_details.not_tried(result), title="Not tried"),
    ]


def _wrong_default(result: TuneResult) -> list[list[Cell]]:
    """Return the row of a default with wrong outputs, which is in no comparison; [] if the outputs are correct."""
    plan, seen = result.wrong_default, result.wrong_against_default
    if plan is None or seen is None:
        return []
    bounds = (seen.ratio_low, seen.ratio_high) if not sides.no_interval(seen) else (None, None)
    name = Cell(plan.describe(), "the requested default", "bad")
    return [_row(name, seen.ratio, bounds, seen.n_blocks, tune_details.STATUSES["wrong-output"], "")]


def _axis(
    confirmed: Comparison | None, measured: Sequence[Candidate], wrong: Comparison | None = None
) -> Axis:
    factors = [1 / c.ratio for c in measured if c.ratio] + ([1 / wrong.ratio] if wrong else [])
    if confirmed is not None:
        factors += [1 / v for v in (confirmed.ratio, confirmed.ratio_low, confirmed.ratio_high) if v]
    # An interval after two blocks spans everything: it may widen the axis by a tenth at most.
    lowest, highest = min([1.0, *factors]) / 1.1, max([1.0, *factors]) * 1.1
    bounds = [1 / v for c in measured for v in (c.ratio_low, c.ratio_high) if v]
    return factor_axis([*factors, *(min(highest, max(lowest, b)) for b in bounds)], numbers.times)


def _confirmed(winner: Plan, claim: Comparison) -> list[Cell]:
    sure = claim.phase == "confirm"
    outcome = "winner, confirmed" if sure and claim.verdict == "faster" else "winner, not confirmed"
    why = "on fresh blocks, none of them from the search" if sure else ""
    bounds = (claim.ratio_low, claim.ratio_high)
    return _row(
        Cell(winner.describe(), tone="good"), claim.ratio, bounds, claim.n_blocks, outcome, why, sure=sure
    )


def _raced(candidate: Candidate) -> list[Cell]:
    outcome = (
        "winner, in the search" if candidate.status == "winner" else tune_details.STATUSES[candidate.status]
    )
    if candidate.status not in ("winner", "default", "current"):
        outcome = f"not confirmed; {outcome}"
    name = Cell(candidate.plan.describe(), candidate.origin, TONES.get(candidate.status, ""))
    bounds = (candidate.ratio_low, candidate.ratio_high)
    if candidate.status == "default":
        bounds = (None, None)  # the others are compared with it
    return _row(name, candidate.ratio or 1.0, bounds, candidate.n_blocks, outcome, candidate.why)


def _row(
    name: Cell,
    ratio: float,
    bounds: tuple[float | None, float | None],
    n_blocks: int,
    outcome: str,
    why: str,
    *,
    sure: bool = False,
) -> list[Cell]:
    factor, has_interval = 1 / ratio, bounds[0] is not None
    low, high = bounds_of(*bounds) if has_interval else (factor, factor)
    hue = {"good": "winner", "look": "current"}.get(name.tone, "other")
    interval = f" ({numbers.factors(*bounds)})" if has_interval else ""
    text = f"{numbers.times(factor)}{interval}"
    # Only the row of the winner is of fresh blocks.
    beneath = f"{amount(n_blocks, 'block' if sure else 'search block')}; {outcome}{f': {why}' if why else ''}"
    alt = f"{text} {'confirmed' if sure else 'exploratory'}"
    mark = IntervalMark(middle=factor, low=low, high=high, hue=hue, sure=sure)
    return [name, Cell(alt, marks=(mark,)), Cell(text, beneath, "strong")]
