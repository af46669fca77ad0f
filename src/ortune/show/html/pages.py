"""Any verb's result as a page, made from its document or from a longer document that the verb makes for pages."""

from __future__ import annotations

from typing import Any

from ortune.records import Envelope
from ortune.show import finding_words
from ortune.show.html import document_page
from ortune.show.verb_modules import module_of


def render(envelope: Envelope[Any], *, stored: str = "") -> str:
    """Return a verb's result as one HTML document that loads no other file.

    Args:
        envelope: Envelope of a verb.
        stored: Line that introduces a stored session; "" for a new one.

    Raises:
        UsageError: This kind of result has no page.
    """
    verb = envelope.schema.split("/")[1]
    words = module_of(verb, "words")
    if hasattr(words, "html"):  # a page of several sessions, or a summary of one, which the verb makes itself
        return str(words.html(envelope))
    document = finding_words.with_common_parts(
        (module_of(verb, "page") or words).document(envelope), envelope
    )
    return document_page.render(document, verb, envelope, stored=stored)
