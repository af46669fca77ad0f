"""The envelope of every document."""

from __future__ import annotations

from typing import Any, Literal

from ortune.records.base import Record
from ortune.records.machine import Host
from ortune.records.model import Workload


class ErrorInfo(Record, frozen=True, kw_only=True):
    """An error as JSON."""

    code: str
    what: str
    where: str = ""
    do: str = ""


class ModelRef(Record, frozen=True, kw_only=True):
    """A model as the envelope names it."""

    path: str
    sha256: str


class Envelope(Record, frozen=True, kw_only=True):
    """The one JSON document that a verb prints.

    Attributes:
        schema: "ortune/<verb>/1".
        status: "ok", "interrupted" (with what is known) or "error".
    """

    schema: str
    ortune: str
    host: Host | None = None
    model: ModelRef | None = None
    workload: Workload | None = None
    status: Literal["ok", "interrupted", "error"]
    verdict: str | None = None
    result: Any = None
    error: ErrorInfo | None = None
