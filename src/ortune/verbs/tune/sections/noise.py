"""Controls and noise, which show how small a difference this machine can detect."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from ortune.records import Control, Envelope
from ortune.show.chart import Box, Chart, Mark, order_axis, ordered_dots, value_axis
from ortune.show.checks import control_problem, control_words
from ortune.show.document import Block, Cell, Column, Line, table
from ortune.verbs.tune.result import TuneResult
from ortune.verbs.tune.sections import _points as points

ORDER = 90
TITLE = "Controls and noise"
NOTE = (
    "A/A check: identical configurations must not differ. Sensitivity check: a known slowdown must be measured at its "
    "true size. The chart shows the untouched default over the whole session; "
    "a drift comes from the machine, not the model."
)
HEIGHT_PX = 130
CONTROL_NAMES = {
    "identical": "A/A check",
    "spike-in": "sensitivity check",
    "identical-late": "A/A check, whole run",
}
COLUMNS = (Column("control", "text"), Column("answer", "label"), Column("observed", "text"))


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return the results of the controls, a chart of the default over time, and dropped blocks with their reasons."""
    result = envelope.result
    dropped = Counter(point.dropped for point in result.points if point.dropped)
    chart = _drift(result)
    if not result.controls and not dropped and not chart:
        return []
    why = ", ".join(f"{n} ({reason})" for reason, n in dropped.items())
    lost = f"Whole blocks dropped: {why}." if why else "No block was dropped."
    return [
        table(COLUMNS, [_row(control) for control in result.controls]),
        *chart,
        Line(f"Smallest gain of interest: {100 * result.worth_ratio:.1f} %. {lost}"),
    ]


def _row(control: Control) -> list[Cell]:
    outcome = (
        "passed"
        if control.ok and not control_problem(control)
        else "went undetected"
        if control.ok
        else "FAILED"
    )
    return [
        Cell(CONTROL_NAMES[control.name], f"{control.n_blocks} blocks"),
        Cell(outcome, tone="strong" if control.ok else "bad"),
        Cell("; ".join(control_words([control]))),
    ]


def _drift(result: TuneResult) -> list[Chart]:
    """Return a chart of the default in every block of the session, with the phases in the background."""
    values = [None if p.dropped else points.value(result, p, "default") for p in result.points]
    numbers = [v for v in values if v is not None]
    if not numbers:
        return []
    words = points.words(result)
    axis = value_axis(numbers, words)
    phases = ["search" if point.phase == "race" else point.phase for point in result.points]
    starts = [i for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]]
    marks: list[Mark] = [
        Box(x0=start, x1=end, y0=axis.low, y1=axis.high, hue=f"phase odd{i % 2}", text=phases[start])
        for i, (start, end) in enumerate(pairwise([*starts, len(phases)]))
    ]
    alt = (
        f"The default in {len(numbers)} blocks: {words(min(numbers))} to {words(max(numbers))}; phases in order: "
        f"{', '.join(dict.fromkeys(phases))}"
    )
    return [
        Chart(
            title="The default, one dot per block, over the session",
            alt=alt,
            marks=(*marks, *ordered_dots(values, "default")),
            height_px=HEIGHT_PX,
            x=order_axis(len(phases), "first block", "last block"),
            y=axis,
        )
    ]
