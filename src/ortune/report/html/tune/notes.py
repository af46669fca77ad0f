"""What was found on the way and what the reader should know."""

from __future__ import annotations

from ortune.records import Envelope, TuneResult

ORDER = 10
TITLE = "Findings and notes"
NOTE = "What the run noticed about the model and the machine, and what to do about it."


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """Findings with their evidence and fix, then notes; None where there are neither."""
    result = envelope.result
    notes = [*([result.left_aside] if result.left_aside else []), *result.notes]
    if result.hardware_bound:
        notes.append(
            "The winner runs a model that holds what was optimised for this CPU. On other hardware the bundle "
            "uses the plain model beside it."
        )
    if not result.findings and not notes:
        return None
    return {"findings": result.findings, "notes": notes}
