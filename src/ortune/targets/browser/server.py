"""The server between ortune and pages: on loopback unless asked otherwise, and nothing is given without a token.

A site listens; rooms are what lies behind its tokens, one for each page, so that a page reaches what it needs and
nothing of another.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import math
import os
import secrets
import socket
import socketserver
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from ortune import monotonic
from ortune.files import inside, open_file

POLL_S = 20.0  # a page asks again after so long without a message
BEAT_S = 0.5
SILENT_S = 120.0  # a connection that neither asks nor takes anything for so long is let go
TOKEN_S = 5.0  # and one that has shown no token since it came: else strangers hold all that there may be
STALLED_S = 10.0  # a body of which nothing more comes for so long is cut off, as by a network that is gone
MOST_BODY = 1 << 31
MOST_HELD = 1 << 28  # bytes of bodies behind one token at a time; a larger one comes alone
MOST_SAID = 1 << 26  # the times of a trial's runs are in it
UNASKED = 3  # messages of a page that are no answer to one
MOST_CONNECTIONS = 64  # of browsers that hold six
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
KEEPS = "max-age=86400"
"""Of onnxruntime-web's files; what is measured is never kept."""
ISOLATING = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Room(Protocol):
    """What lies behind one token."""

    @property
    def isolated(self) -> bool:
        """Whether its pages get the headers that threads need."""
        ...

    def takes(self, path: str, size: int, request: Request) -> bool:
        """Whether so many bytes may be sent to a path; they are read after that."""
        ...

    def get(self, path: str, request: Request) -> None:
        """Answers what is asked for, by its path below the token."""
        ...

    def post(self, path: str, body: bytes, request: Request) -> None:
        """Takes what is sent to a path."""
        ...


