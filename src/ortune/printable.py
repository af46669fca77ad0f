"""Escaping of names from files for terminals and job logs. Uses only the standard library."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#:@]*):[^/?#]*@")
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_COMMAND_AT_START = re.compile(r"^(\s*):(?=:)")
_COMMAND_INSIDE = re.compile(r"##(?=\w*\[)")


def visible(text: str) -> str:
    """Return the text with characters that a terminal or job runner would interpret escaped, as in a Python literal.

    Runners interpret ``##[...]`` and ``##name[...]`` anywhere in a line.
    """
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return without_job_commands(text, "\\x23#")


def lines(text: str) -> str:
    """Return the text for a terminal or job log: only line ends are kept, and a leading ``::`` is escaped."""
    return "\n".join(_COMMAND_AT_START.sub(r"\1\\x3a", visible(line)) for line in text.split("\n"))


def without_password(url: str) -> str:
    """Return the address without the user's password, for display and storage."""
    return _PASSWORD.sub(r"\1@", url)


def operand(name: object) -> str:
    """Return a file's name for a command line, protected from being read as an option."""
    text = str(name)
    return f"./{text}" if text.startswith("-") else text


def without_job_commands(text: str, written: str) -> str:
    """Return the text with ``written`` in place of the ``##`` of each ``##[...]``."""
    return _COMMAND_INSIDE.sub(lambda match: written, text)


def cell(text: str) -> str:
    """Return the text for a CSV cell, prefixed with an apostrophe if a spreadsheet could evaluate it as a formula."""
    first = text[:1]
    return f"'{text}" if first in _FORMULA or first.isspace() or not first.isprintable() else text
