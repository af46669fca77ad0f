"""Rows of comparisons: settings as they were read back, spread, and the shapes of a mix."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import CaseResult, Figures, Plan, ReadBack, assignment
from ortune.show import sides
from ortune.show.document import Column, Table, table
from ortune.show.numbers import change, duration, shorten, span

VERIFIED = {"effect": "verified", "echo": "accepted", "none": "not verified"}
"""Words for how a setting was verified: its effect was seen, the library repeats it, or neither."""


def setting(item: ReadBack, plan: Plan) -> str:
    """Return one setting of B and how it was verified."""
    text = assignment(item.knob, plan.settings.get(item.knob, "default"))
    if item.level == "none":
        return f"{text} {VERIFIED[item.level]}"
    # An echo only repeats the value in ONNX Runtime's spelling, an effect is what was observed.
    evidence = f" ({shorten(item.seen)})" if item.level == "effect" and item.seen else ""
    return f"{text} {VERIFIED[item.level]}{evidence}"


def spread(figures: Figures) -> str:
    """Return p90 over p10 within a process, with its interval over processes: "1.07 (1.05-1.09)"; "" if unknown."""
    if figures.spread_ratio is None:
        return ""
    text = f"{figures.spread_ratio:.2f}"
    if figures.spread_low_ratio is None or figures.spread_high_ratio is None:
        return text
    return f"{text} ({figures.spread_low_ratio:.2f}-{figures.spread_high_ratio:.2f})"


def cases(rows: Sequence[CaseResult], base: str, new: str, change_head: str) -> Table:
    """Return a table with a row for each shape of a mix."""
    columns = [Column("shape", "text"), *(Column(h) for h in ("weight", base, new, change_head))]
    return table(
        [*columns, Column("95 % interval", "text")],
        [
            (
                case.case,
                f"{case.weight:.2f}",
                duration(case.base_ns),
                sides.case_value(case),
                change(case.ratio),
                span(case.ratio_low, case.ratio_high),
            )
            for case in rows
        ],
    )
