"""Escaping of texts from files, such as model and node names, which must neither control nor flood the output."""

from __future__ import annotations

from ortune.printable import visible, without_job_commands
from ortune.show.numbers import shorten

LONGEST = 2000
"""Maximum number of characters of a text that are shown, because a name in a file can have megabytes."""


def shown(text: str) -> str:
    """Return a text with control characters made visible, shortened to ``LONGEST`` characters."""
    return visible(shorten(text, LONGEST))


def json_text(text: str) -> str:
    """Return an equivalent JSON document without characters that a terminal or a GitHub job would interpret."""
    safe = "".join(c if c.isprintable() else _json_escape(c) for c in text)
    return without_job_commands(safe, "\\u0023#")


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2))
