"""Names and numbers in text: escaped for terminals, joined to a list, with a noun. Uses only the standard library."""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def amount(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun in the singular or plural: "1 node", "2 nodes", "3 branches"."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def amounts(*parts: tuple[int, str] | tuple[int, str, str]) -> str:
    """Return several numbers with their nouns, without those that are 0: "2 nodes and 1 weight"."""
    return " and ".join(amount(*part) for part in parts if part[0])


def first_of(names: Sequence[str], most: int, more: str = "more") -> str:
    """Return the first names, and how many others there are: "a, b and 3 more"."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} {more}" if rest > 0 else "")


def listed(names: Sequence[str]) -> str:
    """Return names joined as text: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
