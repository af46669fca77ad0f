"""The row of a model among several that are run with the same releases."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.records import Envelope, Figures, ModelRow, RowFigure
from ortune.verbs._shared.model_row import change, changed, of_answer
from ortune.verbs.history.result import HistoryResult
from ortune.verbs.history.words import headline, outputs


def row(envelope: Envelope[HistoryResult]) -> ModelRow:
    """Return the row of a model: outputs, statistic, load time and memory of the newest release against the oldest."""
    result = envelope.result
    differ = outputs(result)
    measured = {row.release: row.figures for row in result.rows if row.figures is not None and not row.failed}
    ran = list(measured)
    sides = f"{ran[0]} against {ran[-1]}" if len(ran) > 1 else ""
    failed = tuple(f"{row.release}: {row.failed}" for row in result.rows if row.failed)
    several = len(ran) > 2 and result.changed
    where = (f"changed in {', '.join(result.changed)}",) if several else ()
    return of_answer(
        envelope,
        headline(result),
        alarm=bool(differ),
        figures=(*changed(result.whole), *_besides(list(measured.values()))),
        remarks=(differ, sides, *where, *failed),
    )


def _besides(figures: Sequence[Figures]) -> tuple[RowFigure, ...]:
    """Return the changes of load time and memory from the oldest to the newest release, without intervals."""
    if len(figures) < 2:
        return ()
    new, old = figures[0], figures[-1]
    pairs = (("load", new.load_ns, old.load_ns), ("memory", new.peak_bytes, old.peak_bytes))
    return tuple(change(name, after / before) for name, after, before in pairs if after and before)
