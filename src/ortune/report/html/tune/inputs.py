"""The inputs that were fed, and which of them are guesses."""

from __future__ import annotations

from ortune.records import Envelope, InputChoice, TuneResult
from ortune.report.numbers import duration

ORDER = 100
TITLE = "Inputs used"
NOTE = "Latency can depend on shapes and values. What is marked as a guess deserves a look."
ORIGINS = {
    "model": "the model says so",
    "constraint": "follows from the graph",
    "name": "taken from its name",
    "trial": "found by trying",
    "user": "given by you",
}


def content(envelope: Envelope[TuneResult]) -> dict[str, object] | None:
    """A table a shape of the mix; None without a workload."""
    work = envelope.workload
    if work is None:
        return None
    facts = [("seed", str(work.seed))]
    if work.inputs_path:
        facts.append(("inputs from", work.inputs_path))
    facts.append(
        ("calls", f"a pause of {duration(work.gap_ns)} between them" if work.gap_ns else "back to back")
    )
    facts += [("custom operators", path) for path in work.custom_ops]
    if work.tries:
        facts.append(("first runs that failed", str(work.tries)))
    return {
        "cases": [(c.name, f"{c.weight:.2f}", [_row(i) for i in c.inputs]) for c in work.cases],
        "many": len(work.cases) > 1,
        "facts": facts,
        "notes": work.notes,
        "guesses": any(i.guessed for c in work.cases for i in c.inputs),
    }


def _row(choice: InputChoice) -> dict[str, object]:
    axes = choice.guessed_axes
    shape = " × ".join(f"{size}{'?' if axis in axes else ''}" for axis, size in enumerate(choice.shape))
    values = choice.role
    if choice.low is not None and choice.high is not None:
        values += f", {choice.low:g} to {choice.high:g}"
    return {
        "name": choice.name,
        "dtype": choice.dtype,
        "shape": shape or "scalar",
        "fed": values,
        "origin": ORIGINS[choice.origin],
        "guessed": choice.guessed,
        "note": choice.note,
    }
