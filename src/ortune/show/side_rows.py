"""Rows of comparisons: settings that were read back, the spread of the runs, and the shapes of a mix."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import CaseResult, Figures, Plan, ReadBack, assignment
from ortune.show import sides
from ortune.show.document import Column, Table, table
from ortune.show.numbers import change, duration, shorten, span

VERIFIED = {"effect": "verified", "echo": "accepted", "none": "not verified"}
"""Maps how a setting was verified to words: its effect was seen, the library repeats its value, or neither."""


def setting(item: ReadBack, plan: Plan) -> str:
    """Return a setting of B with its value and how it was verified."""
    text = assignment(item.knob, plan.settings.get(item.knob, "default"))
    if item.level == "none":
        return f"{text} {VERIFIED[item.level]}"
    # An echo only repeats the value in ONNX Runtime's spelling, an effect is what was observed.
    evidence = f" ({shorten(item.seen)})" if item.level == "effect" and item.seen else ""
    return f"{text} {VERIFIED[item.level]}{evidence}"


def spread(figures: Figures) -> str:
    """Return the ratio of p90 to p10 within a process, with its interval over processes: "1.07 (1.05-1.09)".

    "" if the ratio is unknown.
    """
    if figures.spread_ratio is None:
        return ""
    text = f"{figures.spread_ratio:.2f}"
    if figures.spread_low_ratio is None or figures.spread_high_ratio is None:
        return text
    return f"{text} ({figures.spread_low_ratio:.2f}-{figures.spread_high_ratio:.2f})"


def cases(rows: Sequence[CaseResult], base: str, new: str, change_head: str) -> Table:
    """Return a table with the weight, times and change of each shape of a mix.

    Args:
        rows: Results by shape.
        base: Head of the base's times.
        new: Head of the new side's times.
        change_head: Head of the changes.
    """
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
