"""Every verb's answer as one page: that of its document, or of one with more than a terminal has room for."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from ortune.records import Envelope, ReportResult, holds
from ortune.show import finding_words
from ortune.show.html import document_page


def render(envelope: Envelope[Any], *, stored: str = "") -> str:
    """The whole answer as one HTML document; it fetches nothing.

    Args:
        envelope: The document of a verb.
        stored: The line that introduces a stored session, "" for a new one.

    Raises:
        UsageError: This kind of result has no page.
    """
    verb = envelope.schema.split("/")[1]
    words: Any = importlib.import_module(f"ortune.verbs.{verb}.words")
    if holds(envelope, ReportResult):
        return str(words.html(envelope))
    document = finding_words.alerted(_page_of(verb, words).document(envelope), envelope)
    return document_page.render(document, verb, envelope, stored=stored)


def _page_of(verb: str, words: Any) -> Any:
    """The module that makes a verb's page: its own, which shows more than a terminal, or that of its words."""
    name = f"ortune.verbs.{verb}.page"
    return importlib.import_module(name) if importlib.util.find_spec(name) else words
