"""Names of models, nodes and settings come from files: nothing that shows them may act on them, nor be flooded."""

from __future__ import annotations

import re

from ortune.report.numbers import shorten

LONGEST = 2000
"""Characters of one text that people read: a name in a file can have megabytes."""

_COMMAND_AT_START = re.compile(r"^(\s*):(?=:)")
_COMMAND_INSIDE = re.compile(r"##(?=\w*\[)")


def visible(text: str) -> str:
    """The text with what a terminal or a runner of jobs would act on written out, as in a Python literal.

    Runners obey ``##[...]`` and ``##name[...]`` anywhere in a line.
    """
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return _COMMAND_INSIDE.sub(r"\\x23#", text)


def shown(text: str) -> str:
    """One text of a document: visible, and the middle of what is far too long left out."""
    return visible(shorten(text, LONGEST))


def lines(text: str) -> str:
    """What a terminal or the log of a job gets: only line ends act, and no line begins with ``::``, a command too."""
    return "\n".join(_COMMAND_AT_START.sub(r"\1\\x3a", visible(line)) for line in text.split("\n"))


def json_text(text: str) -> str:
    """One JSON document on one line, of the same meaning, with no character in it that a terminal would act on."""
    safe = "".join(c if c.isprintable() else _json_escape(c) for c in text)
    return _COMMAND_INSIDE.sub(r"\\u0023#", safe)


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{int.from_bytes(units[i : i + 2]):04x}" for i in range(0, len(units), 2))
