"""Creates the document of a verb's result, with the alerts that are shown first."""

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
    """Return the document of a verb's result.

    Args:
        verb: Name of the verb.
        result: The verb's result.
        host: The machine that measured.
        model: The model, if there is one.
        workload: The inputs; None if nothing ran.
        status: "ok", "interrupted" or "error"; "ok" becomes "default-wrong" if an alert reports a wrong default.
        verdict: The decision as one word; None for verbs without a decision.
        error: The error that made the result incomplete.
        store: Path of the store; "" for the usual store.
        alerts: Findings that are shown first.
        exact: Comparison of the base's outputs with its model in float64.
        configured: Options that were set by a project's file.
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
