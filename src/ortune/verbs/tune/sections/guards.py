"""Guards, and the comparison of the outputs."""

from __future__ import annotations

from ortune.records import Envelope, Guard
from ortune.show.chart import CHANGES, Axis, IntervalMark, Mark, Segment, factor_axis
from ortune.show.checks import GUARD_NAMES, guard_state
from ortune.show.checks import guard as guard_words
from ortune.show.document import Block, Cell, Column, Line, table
from ortune.show.numbers import change, span
from ortune.verbs._shared import tune_facts, tune_headline
from ortune.verbs.tune import words as tune_words
from ortune.verbs.tune.result import TuneResult

ORDER = 50
TITLE = "Guards and figures"
NOTE = ""
HOW_TO_READ = (
    "What must not get worse while another figure gets better. The dashed line is the limit; left is better."
)
"""Note below the charts of the guards."""
OF_PROCESSES = (
    "Medians over processes, except that a value with a change is that of the other side times the paired change. "
    "A process has its own p50 and p95: those of slow processes may exceed the p95 shown."
)


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return one row per guard, the comparison of the outputs, and the statistics of both sides."""
    result = envelope.result
    deciding = tune_facts.deciding(result)
    guards = deciding.guards if deciding is not None else ()
    ends = [v for g in guards for v in (g.ratio, g.ratio_low, g.ratio_high, g.limit_ratio) if v]
    axis = factor_axis(ends, lambda t: f"{100 * (t - 1):+.0f} %" if t != 1 else "0 %", steps=CHANGES)
    base = "the current configuration" if tune_facts.current_plan(result) is not None else "the default"
    columns = [
        Column("figure", "text"),
        Column(f"against {base}", "chart", axis=axis),
        Column("change, limit, result", "text"),
    ]
    heads, *rows = tune_words.sides(result)
    outputs = tune_headline.outputs(result)
    return [
        table(columns, [_row(guard, axis) for guard in guards], notes=[HOW_TO_READ] if guards else []),
        Line(f"Outputs of the winner against the default: {outputs}." if outputs else ""),
        table(
            [Column("", "label"), *(Column(head) for head in heads[1:])],
            rows,
            notes=[*tune_words.figures_table(result).notes, OF_PROCESSES],
        ),
    ]


def _row(guard: Guard, axis: Axis) -> list[Cell]:
    limit, state = change(guard.limit_ratio), guard_state(guard)
    marks: list[Mark] = [Segment(x0=guard.limit_ratio, x1=guard.limit_ratio, hue="limit")]
    text = state
    if guard.ratio is not None:
        low, high = guard.ratio_low, guard.ratio_high
        interval = span(low, high) if low is not None else ""
        if low is None:
            low = high = guard.ratio
        hue = "bad" if guard.failed else "winner"
        marks.append(IntervalMark(middle=guard.ratio, low=low, high=high, sure=True, hue=hue))
        text = f"{change(guard.ratio)}{f' ({interval})' if interval else ''}; limit {limit}: {state}"
    return [
        Cell(GUARD_NAMES[guard.figure]),
        Cell(f"{guard_words(guard)}; limit {limit}", marks=tuple(marks)),
        Cell(text, guard.note, "bad" if guard.failed else ""),
    ]
