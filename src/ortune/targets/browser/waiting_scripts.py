"""Interception of a page's documents and scripts, which are passed on unchanged or rewritten before they run."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from ortune.targets.browser.devtools_messages import CALL_S, DevToolsError

MOST_SCRIPTS = 32
"""Maximum number of scripts that are rewritten at a time; others are queued."""
MOST_WAITING = 2000
"""Maximum number of queued scripts; further ones continue unchanged."""


ScriptKind = Literal["Document", "Script", "Other"]
"""Kind of a resource; the initial script of a worker is "Other" to the browser."""

SCRIPTS = [{"resourceType": kind, "requestStage": "Response"} for kind in get_args(ScriptKind)]
"""Patterns of the requests that ``Fetch.enable`` pauses."""
_FOUND = 200
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")

Rewrite = Callable[[ScriptKind, bytes], bytes | None]
"""Function that returns the replacement of a document or script, or None."""
Ask = Callable[[str, str, float, Mapping[str, object]], dict[str, Any]]
"""Function that calls a method of a protocol session (method, session, limit in seconds, parameters) and returns the
result."""
Send = Callable[[str, str, Mapping[str, object]], object]
"""Function that calls a method without waiting, since the thread that reads the browser's messages must not block."""


class WaitingScripts:
    """Passes on the scripts that a page and its workers load, unchanged or rewritten.

    Args:
        ask: Calls a method of the protocol and returns its result.
        send: Calls a method of the protocol without waiting.
        rewrite: Called with each document and script before it runs, each from its own thread.
    """

    def __init__(self, ask: Ask, send: Send, rewrite: Rewrite) -> None:
        self._ask, self._send, self._rewrite = ask, send, rewrite
        self._lock = threading.Lock()
        self._n_scripts = 0
        self._paused_scripts = deque[tuple[str, Mapping[str, Any]]]()

    def paused(self, session: str, paused: Mapping[str, Any]) -> None:
        """Handle a paused script in its own thread, or queue it if ``MOST_SCRIPTS`` are being handled."""
        with self._lock:
            few = self._n_scripts < MOST_SCRIPTS
            self._n_scripts += few
            waits = not few and len(self._paused_scripts) < MOST_WAITING
            if waits:
                self._paused_scripts.append((session, paused))
        if few:
            threading.Thread(target=self._script, args=(session, paused), daemon=True).start()
        elif not waits:
            self._send("Fetch.continueRequest", session, {"requestId": paused["requestId"]})

    def _script(self, session: str, paused: Mapping[str, Any]) -> None:
        """Continue a paused script, unchanged or rewritten, and then the next queued one."""
        request = {"requestId": paused["requestId"]}
        try:
            self._hand_on(session, paused, request)
        finally:
            with self._lock:
                following = self._paused_scripts.popleft() if self._paused_scripts else None
                # The next script takes this one's place in the count.
                self._n_scripts -= following is None
            if following is not None:
                threading.Thread(target=self._script, args=following, daemon=True).start()

    def _hand_on(self, session: str, paused: Mapping[str, Any], request: dict[str, Any]) -> None:
        with contextlib.suppress(DevToolsError):  # the page may have ended
            answer = self._rewritten(session, paused)
            if answer is None:
                self._ask("Fetch.continueRequest", session, CALL_S, request)
            else:
                self._ask("Fetch.fulfillRequest", session, CALL_S, {**request, **answer})

    def _rewritten(self, session: str, paused: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the response that replaces the server's; None to keep it."""
        if paused.get("responseStatusCode") != _FOUND:
            return None
        try:
            body = self._ask("Fetch.getResponseBody", session, CALL_S, {"requestId": paused["requestId"]})
        except DevToolsError:
            return None
        text = base64.b64decode(body["body"]) if body["base64Encoded"] else body["body"].encode()
        changed = self._rewrite(paused["resourceType"], text)
        if changed is None:
            return None
        # Length and encoding describe the original body.
        kept = [header for header in paused["responseHeaders"] if header["name"].lower() not in _OF_THE_BODY]
        return {
            "responseCode": _FOUND,
            "responseHeaders": kept,
            "body": base64.b64encode(changed).decode(),
        }