class Request(http.server.BaseHTTPRequestHandler):
    """One connection of a browser's, and how it is answered."""

    protocol_version = "HTTP/1.1"
    # Head and body are written one after the other: else the body waits 40 ms for the head's acknowledgement.
    disable_nagle_algorithm = True
    timeout = SILENT_S
    server_version, sys_version = "ortune", ""
    server: _Server
    room: Room | None = None

    def do_GET(self) -> None:
        """Answers."""
        if (target := self._room()) is not None:
            room, path = target
            room.get(path, self)

    def do_POST(self) -> None:
        """Takes."""
        if (target := self._room()) is None:
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BODY:
            self.close_connection = True  # what follows is no request
            self.answer(413)
            return
        room, path = target
        if not room.takes(path, int(length), self):
            self.close_connection = True
            self.answer(413)
            return
        with self.server.held(room, int(length)) as fits:
            body = self._body(int(length)) if fits else None
            if body is None:
                self.close_connection = True  # cut off: the page sends it again
                return
            room.post(path, body, self)

    def _body(self, length: int) -> bytes | None:
        """What is sent; None where it was cut off."""
        self.connection.settimeout(STALLED_S)
        try:
            body = self.rfile.read(length)
        except OSError:
            return None
        self.connection.settimeout(SILENT_S)
        return body if len(body) == length else None

    def _room(self) -> tuple[Room, str] | None:
        """Whose token it has, and what is asked for below that; None, and refused, without one."""
        token, _, rest = self.path.partition("?")[0].lstrip("/").partition("/")
        self.room = room = self.server.room(token)
        if room is None:
            self.close_connection = True  # nothing is read of what is sent along
            self.answer(403)
            return None
        self.server.known(self.connection)
        return room, rest

    def answer(self, status: int, body: bytes = b"", kind: str = "application/octet-stream") -> None:
        """Answers at once."""
        try:
            self.begin(status, kind, len(body))
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the page is gone

    def begin(self, status: int, kind: str, size: int | None = None, *, keeps: str = "no-store") -> None:
        """Begins an answer; one of no size goes on until its connection ends."""
        self.send_response(status)
        for name, value in (ISOLATING if self.room is not None and self.room.isolated else {}).items():
            self.send_header(name, value)
        self.send_header("Cache-Control", keeps)
        self.send_header("Referrer-Policy", "no-referrer")  # the token is in the address
        self.send_header("Content-Type", kind)
        if size is None:
            self.close_connection = True
            self.send_header("Connection", "close")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()

    def own(self, name: str) -> None:
        """Answers with a file of ours."""
        data = files(__package__).joinpath(name).read_bytes()
        self.answer(200, data, TYPES[name[name.rindex(".") :]])

    def file(self, path: Path, *, keeps: str = "no-store") -> bool:
        """Answers with a file, and says how long a browser may keep it; False where it is not there."""
        try:
            source = open_file(path)  # a pipe would hold this thread for ever
            size = os.fstat(source.fileno()).st_size
        except OSError:
            self.answer(404)
            return False
        with source:
            try:
                self.begin(200, TYPES.get(path.suffix, "application/octet-stream"), size, keeps=keeps)
                while chunk := source.read(1 << 20):
                    self.wfile.write(chunk)
            except OSError:
                self.close_connection = True
        return True

    def log_message(self, *_: object) -> None:
        """Nothing is logged: tokens are in the addresses."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS  # of five, one that comes with others waits a second or more

    def __init__(self, place: tuple[str, int]) -> None:
        self.rooms: dict[str, Room] = {}
        self._open: dict[socket.socket, float] = {}  # and until when without a token
        self._held: Counter[Room] = Counter()
        self._released = threading.Condition()
        super().__init__(place, Request)

    def server_bind(self) -> None:
        """Without asking the network for this machine's name, as http.server does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def room(self, token: str) -> Room | None:
        match = None
        for room_token, room in list(self.rooms.items()):
            if secrets.compare_digest(room_token.encode(), token.encode("utf-8", "replace")):
                match = room
        return match

    def known(self, request: socket.socket) -> None:
        """A connection has shown a token that is good."""
        if request in self._open:
            self._open[request] = math.inf

    @contextlib.contextmanager
    def held(self, room: Room, size: int) -> Iterator[bool]:
        """Counts a body's bytes once there is room for them; False where there was none until others were cut off."""

        def fits() -> bool:
            return not self._held[room] or self._held[room] + size <= MOST_HELD

        with self._released:
            counted = self._released.wait_for(fits, STALLED_S)
            self._held[room] += size if counted else 0
        try:
            yield counted
        finally:
            with self._released:
                self._held[room] -= size if counted else 0
                self._held += Counter()  # of rooms that have none, nothing is kept
                self._released.notify_all()

    def service_actions(self) -> None:
        """Between two connections, or a tenth of a second: strangers who say nothing are let go."""
        now = monotonic.now_s()
        for request, until in list(self._open.items()):
            if now > until:
                self._cut(request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own."""
        if len(self._open) >= MOST_CONNECTIONS:
            self.shutdown_request(request)
            return
        self._open[request] = monotonic.now_s() + TOKEN_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """A connection is over."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Nobody is heard any more, those who are connected included."""
        super().server_close()
        for request in list(self._open):
            self._cut(request)

    def _cut(self, request: socket.socket) -> None:
        """Its thread sees that it has ended."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """A browser that is closed drops its connections; what became of the page is told by other means."""


class Site:
    """Listens for browsers.

    Args:
        address: Of this machine, where it listens.
        port: There; 0 takes a free one.
        name: What browsers call the address.
        tls: The certificate and its key; None speaks plain http.

    Raises:
        OSError: It cannot listen there.
    """

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = 0,
        *,
        name: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._http = _Server((address, port))
        if tls is not None:
            # Shaken hands with in the thread of each connection: one that does not answer holds up no other.
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_port
        self._start = f"http{'s' if tls else ''}://{name or address}:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def open(self, room: Room, token: str = "") -> str:
        """Lets in who has the token, or a new one; returns the address with it."""
        token = token or secrets.token_urlsafe(24)
        self._http.rooms[token] = room
        return f"{self._start}/{token}/"

    def shut(self, url: str) -> None:
        """Its token opens nothing any more."""
        self._http.rooms.pop(token_of(url), None)

    def close(self) -> None:
        """Stops listening."""
        self._http.shutdown()
        self._http.server_close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What one page may have.

    Attributes:
        model: The model's file.
        external: Files with its weights, in the order of the request.
        feeds: The values of each case's inputs.
        dist: onnxruntime-web's builds.
        isolated: Whether the page gets the headers that threads need.
    """

    model: Path
    external: Sequence[Path]
    feeds: Sequence[Sequence[bytes]]
    dist: Path
    isolated: bool


class PageServer:
    """Hands messages to a page and from it.

    Args:
        served: What it may have.
        said: Is called with each message of the page, from another thread.
        printed: The same with the lines that it printed.
        expected: Asked, with what describes an output and with the bytes that it has, whether it may be sent.
        output: Is called with what describes an output, and its bytes; False where it is not taken.
        used_s: By what the page asks for, what tells the CPU seconds that the browser has taken for it.
        site: Where it lies; None opens one on loopback for this page alone. A page of a site that others share is
            watched by who opened it: browsers hold few connections to one site.
        token: Lets the page in; what pages with the same one keep of onnxruntime-web has the same address.

    Attributes:
        url: Where the page lies.
        port: On which it listens.
        missing: Files that the page asked for and that are not there.
        sent_bytes: Of files, each once: onnxruntime-web's, and the model's.
    """

    def __init__(
        self,
        served: Served,
        said: Callable[[bytes | None], None],
        printed: Callable[[Sequence[str]], None],
        expected: Callable[[str, int], bool],
        output: Callable[[str, bytes], bool],
        used_s: Mapping[str, Callable[[], float]],
        site: Site | None = None,
        token: str = "",
    ) -> None:
        self._served, self._said, self._printed = served, said, printed
        self._expected, self._output, self._used_s = expected, output, used_s
        self._outbox: list[bytes] = []
        self._posted = threading.Condition()
        self._posting = threading.Lock()  # what is sent twice waits for the first
        self._taken: dict[str, int] = {}  # by number, and how large it was
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
        """What a page without anything kept downloads."""
        return sum(self._sent.values())

    @property
    def sent(self) -> tuple[str, ...]:
        """Names of the files that were sent."""
        return tuple(path.name for path in list(self._sent))

    def send(self, message: bytes) -> None:
        """Gives the page its next message."""
        with self._posted:
            self._outbox.append(message)
            self._posted.notify_all()

    def close(self) -> None:
        """Gives nothing any more; what a page still waits for ends."""
        self._closed.set()
        self._site.shut(self.url)
        if self._alone:
            self._site.close()

    # --- what a page asks for

    def get(self, path: str, request: Request) -> None:
        """Answers what is asked for, by its path below the token."""
        kind, _, rest = path.partition("/")
        served = self._served
        if path in ("", "page.js"):
            request.own(path or "page.html")
        elif kind == "next" and rest.isdecimal():
            self._next(request, int(rest))
        elif path in self._used_s:
            request.answer(200, str(int(1e9 * self._used_s[path]())).encode(), "application/json")
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
        """Of an output what the model can have, of words less; what is sent again is no other than it was."""
        if path != "output":
            return size <= MOST_SAID
        with self._posting:  # the first may be about to be kept
            if (taken := self._taken.get(_number(request))) is not None:
                return size == taken
            return self._expected(_about(request), size)

    def post(self, path: str, body: bytes, request: Request) -> None:
        """Takes what is sent to a path, once where it is sent again with the same number."""
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
        """Hands on what was sent; the status to answer with."""
        if path == "say":
            # Of itself a page says that it is there, what it loaded, and what went wrong; else it answers.
            if self._n_said >= len(self._outbox) + UNASKED:
                return 429
            self._n_said += 1
            self._said(body)
        elif path == "console":
            self._printed(_lines(body))
        elif path == "output":
            return 204 if self._output(_about(request), body) else 507  # the trial has ended with it
        else:
            return 404
        return 204

    def _next(self, request: Request, number: int) -> None:
        """Gives the message of that number; the same again to who did not get it."""
        until = monotonic.now_s() + POLL_S
        with self._posted:
            while not self._closed.is_set() and monotonic.now_s() < until and number >= len(self._outbox):
                self._posted.wait(BEAT_S)
            message = self._outbox[number] if number < len(self._outbox) else b""
        request.answer(200 if message else 204, message, "application/json")

    def _alive(self, request: Request) -> None:
        """Stays open as long as the page: where writing fails, it is gone."""
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


def token_of(url: str) -> str:
    """What lets in, of an address that a site opened."""
    return url.rstrip("/").rpartition("/")[2]


def build_of(dist: Path, name: str) -> Path | None:
    """A file of onnxruntime-web that a page may have; None for what else it asks for, and for links elsewhere."""
    if "/" in name or "\\" in name or "\0" in name or Path(name).suffix not in TYPES:
        return None
    return path if inside(path := dist / name, dist) else None


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
