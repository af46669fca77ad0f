"""Every verb's answer as one page: that of its document, or of one with more than a terminal has room for."""

from __future__ import annotations

from typing import Any

from ortune.records import Envelope
from ortune.show import finding_words
from ortune.show.html import document_page
from ortune.show.verb_modules import module_of


def render(envelope: Envelope[Any], *, stored: str = "") -> str:
    """Return the whole answer as one HTML document; it fetches nothing.

    Args:
        envelope: The document of a verb.
        stored: The line that introduces a stored session, "" for a new one.

    Raises:
        UsageError: This kind of result has no page.
    """
    verb = envelope.schema.split("/")[1]
    words = module_of(verb, "words")
    if hasattr(words, "html"):  # of several sessions, or a summary of one: drawn by the verb itself
        return str(words.html(envelope))
    document = finding_words.introduced((module_of(verb, "page") or words).document(envelope), envelope)
    return document_page.render(document, verb, envelope, stored=stored)
