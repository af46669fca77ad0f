"""Functions with which ``ortune report`` shows a verb's stored results; the verb's ``words`` has them as ``STORED``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ortune.records import Envelope, Record
from ortune.show.document import Document
from ortune.show.verb_modules import module_of

R = TypeVar("R", bound=Record)


def _build_of_side(result: Any) -> str:
    """Return the ONNX Runtime build of the result's only side."""
    build: str = result.side.runtime.build
    return build


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind(Generic[R]):
    """Functions that show a verb's stored documents, whose schema number is 1.

    Attributes:
        result: Type of the envelope's ``result``.
        document: Makes the document of an envelope.
        headline: Returns the result in one sentence.
        build: Returns the name and version of the ONNX Runtime build that ran the model.
    """

    result: type[R]
    document: Callable[[Envelope[R]], Document]
    headline: Callable[[R], str]
    build: Callable[[R], str] = _build_of_side


def stored_kind(verb: str) -> StoredKind[Any] | None:
    """Return ``STORED`` of ``verbs/VERB/words.py``; None for verbs whose results are only available as JSON.

    Args:
        verb: Name of the verb in a document's schema, in letters and hyphens.
    """
    words = module_of(verb, "words")
    return vars(words).get("STORED") if words else None


def both_builds(a: str, b: str) -> str:
    """Return two builds as text: "A and B", or "A" if they are equal."""
    return a if a == b else f"{a} and {b}"
