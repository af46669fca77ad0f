"""A browser that is told what to do by the Chrome DevTools Protocol, through a pipe: no port is open to others.

The browser reads messages from its file descriptor 3 and writes its own to 4, JSON with a NUL behind each. A shell in
front of it makes them of its stdin and stdout, so that it is started like any other process, and ends when that pipe
does.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import math
import os
import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, get_args

from ortune import launcher, monotonic
from ortune.errors import RuntimeNotFound

CALL_S = 30.0
MOST_MESSAGE = 128 << 20
"""Bytes of one message that are read: a page may print what it likes."""
MOST_SCRIPTS = 32
"""That are rewritten at one time; those beyond it wait their turn."""
MOST_WAITING = 2000
"""Scripts that wait their turn; those beyond it go on as they are."""
_PIPED = 'exec "$0" "$@" --remote-debugging-pipe --no-startup-window 3<&0 4>&1 </dev/null >&2'

ScriptKind = Literal["Document", "Script", "Other"]
"""What runs: of a worker, the script that it begins with is something else to the browser."""
_SCRIPTS = [{"resourceType": kind, "requestStage": "Response"} for kind in get_args(ScriptKind)]
_FOUND = 200
_NUMBER = re.compile(rb'\{"id":(\d{1,15})')
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)",
    re.DOTALL,
)
"""One escape of JSON; halves of a character come in pairs, or from a page that has no text there."""
_HALF = 6  # bytes; two have twice as many, and what is no half is told by two
_OF_THE_BODY = ("content-encoding", "content-length", "transfer-encoding")

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


class DevTools:
    """A browser with one page: no download is kept, no other page stays open, and no question gets more than a no.

    Attributes:
        deadline: By ``monotonic.now_s``, when nothing is waited for any more.

    Args:
        program: The browser.
        flags: Its arguments, but for the pipe.
        environment: Its whole environment.
        folder: Its working directory.
        log: A file that gets what it prints.
        happened: Called with each event, from a thread of its own.

    Raises:
        RuntimeNotFound: It cannot be started here.
    """

    def __init__(
        self,
        program: str,
        flags: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: IO[bytes],
        happened: Callable[[PageEvent], None],
    ) -> None:
        if os.name != "posix":
            raise RuntimeNotFound("browsers are controlled through a pipe, which works only on POSIX systems")
        self._happened = happened
        self._numbers = itertools.count(1)
        self._waiting: dict[int, queue.Queue[dict[str, Any] | None]] = {}
        self._lock = threading.Lock()
        self._ended = self._closed = False
        self._target, self._session, self._workers = "", "", set[str]()
        self._crashed = set[str]()
        self._loaded = threading.Event()
        self.deadline = math.inf
        self._n_scripts = 0
        self._paused_scripts = deque[tuple[str, Mapping[str, Any]]]()
        self._rewrite: Callable[[ScriptKind, bytes], bytes | None] | None = None
        command = ["/bin/sh", "-c", _PIPED, program, *flags]
        try:
            self.child = launcher.Child(
                command, environment=environment, folder=folder, log=log, guarded=True
            )
        except OSError as error:
            raise RuntimeNotFound(f"cannot start {program}: {error.strerror}") from error
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, method: str, limit_s: float = CALL_S, **parameters: object) -> dict[str, Any]:
        """Asks the page, or the browser where there is no page yet, and waits for the answer.

        Raises:
            DevToolsError: It refused, did not answer in time, or ended.
        """
        return self._call(method, self._session, limit_s, parameters)

    def show(self, url: str, limit_s: float = CALL_S) -> None:
        """Opens the page and stays out of it: of what happens there, its crash alone is told.

        Args:
            url: Its address.
            limit_s: Seconds that each step may take.

        Raises:
            DevToolsError: The browser ended, or did not open a page in time.
        """
        # Told from here on, so that no crash is missed, however early.
        self._call("Target.setDiscoverTargets", "", limit_s, {"discover": True})
        self._call("Browser.setDownloadBehavior", "", limit_s, {"behavior": "deny"})
        target_id = self._call("Target.createTarget", "", limit_s, {"url": url})["targetId"]
        with self._lock:
            self._target = target_id
            crashed = target_id in self._crashed  # before it was known which one it is
        if crashed:
            self._page_crashed()

    @property
    def contexts(self) -> list[str]:
        """The page, and the workers that it started."""
        return [self._session, *self._workers]

    def open(self, url: str, *, before: str = "", limit_s: float = CALL_S) -> None:
        """Opens the page, listens to it, and waits until it has loaded what it names itself.

        Args:
            url: Its address.
            before: JavaScript that runs in it before anything of its own does.
            limit_s: Seconds that each step may take.

        Raises:
            DevToolsError: The browser ended, or the address cannot be opened in time.
        """
        self.attach(limit_s=limit_s)
        if before:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        if not self.navigate(url, limit_s):
            raise DevToolsError(f"{url} did not load within {limit_s:.0f} s")

    def attach(
        self, *, rewrite: Callable[[ScriptKind, bytes], bytes | None] | None = None, limit_s: float = CALL_S
    ) -> None:
        """Opens an empty page and listens to it.

        Args:
            rewrite: Is called with each document and script before it runs, from a thread each, and gives what runs
                in its place, or None.
            limit_s: Seconds that each step may take.

        Raises:
            DevToolsError: The browser ended, or did not open it in time.
        """
        self._rewrite = rewrite
        self.show("about:blank", limit_s)
        attached = {"targetId": self._target, "flatten": True}
        self._session = self._call("Target.attachToTarget", "", limit_s, attached)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable", limit_s)
        # A worker waits until its console is listened to, so that nothing of it is missed.
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        if rewrite is not None:
            self.call("Fetch.enable", limit_s, patterns=_SCRIPTS)

    def navigate(self, url: str, limit_s: float = CALL_S) -> bool:
        """Loads an address in the page that is attached; whether what it names itself came within the limit.

        Raises:
            DevToolsError: The browser ended, or the address cannot be opened in time.
        """
        self._loaded.clear()  # of the empty page that it was
        failed = self.call("Page.navigate", limit_s, url=url).get("errorText")
        if failed:
            raise DevToolsError(f"{url} cannot be opened: {failed}")
        return self._loaded.wait(self._limit(limit_s))

    def evaluate(self, expression: str, limit_s: float = CALL_S, *, context: str = "") -> Any:
        """The value of JavaScript in the page, or in one of its ``contexts``, once it is there; what JSON can hold.

        Raises:
            DevToolsError: It threw, did not end in time, or the page ended.
        """
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._call("Runtime.evaluate", context or self._session, limit_s, asked)
        if "exceptionDetails" in answer:
            raise DevToolsError(_thrown(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def close(self) -> None:
        """Makes sure that nothing of it is left."""
        self._closed = True
        self.child.end()

    # --- inside

    def _call(
        self, method: str, session: str, limit_s: float, parameters: Mapping[str, object]
    ) -> dict[str, Any]:
        answer: queue.Queue[dict[str, Any] | None] = queue.Queue(1)
        number = self._send(method, session, parameters, answer)
        limit_s = self._limit(limit_s)
        try:
            message = answer.get(timeout=limit_s)
        except queue.Empty:
            raise DevToolsError(f"{method}: no answer within {limit_s:.0f} s") from None
        finally:
            self._waiting.pop(number, None)
        if message is None:
            raise DevToolsError(f"{method}: the page or the browser ended")
        if "error" in message:
            raise DevToolsError(f"{method}: {message['error'].get('message', 'refused')}")
        result: dict[str, Any] = message.get("result", {})
        return result

    def _limit(self, limit_s: float) -> float:
        return max(0.0, min(limit_s, self.deadline - monotonic.now_s()))

    def _send(
        self,
        method: str,
        session: str,
        parameters: Mapping[str, object],
        answer: queue.Queue[dict[str, Any] | None] | None = None,
    ) -> int:
        message = {"id": next(self._numbers), "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        number = int(str(message["id"]))
        with self._lock:
            if answer is not None:
                self._waiting[number] = answer
                if self._ended:
                    _give(answer, None)
                    return number
            self.child.send(json.dumps(message).encode() + b"\0")
        return number

    def _read(self) -> None:
        parts, size = list[bytes](), 0  # of a message whose end has not come; of a too long one the beginning
        while chunk := self.child.read():
            *ends, rest = chunk.split(b"\0")
            for end in ends:
                self._message(b"".join((*parts, end)), whole=size + len(end) <= MOST_MESSAGE)
                parts, size = [], 0
            size += len(rest)
            if rest and (not parts or size <= MOST_MESSAGE):
                parts.append(rest)
        self._give_up()
        if not self._closed:
            self._happened(PageEvent(kind="gone", text="the browser ended"))

    def _message(self, text: bytes, *, whole: bool) -> None:
        """Takes a message; who waits for one that cannot be read is told so."""
        try:
            if not whole:
                raise ValueError(f"it has more than {MOST_MESSAGE >> 20} MiB")
            message = json.loads(without_halves(text))
        except (ValueError, RecursionError) as error:
            if number := _NUMBER.match(text):
                self._take(
                    {"id": int(number[1]), "error": {"message": f"the answer cannot be read: {error}"}}
                )
            return
        self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        if "id" in message:
            if answer := self._waiting.get(message["id"]):
                _give(answer, message)
            return
        session, method, params = message.get("sessionId", ""), message["method"], message.get("params", {})
        if method == "Target.attachedToTarget" and session:
            self._listen(params["sessionId"])
        elif method == "Target.detachedFromTarget":
            self._workers.discard(params["sessionId"])
        elif method == "Target.targetCreated":
            info = params["targetInfo"]
            if info["type"] == "page" and info.get("openerId"):  # another's, where flags did not keep it away
                self._send("Target.closeTarget", "", {"targetId": info["targetId"]})
                self._happened(PageEvent(kind="log", level="warning", text="closed: a window that it opened"))
        elif method == "Fetch.requestPaused":
            self._paused(session, params)
        elif method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Page.javascriptDialogOpening":
            # The page waits for ever else.
            self._send("Page.handleJavaScriptDialog", session, {"accept": False})
            self._happened(PageEvent(kind="log", level="warning", text=f"dismissed: {params['message']}"))
        elif method == "Target.targetCrashed":
            with self._lock:
                self._crashed.add(params["targetId"])
                ours = params["targetId"] == self._target
            if ours:
                self._page_crashed()
        else:
            self._spoken(method, params, session)

    def _spoken(self, method: str, params: Mapping[str, Any], session: str) -> None:
        """What the page, a worker or the browser said."""
        worker = session in self._workers
        if method == "Runtime.consoleAPICalled":
            text = " ".join(map(_shown, params["args"]))
            self._happened(
                PageEvent(kind="console", level=params["type"], text=text, worker=worker, context=session)
            )
        elif method == "Runtime.exceptionThrown":
            text = _thrown(params["exceptionDetails"])
            self._happened(PageEvent(kind="exception", level="error", text=text, worker=worker))
        elif (
            method == "Log.entryAdded" and params["entry"].get("source") != "worker"
        ):  # a worker tells itself
            entry = params["entry"]
            text = f"{entry['text']} ({entry['url']})" if entry.get("url") else entry["text"]
            self._happened(PageEvent(kind="log", level=entry["level"], text=text, worker=worker))

    def _listen(self, worker: str) -> None:
        """Hears a new worker, and lets it begin."""
        self._workers.add(worker)
        self._send("Runtime.enable", worker, {})
        if self._rewrite is not None:
            self._send("Fetch.enable", worker, {"patterns": _SCRIPTS})
        self._send("Runtime.runIfWaitingForDebugger", worker, {})

    def _paused(self, session: str, paused: Mapping[str, Any]) -> None:
        """Hands on a script that waits: in a thread of its own, as long as those are few, and else when one ends."""
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
        """Hands on a script that waits, as it is or rewritten; then the next one."""
        request = {"requestId": paused["requestId"]}
        try:
            self._hand_on(session, paused, request)
        finally:
            with self._lock:
                following = self._paused_scripts.popleft() if self._paused_scripts else None
                self._n_scripts -= following is None
            if following is not None:
                threading.Thread(target=self._script, args=following, daemon=True).start()

    def _hand_on(self, session: str, paused: Mapping[str, Any], request: dict[str, Any]) -> None:
        with contextlib.suppress(DevToolsError):  # a page that is gone needs no script
            answer = self._rewritten(session, paused)
            if answer is None:
                self._call("Fetch.continueRequest", session, CALL_S, request)
            else:
                self._call("Fetch.fulfillRequest", session, CALL_S, {**request, **answer})

    def _rewritten(self, session: str, paused: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer that takes the place of a server's; None where that stays."""
        assert self._rewrite is not None
        if paused.get("responseStatusCode") != _FOUND:
            return None
        try:
            body = self._call("Fetch.getResponseBody", session, CALL_S, {"requestId": paused["requestId"]})
        except DevToolsError:
            return None
        text = base64.b64decode(body["body"]) if body["base64Encoded"] else body["body"].encode()
        changed = self._rewrite(paused["resourceType"], text)
        if changed is None:
            return None
        kept = [header for header in paused["responseHeaders"] if header["name"].lower() not in _OF_THE_BODY]
        return {
            "responseCode": _FOUND,
            "responseHeaders": kept,
            "body": base64.b64encode(changed).decode(),
        }

    def _page_crashed(self) -> None:
        self._happened(PageEvent(kind="crash", text="the page crashed"))
        self._give_up()

    def _give_up(self) -> None:
        """Nobody will answer any more."""
        with self._lock:
            self._ended = True
        self._loaded.set()
        for answer in list(self._waiting.values()):
            _give(answer, None)


def without_halves(text: bytes) -> bytes:
    """JSON without halves of characters, which a page may have in its strings, and which are no text."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if len(escape[0]) == _HALF else escape[0], text)


def _give(answer: queue.Queue[dict[str, Any] | None], message: dict[str, Any] | None) -> None:
    with contextlib.suppress(queue.Full):  # the page's end and its answer may come at once; the first counts
        answer.put_nowait(message)


def _shown(value: Mapping[str, Any]) -> str:
    """An argument of the console's, as it would show it."""
    if "value" in value:
        content = value["value"]
        return content if isinstance(content, str) else json.dumps(content)
    return str(value.get("description", value.get("unserializableValue", value.get("type", ""))))


def _thrown(details: Mapping[str, Any]) -> str:
    exception = details.get("exception", {})
    return str(exception.get("description") or exception.get("value") or details.get("text", "an exception"))
