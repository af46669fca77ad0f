"""Every verb's answer as one page: that of its document, or of one with more than a terminal has room for."""

from __future__ import annotations

import importlib
from typing import Any

from ortune.records import CompareResult, Envelope, ProfileResult, Record, ReportResult, TuneResult, holds
from ortune.report import compare_page, finding_words, profile_page, tune_page
from ortune.report.html import document_page

LARGER: tuple[tuple[type[Record], Any], ...] = (
    (TuneResult, tune_page.document),
    (ProfileResult, profile_page.document),
    (CompareResult, compare_page.document),
)
"""Documents of pages that show more than a terminal."""


def render(envelope: Envelope[Any], *, stored: str = "") -> str:
    """The whole answer as one HTML document; it fetches nothing.

    Args:
        envelope: The document of a verb.
        stored: Of a session that is told again, the line that says so.

    Raises:
        UsageError: There is no page of what is told.
    """
    verb = envelope.schema.split("/")[1]
    words: Any = importlib.import_module(f"ortune.report.{verb}_words")
    if holds(envelope, ReportResult):
        return str(words.html(envelope))
    make = next((make for kind, make in LARGER if holds(envelope, kind)), words.document)
    document = finding_words.alerted(make(envelope), envelope)
    return document_page.render(document, verb, envelope, stored=stored)
