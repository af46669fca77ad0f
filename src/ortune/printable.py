"""Texts that hold names from files, as a terminal or the log of a job may be given them. Standard library alone."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#:@]*):[^/?#]*@")
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_COMMAND_AT_START = re.compile(r"^(\s*):(?=:)")
_COMMAND_INSIDE = re.compile(r"##(?=\w*\[)")


def visible(text: str) -> str:
    """Return the text with what a terminal or a runner of jobs would act on written out, as in a Python literal.

    Runners obey ``##[...]`` and ``##name[...]`` anywhere in a line.
    """
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return no_commands(text, "\\x23#")


def lines(text: str) -> str:
    """What a terminal or the log of a job gets: only line ends act, and no line begins with ``::``, a command too."""
    return "\n".join(_COMMAND_AT_START.sub(r"\1\\x3a", visible(line)) for line in text.split("\n"))


def without_password(url: str) -> str:
    """Return the address without the password of its user, as it may be shown and stored."""
    return _PASSWORD.sub(r"\1@", url)


def operand(name: object) -> str:
    """Return a file's name as a command line takes it: one that begins with a dash would be read as an option."""
    text = str(name)
    return f"./{text}" if text.startswith("-") else text


def no_commands(text: str, written: str) -> str:
    """Return the text with the beginning of each ``##[...]`` written in another way."""
    return _COMMAND_INSIDE.sub(lambda match: written, text)


def cell(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula: one that begins like one gets an apostrophe."""
    first = text[:1]
    return f"'{text}" if first in _FORMULA or first.isspace() or not first.isprintable() else text
