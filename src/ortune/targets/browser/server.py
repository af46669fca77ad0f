"""Server of one trial page: the files that it may request, and its messages to and from ortune."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ortune import monotonic
from ortune.targets.browser.site import BEAT_S, KEEPS, Request, Site, build_of

POLL_S = 20.0  # limit of a page's request for the next message, which it then repeats
MOST_SAID = 1 << 26  # limit of a message, which may contain the times of all runs
UNASKED = 3  # messages of a page that do not answer a message: ready, loaded, error
OWN = ("", "page.js", "soaking.js", "counters.js")
"""Files of this package that a page may request; "" is the page itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Files that one page may request.

    Attributes:
        model: Path of the model.
        external: Files with its weights, in the order of the request.
        feeds: The values of each case's inputs.
        dist: Folder with the builds of onnxruntime-web.
        isolated: Whether responses have the headers for cross-origin isolation, which threads need.
    """

    model: Path
    external: Sequence[Path]
    feeds: Sequence[Sequence[bytes]]
    dist: Path
    isolated: bool


class PageServer:
    """Exchanges messages with a page.

    Args:
        served: Files that the page may request.
        said: Called with each message of the page, or None at its end, from another thread.
        printed: Called with the lines that the page printed, from another thread.
        expected: Called with the description and size of an output; returns whether the page may send it.
        output: Called with the description and bytes of an output; returns False if it was not stored.
        figures: Functions for figures about the browser that its page cannot measure, by requested path.
        site: The site; None opens one on loopback for this page only. Pages of a shared site are observed by its owner,
            because browsers limit the connections to one site.
        token: Token of the address; pages with equal tokens share the browser's cache of onnxruntime-web.

    Attributes:
        url: Address of the page.
        port: Port of the site.
        missing: Names of the requested files that do not exist.
        sent_bytes: Bytes of the requested files of onnxruntime-web and of the model, each file counted once.
    """

    def __init__(
        self,
        served: Served,
        said: Callable[[bytes | None], None],
        printed: Callable[[Sequence[str]], None],
        expected: Callable[[str, int], bool],
        output: Callable[[str, bytes], bool],
        figures: Mapping[str, Callable[[], int]],
        site: Site | None = None,
        token: str = "",
    ) -> None:
        self._served, self._said, self._printed = served, said, printed
        self._expected, self._output, self._figures = expected, output, figures
        self._outbox: list[bytes] = []
        self._posted = threading.Condition()
        self._posting = threading.Lock()  # a repeated request waits for the first
        self._taken: dict[str, int] = {}  # size of each handled body, by request number
        self._n_said = 0
        self._closed = threading.Event()
        self.missing: list[str] = []
        self._sent: dict[Path, int] = {}
        self.isolated = served.isolated
        self._alone = site is None
        self._site = site or Site()
        self.port = self._site.port
        self.url = self._site.open(self, token)

    @property
    def sent_bytes(self) -> int:
        """Bytes that a page downloads with an empty cache."""
        return sum(self._sent.values())

    @property
    def sent(self) -> tuple[str, ...]:
        """Names of the files that were sent."""
        return tuple(path.name for path in list(self._sent))

    def send(self, message: bytes) -> None:
        """Queue the next message for the page."""
        with self._posted:
            self._outbox.append(message)
            self._posted.notify_all()

    def close(self) -> None:
        """Stop serving the page; its pending requests end."""
        self._closed.set()
        self._site.shut(self.url)
        if self._alone:
            self._site.close()

    # --- requests of a page

    def get(self, path: str, request: Request) -> None:
        """Answer a GET request, by its path below the token."""
        kind, _, rest = path.partition("/")
        served = self._served
        if path in OWN:
            request.own(path or "page.html")
        elif kind == "next" and rest.isdecimal():
            self._next(request, int(rest))
        elif path in self._figures:
            request.answer(200, str(self._figures[path]()).encode(), "application/json")
        elif path == "alive":
            self._alive(request)
        elif path == "model":
            self._file(request, served.model)
        elif kind == "data" and rest.isdecimal() and int(rest) < len(served.external):
            self._file(request, served.external[int(rest)])
        elif kind == "feed":
            case, _, number = rest.partition("/")
            try:
                request.answer(200, served.feeds[int(case)][int(number)])
            except (ValueError, IndexError):
                request.answer(404)
        elif kind == "ort" and (build := build_of(served.dist, rest)):
            self._file(request, build, keeps=KEEPS)
        else:
            request.answer(404)

    def takes(self, path: str, size: int, request: Request) -> bool:
        """Return whether a body of this size is accepted.

        The limit is MOST_SAID; for an output, the size that the model allows, and the first size if it is repeated.
        """
        if path != "output":
            return size <= MOST_SAID
        with self._posting:  # the first request may be storing it now
            if (taken := self._taken.get(_number(request))) is not None:
                return size == taken
            return self._expected(_about(request), size)

    def post(self, path: str, body: bytes, request: Request) -> None:
        """Handle a POST request, by its path below the token; a repetition with the same number is ignored."""
        number = _number(request)
        with self._posting:
            if self._closed.is_set():
                request.answer(403)
                return
            if number not in self._taken:
                status = self._take(path, body, request)
                if status != 204:
                    request.answer(status)
                    return
                if number:
                    self._taken[number] = len(body)
        request.answer(204)

    def _take(self, path: str, body: bytes, request: Request) -> int:
        """Pass the body of a request to its callback; return the HTTP status."""
        if path == "say":
            # Without a message from ortune, a page sends only "ready", "loaded" and "error".
            if self._n_said >= len(self._outbox) + UNASKED:
                return 429
            self._n_said += 1
            self._said(body)
        elif path == "console":
            self._printed(_lines(body))
        elif path == "output":
            return 204 if self._output(_about(request), body) else 507  # a refused output ends the trial
        else:
            return 404
        return 204

    def _next(self, request: Request, number: int) -> None:
        """Send the message with a number, again if the page repeats the request; wait if it does not exist yet."""
        until = monotonic.now_s() + POLL_S
        with self._posted:
            while not self._closed.is_set() and monotonic.now_s() < until and number >= len(self._outbox):
                self._posted.wait(BEAT_S)
            message = self._outbox[number] if number < len(self._outbox) else b""
        request.answer(200 if message else 204, message, "application/json")

    def _alive(self, request: Request) -> None:
        """Keep a response open as long as the page; a failed write shows that the page is gone."""
        if not self._alone:
            request.answer(204)
            return
        try:
            request.begin(200, "text/plain")
            while not self._closed.wait(BEAT_S):
                request.wfile.write(b".")
                request.wfile.flush()
        except OSError:
            self._said(None)

    def _file(self, request: Request, path: Path, *, keeps: str = "no-store") -> None:
        if request.file(path, keeps=keeps):
            self._sent[path] = path.stat().st_size
        else:
            self.missing.append(path.name)


def _number(request: Request) -> str:
    return request.headers.get("x-number", "")


def _about(request: Request) -> str:
    return unquote(request.headers.get("x-about", ""))


def _lines(body: bytes) -> list[str]:
    try:
        lines = json.loads(body)
    except ValueError:
        return []
    return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
