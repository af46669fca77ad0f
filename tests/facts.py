"""What a text must say, whatever its words."""

from __future__ import annotations


def facts(text: str, *told: str) -> None:
    """Each of these stands in the text, in this order, whatever the words between them."""
    place = 0
    for fact in told:
        assert fact in text[place:], (fact, text)
        place = text.index(fact, place) + len(fact)
