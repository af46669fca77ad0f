"""The envelope of all documents."""

from __future__ import annotations

from typing import Generic, Literal, TypeGuard, TypeVar

from ortune.records.base import Record
from ortune.records.finding import Finding
from ortune.records.machine import Host
from ortune.records.measure import ExactCheck
from ortune.records.model import Workload

ResultT_co = TypeVar("ResultT_co", covariant=True)
ResultT = TypeVar("ResultT", bound=Record)

NUMBERS = {"look": 2}
"""Version numbers of documents, by verb, if not 1. A number increases with every change except added fields."""


def schema_of(verb: str) -> str:
    """Return the name and number of a verb's document: "ortune/compare/1"."""
    return f"ortune/{verb}/{NUMBERS.get(verb, 1)}"


class ErrorInfo(Record, frozen=True, kw_only=True):
    """An error in a document: its code, its description, the file or option at fault, and a remedy."""

    code: str
    what: str
    where: str = ""
    do: str = ""


class ModelRef(Record, frozen=True, kw_only=True):
    """A model as identified in the envelope."""

    path: str
    sha256: str


class Configured(Record, frozen=True, kw_only=True):
    """Options that a project's configuration file set.

    Attributes:
        file: The configuration file: ortune.toml or pyproject.toml.
        options: The options as on the command line.
    """

    file: str
    options: tuple[str, ...]


class Envelope(Record, Generic[ResultT_co], frozen=True, kw_only=True):
    """The JSON document that a command prints.

    Attributes:
        schema: "ortune/<verb>/<number>", from ``schema_of``.
        ortune: Version of ortune.
        status: "ok", "interrupted" (with partial results), "error", or "default-wrong": the command succeeded, but ONNX
            Runtime's outputs are wrong, or its optimiser breaks the model, with the requested settings.
        alerts: The most important warnings: a model that the optimiser breaks, wrong or non-finite outputs.
        exact: The outputs of the base compared with its model evaluated in float64; None if not requested.
        store: Folder of the stored session, if it is not the default folder.
        configured: Options that a project's configuration file set; None if there are none.
        result: The result of the command; None if there is only an error.
    """

    schema: str
    ortune: str
    host: Host | None = None
    model: ModelRef | None = None
    workload: Workload | None = None
    status: Literal["ok", "interrupted", "error", "default-wrong"]
    verdict: str | None = None
    alerts: tuple[Finding, ...] = ()
    exact: ExactCheck | None = None
    result: ResultT_co = None  # type: ignore[assignment]  # without it: Envelope[None]
    error: ErrorInfo | None = None
    store: str = ""
    configured: Configured | None = None


def holds(envelope: Envelope[Record] | None, kind: type[ResultT]) -> TypeGuard[Envelope[ResultT]]:
    """Return whether there is an envelope with a result of this type."""
    return envelope is not None and isinstance(envelope.result, kind)
