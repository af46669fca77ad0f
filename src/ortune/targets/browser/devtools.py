"""A browser controlled by the Chrome DevTools Protocol through a pipe, so no port is open to others.

The browser reads messages from its file descriptor 3 and writes its own to 4, as JSON terminated by NUL. A shell maps
them to its stdin and stdout, so the browser is started like any other process, and ends when the pipe closes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ortune import launcher, monotonic
from ortune.errors import RuntimeNotFound
from ortune.targets.browser.devtools_messages import (
    CALL_S,
    DevToolsError,
    PageEvent,
    shown,
    thrown,
    without_halves,
)
from ortune.targets.browser.waiting_scripts import SCRIPTS, Rewrite, WaitingScripts

MOST_MESSAGE = 128 << 20
"""Maximum bytes of one message, since a page controls the text that it prints."""
# File descriptors 3 and 4 become the pipe before the browser's stdin and stdout are redirected.
_PIPED = 'exec "$0" "$@" --remote-debugging-pipe --no-startup-window 3<&0 4>&1 </dev/null >&2'

# The id comes first in a message, so even an unreadable answer can be matched to its caller.
_NUMBER = re.compile(rb'\{"id":(\d{1,15})')


class DevTools:
    """A browser with one page: downloads are rejected, popups are closed, and dialogs are dismissed.

    Attributes:
        deadline: Time by ``monotonic.now_s`` after which all waiting ends.

    Args:
        program: Path of the browser.
        flags: Arguments of the browser, except for the pipe.
        environment: The complete environment of its process.
        folder: Working directory of its process.
        log: File for its output.
        happened: Called with each event, from a separate thread.

    Raises:
        RuntimeNotFound: The browser cannot be started.
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
        self._scripts: WaitingScripts | None = None
        command = ["/bin/sh", "-c", _PIPED, program, *flags]
        try:
            self.child = launcher.Child(
                command, environment=environment, folder=folder, log=log, guarded=True
            )
        except OSError as error:
            raise RuntimeNotFound(f"cannot start {program}: {error.strerror}") from error
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, method: str, limit_s: float = CALL_S, **parameters: object) -> dict[str, Any]:
        """Call a method of the page, or of the browser if there is no page yet, and wait for the answer.

        Raises:
            DevToolsError: The browser refused the call, did not answer in time, or ended.
        """
        return self._call(method, self._session, limit_s, parameters)

    def show(self, url: str, limit_s: float = CALL_S) -> None:
        """Open the page without observing it; only its crash is reported.

        Args:
            url: Address of the page.
            limit_s: Time limit of each step in seconds.

        Raises:
            DevToolsError: The browser ended, or did not open a page in time.
        """
        # Events start here, so even an early crash is reported.
        self._call("Target.setDiscoverTargets", "", limit_s, {"discover": True})
        self._call("Browser.setDownloadBehavior", "", limit_s, {"behavior": "deny"})
        target_id = self._call("Target.createTarget", "", limit_s, {"url": url})["targetId"]
        with self._lock:
            self._target = target_id
            crashed = target_id in self._crashed  # before the page's id was known
        if crashed:
            self._page_crashed()

    def connect(self, limit_s: float = CALL_S) -> None:
        """Attach to the page that ``show`` opened, without observing it, so that its methods can be called.

        Raises:
            DevToolsError: The browser ended, or did not answer in time.
        """
        attached = {"targetId": self._target, "flatten": True}
        self._session = self._call("Target.attachToTarget", "", limit_s, attached)["sessionId"]

    @property
    def contexts(self) -> list[str]:
        """Protocol sessions of the page and of the workers that it started."""
        return [self._session, *self._workers]

    def open(self, url: str, *, before: str = "", limit_s: float = CALL_S) -> None:
        """Open the page, observe it, and wait until it has loaded its resources.

        Args:
            url: Address of the page.
            before: JavaScript that runs in it before its own code.
            limit_s: Time limit of each step in seconds.

        Raises:
            DevToolsError: The browser ended, or the address cannot be opened in time.
        """
        self.attach(limit_s=limit_s)
        if before:
            self.call("Page.addScriptToEvaluateOnNewDocument", source=before)
        if not self.navigate(url, limit_s):
            raise DevToolsError(f"{url} did not load within {limit_s:.0f} s")

    def attach(self, *, rewrite: Rewrite | None = None, limit_s: float = CALL_S) -> None:
        """Open an empty page and observe it.

        Args:
            rewrite: Called with each document and script before it runs, each from its own thread; returns the
                replacement, or None.
            limit_s: Time limit of each step in seconds.

        Raises:
            DevToolsError: The browser ended, or did not open the page in time.
        """
        self._scripts = None if rewrite is None else WaitingScripts(self._call, self._send, rewrite)
        self.show("about:blank", limit_s)
        self.connect(limit_s)
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable", limit_s)
        # A worker waits until its console is observed, so no output is missed.
        self.call("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=True, flatten=True)
        if rewrite is not None:
            self.call("Fetch.enable", limit_s, patterns=SCRIPTS)

    def navigate(self, url: str, limit_s: float = CALL_S) -> bool:
        """Load an address in the attached page; return whether its resources loaded within the limit.

        Raises:
            DevToolsError: The browser ended, or the address cannot be opened in time.
        """
        self._loaded.clear()  # set by the empty page
        failed = self.call("Page.navigate", limit_s, url=url).get("errorText")
        if failed:
            raise DevToolsError(f"{url} cannot be opened: {failed}")
        return self._loaded.wait(self._limit(limit_s))

    def evaluate(self, expression: str, limit_s: float = CALL_S, *, context: str = "") -> Any:
        """Return the JSON value of a JavaScript expression in the page or one of its ``contexts``, awaiting promises.

        Raises:
            DevToolsError: The expression threw or did not end in time, or the page ended.
        """
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self._call("Runtime.evaluate", context or self._session, limit_s, asked)
        if "exceptionDetails" in answer:
            raise DevToolsError(thrown(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def heap_bytes(self, limit_s: float = CALL_S) -> int:
        """Return the bytes of the page's JavaScript heap and its arrays, after garbage collection.

        Raises:
            DevToolsError: The browser does not answer in time, or ended.
        """
        self.call("HeapProfiler.collectGarbage", limit_s)
        used = self.call("Runtime.getHeapUsage", limit_s)
        return int(used["usedSize"]) + int(used.get("backingStorageSize", 0))

    def close(self) -> None:
        """Close the browser and end all of its processes."""
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
                # Under the lock that _give_up takes: a later call would wait forever.
                if self._ended:
                    _give(answer, None)
                    return number
            self.child.send(json.dumps(message).encode() + b"\0")
        return number

    def _read(self) -> None:
        parts, size = list[bytes](), 0  # of an incomplete message; of one that is too long, its beginning
        while chunk := self.child.read():
            *ends, rest = chunk.split(b"\0")
            for end in ends:
                self._message(b"".join((*parts, end)), whole=size + len(end) <= MOST_MESSAGE)
                parts, size = [], 0
            size += len(rest)
            # The beginning of a message that is too long is kept, since it contains the id.
            if rest and (not parts or size <= MOST_MESSAGE):
                parts.append(rest)
        self._give_up()
        if not self._closed:
            self._happened(PageEvent(kind="gone", text="the browser ended"))

    def _message(self, text: bytes, *, whole: bool) -> None:
        """Dispatch a message; an unreadable answer becomes an error for its caller."""
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
            if info["type"] == "page" and info.get("openerId"):  # a popup that the flags did not prevent
                self._send("Target.closeTarget", "", {"targetId": info["targetId"]})
                self._happened(PageEvent(kind="log", level="warning", text="closed: a window that it opened"))
        elif method == "Fetch.requestPaused" and self._scripts is not None:
            self._scripts.paused(session, params)
        elif method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Page.javascriptDialogOpening":
            # Otherwise the page waits forever.
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
        """Report an event of the page, a worker or the browser to ``happened``."""
        worker = session in self._workers
        if method == "Runtime.consoleAPICalled":
            text = " ".join(map(shown, params["args"]))
            self._happened(
                PageEvent(kind="console", level=params["type"], text=text, worker=worker, context=session)
            )
        elif method == "Runtime.exceptionThrown":
            text = thrown(params["exceptionDetails"])
            self._happened(PageEvent(kind="exception", level="error", text=text, worker=worker))
        elif (
            method == "Log.entryAdded" and params["entry"].get("source") != "worker"
        ):  # a worker reports its own entries
            entry = params["entry"]
            text = f"{entry['text']} ({entry['url']})" if entry.get("url") else entry["text"]
            self._happened(PageEvent(kind="log", level=entry["level"], text=text, worker=worker))

    def _listen(self, worker: str) -> None:
        """Observe a new worker, and let it start."""
        self._workers.add(worker)
        self._send("Runtime.enable", worker, {})
        if self._scripts is not None:
            self._send("Fetch.enable", worker, {"patterns": SCRIPTS})
        self._send("Runtime.runIfWaitingForDebugger", worker, {})

    def _page_crashed(self) -> None:
        self._happened(PageEvent(kind="crash", text="the page crashed"))
        self._give_up()

    def _give_up(self) -> None:
        """End all pending calls, since the browser has ended."""
        with self._lock:
            self._ended = True
        # A pending navigation ends at once instead of waiting for its limit.
        self._loaded.set()
        for answer in list(self._waiting.values()):
            _give(answer, None)


def _give(answer: queue.Queue[dict[str, Any] | None], message: dict[str, Any] | None) -> None:
    with contextlib.suppress(queue.Full):  # the page's end and its answer may come at once; the first counts
        answer.put_nowait(message)
