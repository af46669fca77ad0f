"""Escaping of text as literals and comments of a language; names in models are not trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

QUOTES = {'"': '\\"', "\\": "\\\\"}


def utf8(text: str) -> str:
    """Return the UTF-8 bytes of a text, each as one character, with "?" for lone surrogates."""
    return text.encode("utf-8", "replace").decode("latin-1")


def file_bytes(text: str) -> str:
    """Return the bytes of a file name, one character per byte.

    In a name that is not UTF-8, Python represents undecodable bytes by lone surrogates. Other surrogates become "?".
    """
    lone = [sign for sign in text if "\ud800" <= sign <= "\udfff"]
    if all("\udc80" <= sign <= "\udcff" for sign in lone):
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    return utf8(text)


def utf16(text: str) -> str:
    """Return the UTF-16 units of a text, each as one character."""
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(data[i : i + 2], "big")) for i in range(0, len(data), 2))


def characters(text: str) -> str:
    """Replace lone surrogates, which some languages cannot express."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class Quote:
    """Writes text as a literal in double quotes, in printable ASCII.

    Attributes:
        units: Splits text into the language's characters.
        other: Format of the escape for a unit outside of printable ASCII, from its code.
        special: Escapes of the units that do not use ``other``.
    """

    units: Callable[[str], str]
    other: str
    special: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """Return the literal, including the quotes."""
        signs = (
            self.special.get(sign) or (sign if " " <= sign <= "~" else self.other.format(ord(sign)))
            for sign in self.units(text)
        )
        return f'"{"".join(signs)}"'


def comment(text: str) -> str:
    """Return text for a one-line comment: ASCII without line breaks or escapes that compilers read in comments."""
    return re.sub(r"[^ -\[\]-~]", lambda match: f"<{ord(match.group()):x}>", text)
