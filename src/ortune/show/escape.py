"""Names of models, nodes and settings come from files: nothing that shows them may act on them, nor be flooded."""

from __future__ import annotations

from ortune.printable import no_commands, visible
from ortune.show.numbers import shorten

LONGEST = 2000
"""Characters of one text that people read: a name in a file can have megabytes."""


def shown(text: str) -> str:
    """Return one text of a document: visible, and the middle of what is far too long left out."""
    return visible(shorten(text, LONGEST))


def json_text(text: str) -> str:
    """One JSON document on one line, of the same meaning, with no character in it that a terminal would act on."""
    safe = "".join(c if c.isprintable() else _json_escape(c) for c in text)
    return no_commands(safe, "\\u0023#")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2))
