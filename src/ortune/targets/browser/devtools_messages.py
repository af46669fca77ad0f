"""What the Chrome DevTools Protocol says of a page: its events, its errors, and JSON that may hold half characters."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

CALL_S = 30.0
"""Seconds that an answer may take, where nobody says another limit."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""One escape of JSON; halves of a character come in pairs, or from a page that has no text there."""
_HALF = 6  # bytes; two have twice as many, and what is no half is told by two


EventKind = Literal["console", "exception", "log", "crash", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEvent:
    """What happened in a page or one of its workers.

    Attributes:
        kind: ``console`` is what it printed, ``exception`` what nobody caught, ``log`` the browser's own words (a file
            that does not load), ``crash`` the end of the page, ``gone`` the browser's.
        level: The console's function or the log's severity: ``log``, ``warning``, ``error``, ...
        text: What was said.
        worker: Whether a worker said it.
        context: Which of the page and its workers; "" for the browser's own.
    """

    kind: EventKind
    level: str = ""
    text: str = ""
    worker: bool = False
    context: str = ""


class DevToolsError(Exception):
    """The browser did not do what it was asked; the words say why."""


def without_halves(text: bytes) -> bytes:
    """JSON without halves of characters, which a page may have in its strings, and which are no text."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if len(escape[0]) == _HALF else escape[0], text)


def shown(value: Mapping[str, Any]) -> str:
    """Return an argument of the console's, as it would show it."""
    if "value" in value:
        content = value["value"]
        return content if isinstance(content, str) else json.dumps(content)
    return str(value.get("description", value.get("unserializableValue", value.get("type", ""))))


def thrown(details: Mapping[str, Any]) -> str:
    """Return an exception that nobody caught, as the console would show it."""
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text", "an exception"))
