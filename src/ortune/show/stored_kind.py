"""How ``ortune report`` shows the stored results of a verb: what the verb's own words declare in ``STORED``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ortune.records import Envelope, Record
from ortune.show.document import Document
from ortune.show.verb_modules import module_of

R = TypeVar("R", bound=Record)


def _build_of_side(result: Any) -> str:
    """That of the one side that most results have."""
    build: str = result.side.runtime.build
    return build


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind(Generic[R]):
    """How a verb's documents are read and shown again; their schema has number 1.

    Attributes:
        result: The type of the envelope's ``result``.
        document: What an envelope of it says.
        headline: The answer in words.
        build: What ran the model, with its version.
    """

    result: type[R]
    document: Callable[[Envelope[R]], Document]
    headline: Callable[[R], str]
    build: Callable[[R], str] = _build_of_side


def stored_kind(verb: str) -> StoredKind[Any] | None:
    """``STORED`` of ``verbs/VERB/words.py``; None for a verb whose results are available as JSON only.

    Args:
        verb: As the schema of a document names it: letters and hyphens.
    """
    return getattr(module_of(verb, "words"), "STORED", None)


def both(a: str, b: str) -> str:
    """Return two builds in words, or the one that both are."""
    return a if a == b else f"{a} and {b}"
