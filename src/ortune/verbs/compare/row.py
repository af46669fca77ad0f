"""The row of a compared model among several."""

from __future__ import annotations

from ortune.records import Envelope, ModelRow
from ortune.verbs._shared.model_row import OUTPUTS_DIFFER, changed, of_answer, time_of
from ortune.verbs.compare.gate_words import gate
from ortune.verbs.compare.headline import headline
from ortune.verbs.compare.result import CompareResult


def row(envelope: Envelope[CompareResult]) -> ModelRow:
    """Return the row for the side in the headline compared with A."""
    result = envelope.result
    outputs = result.outputs
    differ = bool(result.wrong_sides) or (outputs is not None and not outputs.ok)
    needs = (f"{result.name}: {result.new.label}",) if result.candidates else ()
    answers = tuple(line for line in gate(result) if line.startswith("gate:"))
    return of_answer(
        envelope,
        headline(result),
        alarm=differ,
        figures=(*changed(result.comparison), *time_of(result.comparison)),
        needs=needs,
        remarks=(OUTPUTS_DIFFER if differ else "", *answers),
    )
