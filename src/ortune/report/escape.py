"""Names of models, nodes and settings come from files: nothing that shows them may act on them."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with every character that a terminal would act on written out, as in a Python literal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
