"""The document that a verb answers with, and what is said in it before all else."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

from ortune import __version__
from ortune.records import (
    DEFAULT_BROKEN,
    DEFAULT_WRONG,
    REFUTED,
    Configured,
    Envelope,
    ErrorInfo,
    ExactCheck,
    Finding,
    Host,
    ModelRef,
    Record,
    Workload,
    schema_of,
)

R = TypeVar("R", bound=Record)
Status = Literal["ok", "interrupted", "error", "default-wrong"]


def document(
    verb: str,
    result: R,
    *,
    host: Host | None = None,
    model: ModelRef | None = None,
    workload: Workload | None = None,
    status: Status = "ok",
    verdict: str | None = None,
    error: ErrorInfo | None = None,
    store: str = "",
    alerts: Iterable[Finding] = (),
    exact: ExactCheck | None = None,
    configured: Configured | None = None,
) -> Envelope[R]:
    """Return the answer of a verb.

    Args:
        verb: Who answers.
        result: What it found out.
        host: Where that was.
        model: Of what; ``workload`` is what it was fed.
        workload: None where nothing ran.
        status: "ok", "interrupted" or "error"; where an alert says that a default is wrong, "ok" becomes that.
        verdict: In one word; None of verbs that decide nothing.
        error: Why something is missing.
        store: Where it is kept, where that is not the usual place.
        alerts: What is said before all else.
        exact: The base's outputs against its model in float64.
        configured: Options that a project's file has set.
    """
    alerts = tuple(alerts)
    if status == "ok" and any(alert.code in (DEFAULT_WRONG, DEFAULT_BROKEN, REFUTED) for alert in alerts):
        status = "default-wrong"
    return Envelope(
        schema=schema_of(verb),
        ortune=__version__,
        host=host,
        model=model,
        workload=workload,
        status=status,
        verdict=verdict,
        result=result,
        error=error,
        store=store,
        alerts=alerts,
        exact=exact,
        configured=configured,
    )
