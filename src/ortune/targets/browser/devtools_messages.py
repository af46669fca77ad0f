"""Messages of the Chrome DevTools Protocol: events, errors, and JSON that may contain lone surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

CALL_S = 30.0
"""Default time limit in seconds for the answer to a call."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""One escape sequence of JSON: a surrogate pair, a lone surrogate, or any other."""
_HALF = 6  # bytes of a lone surrogate; a pair has twice as many, other escapes have two


EventKind = Literal["console", "exception", "log", "crash", "gone"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEvent:
    """An event in a page or one of its workers.

    Attributes:
        kind: ``console`` for printed messages, ``exception`` for uncaught exceptions, ``log`` for the browser's
            messages (such as a file that does not load), ``crash`` for the end of the page, ``gone`` for that of the
            browser.
        level: The console's function or the log's severity: ``log``, ``warning``, ``error``, ...
        text: The message.
        worker: Whether it comes from a worker.
        context: The page or worker that it comes from; "" for the browser itself.
    """

    kind: EventKind
    level: str = ""
    text: str = ""
    worker: bool = False
    context: str = ""


class DevToolsError(Exception):
    """The browser could not carry out a command; the message gives the reason."""


def without_halves(text: bytes) -> bytes:
    """Return JSON with lone surrogates replaced: a page's strings may contain them, but they are not valid text."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if len(escape[0]) == _HALF else escape[0], text)


def shown(value: Mapping[str, Any]) -> str:
    """Return an argument of the console in the form in which the console displays it."""
    if "value" in value:
        content = value["value"]
        return content if isinstance(content, str) else json.dumps(content)
    return str(value.get("description", value.get("unserializableValue", value.get("type", ""))))


def thrown(details: Mapping[str, Any]) -> str:
    """Return an uncaught exception in the form in which the console displays it."""
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text", "an exception"))
