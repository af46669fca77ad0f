"""What ``profile`` is given: a model, a trace or a plan, told by what is in the file; and what goes with a trace."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
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
    """What a subject is; "missing" is a text that is not there or empty, and could have been a trace or a plan."""
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


def about_traces(subject: str, against: str | None, models_only: Mapping[str, object]) -> bool:
    """Return whether traces are to be read, and not models run.

    Args:
        subject: The first, or only one.
        against: The other.
        models_only: Options that apply to models alone, and whether each was passed.

    Raises:
        UsageError: The two are no pair, or an option does not go with a trace.
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
    useless = [option for option, asked in models_only.items() if asked]
    if traces and useless:
        raise UsageError(
            f"{', '.join(useless)}: has no effect on a recorded trace",
            where=subject,
            do="omit them, or pass the model instead of its trace",
        )
    return traces


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A trace that others made.

    Attributes:
        steady: Its runs after the warm-up, attributed.
        warmup: Runs at its start that a test calls warm-up.
        n_whole: Whole runs after these; fewer are attributed where there are too many.
    """

    trace: Trace
    steady: Attribution
    warmup: int
    n_whole: int


def read_recorded(path: Path) -> Recorded:
    """Read a trace, and what the time of its steady runs went into.

    Raises:
        UsageError: The file cannot be read, or is no trace.
    """
    trace = whole_runs(as_one_run(read_trace(path)))
    warmup = warmup_runs(trace.run_ns)
    first = min(warmup, max(trace.n_runs - 1, 0))
    steady = attribute(trace, countable(trace, first))
    return Recorded(trace=trace, steady=steady, warmup=warmup, n_whole=trace.n_runs - first)
