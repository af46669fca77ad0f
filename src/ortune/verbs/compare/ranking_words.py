"""The table that ranks several sides, fastest first."""

from __future__ import annotations

from ortune.records import VerdictName
from ortune.show import headline as heads
from ortune.show import sides
from ortune.show.document import Cell, Column, Table, Tone, table
from ortune.show.numbers import change, interval_name, speed
from ortune.show.output_words import outputs_cell
from ortune.verbs.compare.result import ComparedSide, CompareResult

TONES: dict[VerdictName, Tone] = {
    "faster": "good",
    "slower": "bad",
    "equivalent": "strong",
    "inconclusive": "unsure",
    "wrong-output": "bad",
    "invalid": "bad",
}


def ranking(result: CompareResult) -> Table:
    """Return a table with a row for every side compared with the base, fastest first; no rows for a single side."""
    ranked = result.candidates
    compared = [c for c in (side.comparison for side in ranked) if c is not None]
    statistic = compared[0].statistic if compared else "p50 latency"
    figure = sides.statistic_name(statistic)
    ranked_sides = [side.side for side in ranked] + [result.base]
    which = [
        (Column("model", "name"), [side.label for side in ranked_sides]),
        (Column("with", "text"), [side.plan.describe() for side in ranked_sides]),
        (Column("runtime", "text"), [side.runtime.build for side in ranked_sides]),
    ]
    # Columns that are equal for all sides are left out.
    which = [(column, texts) for column, texts in which if len(set(texts)) > 1]
    names = list(zip(*(texts for _, texts in which), strict=True)) or [()] * len(ranked_sides)
    columns = [Column("", "label"), *(column for column, _ in which), Column(figure)]
    columns += [Column("against A", "text"), Column("interval", "text"), Column("outputs", "text")]
    rows: list[tuple[Cell | str, ...]] = [
        (
            side.name,
            *called,
            _value(result, side, statistic),
            _against(side),
            "" if side.comparison is None else sides.interval(side.comparison),
            outputs_cell(side.outputs, side.failures),
        )
        for side, called in zip(ranked, names, strict=False)
    ]
    if rows and result.base_figures is not None:
        rows.append(("A", *names[-1], sides.value(result.base_figures, statistic), "", "", ""))
    levels = list(dict.fromkeys(interval_name(c.level).removesuffix(" interval") for c in compared))
    together = (
        f"the intervals hold together with 95 % confidence{' (Holm)' if len(levels) > 1 else ''}, "
        f"each alone with {' or '.join(levels)}"
    )
    notes = [together, *sides.lower_quantile(statistic)] if compared else []
    return table(columns, rows, notes=notes)


def _value(result: CompareResult, side: ComparedSide, statistic: str) -> str:
    """Return a side's value of the compared statistic as text, consistent with the paired change; "" if unknown."""
    if side.figures is None or side.comparison is None:
        return "" if side.figures is None else sides.value(side.figures, statistic)
    return sides.new_value(result.base_figures, side.figures, side.comparison)


def _against(side: ComparedSide) -> Cell:
    c = side.comparison
    if c is None:
        return Cell("does not run" if side.outputs is None else "not timed", tone="bad")
    proven = c.verdict in heads.PROVEN
    if sides.single(c):
        return Cell(heads.WORDS[c.verdict], tone=TONES[c.verdict])
    text = speed(c.ratio) if proven else f"{heads.WORDS[c.verdict]} ({change(c.ratio)})"
    tone = TONES[c.verdict]
    ok = side.outputs is not None and side.outputs.ok
    return Cell(text, tone=tone if ok or tone != "good" else "unsure")
