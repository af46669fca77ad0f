"""Every verb's answer as one page: a tuning and a profile have their own, all others that of their document."""

from __future__ import annotations

import importlib
from typing import Any

from ortune.printable import visible
from ortune.records import Envelope, ProfileResult, ReportResult, TuneResult, holds
from ortune.report import finding_words
from ortune.report.html import document_page, page, profile_page


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
    stored = visible(stored)
    if holds(envelope, ReportResult):
        return str(words.html(envelope))
    if holds(envelope, TuneResult):
        return page.render(envelope, stored=stored)
    if holds(envelope, ProfileResult):
        timeline = envelope.result.timeline
        return profile_page.render(
            envelope, timeline, stored=stored, no_timeline="" if timeline else profile_page.NO_TIMELINE
        )
    document = finding_words.alerted(words.document(envelope), envelope)
    return document_page.render(document, verb, envelope, stored=stored)
