"""Text as a literal or a comment of a language; names of models are hostile until they went through here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

QUOTES = {'"': '\\"', "\\": "\\\\"}


def utf8(text: str) -> str:
    """Return the bytes of UTF-8, each as one character; "?" for half of a surrogate pair."""
    return text.encode("utf-8", "replace").decode("latin-1")


def file_bytes(text: str) -> str:
    """Return the bytes of UTF-8, also where lone surrogates stand for bytes of a file name that is not UTF-8."""
    lone = [sign for sign in text if "\ud800" <= sign <= "\udfff"]
    if all("\udc80" <= sign <= "\udcff" for sign in lone):
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    return utf8(text)


def utf16(text: str) -> str:
    """Return the units of UTF-16, each as one character."""
    data = text.encode("utf-16-be", "surrogatepass")
    return "".join(chr(int.from_bytes(data[i : i + 2], "big")) for i in range(0, len(data), 2))


def characters(text: str) -> str:
    """Whole characters: half of a surrogate pair, which some languages have no way to write, is replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True)
class Quote:
    """Writes text between double quotes, in printable ASCII alone.

    Attributes:
        units: Splits text into what the language counts as a character.
        other: Spells the code of a unit beyond printable ASCII, as a format.
        special: Units with spellings of their own.
    """

    units: Callable[[str], str]
    other: str
    special: Mapping[str, str]

    def __call__(self, text: str) -> str:
        """Return the literal, quotes included."""
        signs = (
            self.special.get(sign) or (sign if " " <= sign <= "~" else self.other.format(ord(sign)))
            for sign in self.units(text)
        )
        return f'"{"".join(signs)}"'


def comment(text: str) -> str:
    """Text for a comment of one line: ASCII, no line breaks, and no escape that a compiler would read in a comment."""
    return re.sub(r"[^ -\[\]-~]", lambda match: f"<{ord(match.group()):x}>", text)
