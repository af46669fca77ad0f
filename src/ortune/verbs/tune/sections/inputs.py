"""The inputs of the runs, and which of them are guesses."""

from __future__ import annotations

from ortune.records import Envelope, InputChoice, Workload
from ortune.show.document import Block, Cell, Column, Line, Pairs, Points, table
from ortune.show.numbers import duration
from ortune.verbs.tune.result import TuneResult

ORDER = 100
TITLE = "Inputs used"
NOTE = "Latency can depend on shapes and values. Check what is marked as a guess."
ORIGINS = {
    "model": "declared in the model",
    "constraint": "follows from the graph",
    "name": "taken from its name",
    "trial": "found by trial",
    "user": "provided by you",
}
COLUMNS = (
    Column("input", "name"),
    Column("type", "label"),
    Column("shape", "label"),
    Column("values", "text"),
    Column("how known", "text"),
)


def blocks(envelope: Envelope[TuneResult]) -> list[Block]:
    """Return one table of inputs per shape of the workload; [] without a workload."""
    work = envelope.workload
    if work is None:
        return []
    many = len(work.cases) > 1
    guesses = any(i.guessed for c in work.cases for i in c.inputs)
    return [
        *(
            table(
                COLUMNS,
                [_row(choice) for choice in case.inputs],
                title=f"{case.name}{f', weight {case.weight:.2f}' if many else ''}",
            )
            for case in work.cases
        ),
        Line("Replace a guess with --shape, --dim or your own data in --inputs." if guesses else ""),
        Points(items=work.notes),
        Pairs(rows=_facts(work)),
    ]


def _facts(work: Workload) -> list[tuple[str, str]]:
    pause = f"a pause of {duration(work.gap_ns)} between them" if work.gap_ns else "back to back"
    rows = [
        ("seed", str(work.seed)),
        ("inputs from", work.inputs_path),
        ("calls", pause),
        *(("custom operators", path) for path in work.custom_ops),
        ("first runs that failed", str(work.tries) if work.tries else ""),
    ]
    return [(name, text) for name, text in rows if text]


def _row(choice: InputChoice) -> list[Cell]:
    axes = choice.guessed_axes
    shape = " × ".join(f"{size}{'?' if axis in axes else ''}" for axis, size in enumerate(choice.shape))
    values = choice.role
    if choice.low is not None and choice.high is not None:
        values += f", {choice.low:g} to {choice.high:g}"
    origin = f"{'guess, ' if choice.guessed else ''}{ORIGINS[choice.origin]}"
    return [
        Cell(choice.name),
        Cell(choice.dtype),
        Cell(shape or "scalar"),
        Cell(values),
        Cell(origin, choice.note, "look" if choice.guessed else ""),
    ]
