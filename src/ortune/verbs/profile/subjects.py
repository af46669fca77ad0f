"""Detects whether a ``profile`` argument is a model, a trace or a plan, and reads traces."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ortune import files
from ortune.bundle import format as bundle_format
from ortune.errors import UsageError
from ortune.trace.attribution import Attribution, attribute, countable
from ortune.trace.lost import whole_runs
from ortune.trace.read import HEAD_BYTES, looks_like_trace, read_trace
from ortune.trace.steady import warmup_runs
from ortune.trace.table import Trace, as_one_run

Kind = Literal["model", "trace", "plan", "missing"]

TEXTS = (".json", ".log", ".txt")
_TRACE_WORDS = (b'"traceEvents"', b'"cat"', b'"version"')


def kind_of(text: str) -> Kind:
    """Return the kind of an argument; "missing" for an absent or empty file that could be a trace or a plan."""
    path = Path(text)
    if path.suffix in bundle_format.MODELS or bundle_format.is_bundle(path):
        return "model"
    if not files.is_file(path):
        return "missing" if path.suffix in TEXTS else "model"
    with files.open_file(path) as file:
        head = file.read(HEAD_BYTES)
    if not head:
        return "missing"
    if head.lstrip().startswith(b"{") and not any(word in head for word in _TRACE_WORDS):
        return "plan"
    return "trace" if looks_like_trace(head) or path.suffix in TEXTS else "model"


def about_traces(subject: str, against: str | None, models_only: Sequence[str]) -> bool:
    """Return whether the arguments are traces to read, rather than models to run.

    Args:
        subject: The first argument.
        against: The second argument; None without one.
        models_only: Flags that were passed and apply only to models.

    Raises:
        UsageError: The arguments do not form a pair, or an option does not apply to a trace.
    """
    first, second = kind_of(subject), None if against is None else kind_of(against)
    if first == "plan":
        raise UsageError(
            "not a trace; a plan needs a model",
            where=subject,
            do=shlex.join(["ortune", "profile", "model.onnx", "--against", subject]),
        )
    traces = first in ("trace", "missing")
    if second == ("model" if traces else "trace") or (traces and second == "plan"):
        trace, other = (subject, against) if traces else (against, subject)
        raise UsageError(
            f"a trace and a {'plan' if second == 'plan' else 'model'} cannot be compared",
            where=f"{trace}, {other}",
            do="pass two traces, or a model first: ortune profile model.onnx --against B",
        )
    if traces and models_only:
        raise UsageError(
            f"{', '.join(models_only)}: has no effect on a recorded trace",
            where=subject,
            do="omit them, or pass the model instead of its trace",
        )
    return traces


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTrace:
    """A trace that was recorded outside of ortune.

    Attributes:
        steady: Attribution of the time of the runs after the warm-up.
        warmup: Number of runs at the start that a statistical test classified as warm-up.
        n_whole: Number of complete runs after the warm-up; if they are too many, only some are attributed.
    """

    trace: Trace
    steady: Attribution
    warmup: int
    n_whole: int


def read_recorded(path: Path) -> RecordedTrace:
    """Read a trace and attribute the time of its steady runs.

    Raises:
        UsageError: The file cannot be read, or is not a trace.
    """
    trace = whole_runs(as_one_run(read_trace(path)))
    warmup = warmup_runs(trace.run_ns)
    first = min(warmup, max(trace.n_runs - 1, 0))
    steady = attribute(trace, countable(trace, first))
    return RecordedTrace(trace=trace, steady=steady, warmup=warmup, n_whole=trace.n_runs - first)
