"""HTTP server for pages: on loopback by default, and accessible only with tokens.

A site listens; each token gives access to the room of one page, so pages cannot reach each other's data.
"""

from __future__ import annotations

import contextlib
import http.server
import math
import os
import secrets
import socket
import socketserver
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from ortune import monotonic
from ortune.files import inside, open_file

BEAT_S = 0.5
SILENT_S = 120.0  # an idle connection is closed after this time
TOKEN_S = 5.0  # a connection without a valid token is closed, or strangers could use all connections
STALLED_S = 10.0  # a body that stalls for this time is cut off, as after the loss of the network
MOST_BODY = 1 << 31
MOST_HELD = 1 << 28  # bytes of concurrent bodies for one token; a larger body is received alone
MOST_CONNECTIONS = 64  # a browser opens up to six
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
KEEPS = "max-age=86400"
"""Cache header for onnxruntime-web's files; measured files are never cached."""
ISOLATING = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SiteRoom(Protocol):
    """Interface of the data and handlers that one token gives access to."""

    @property
    def isolated(self) -> bool:
        """Whether responses have the headers for cross-origin isolation, which threads need."""
        ...

    def takes(self, path: str, size: int, request: Request) -> bool:
        """Return whether a body of ``size`` bytes may be sent to a path; called before the body is read."""
        ...

    def get(self, path: str, request: Request) -> None:
        """Answer a GET request, by its path below the token."""
        ...

    def post(self, path: str, body: bytes, request: Request) -> None:
        """Handle the body of a POST request to a path below the token."""
        ...


class Request(http.server.BaseHTTPRequestHandler):
    """Handler of one connection of a browser, with the methods to answer its requests."""

    protocol_version = "HTTP/1.1"
    # Head and body are written separately: otherwise the body waits 40 ms for the head's acknowledgement.
    disable_nagle_algorithm = True
    timeout = SILENT_S
    server_version, sys_version = "ortune", ""
    server: _Server
    room: SiteRoom | None = None

    def do_GET(self) -> None:
        """Pass a GET request to the room that its path names."""
        if (target := self._room()) is not None:
            room, path = target
            room.get(path, self)

    def do_POST(self) -> None:
        """Pass the body of a POST request to the room that its path names; answer 413 if the body is too large."""
        if (target := self._room()) is None:
            return
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BODY:
            self.close_connection = True  # the body that follows is not read
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
                self.close_connection = True  # incomplete: the page repeats it
                return
            room.post(path, body, self)

    def _body(self, length: int) -> bytes | None:
        """Return the body of a request; None if it is incomplete."""
        self.connection.settimeout(STALLED_S)
        try:
            body = self.rfile.read(length)
        except OSError:
            return None
        self.connection.settimeout(SILENT_S)
        return body if len(body) == length else None

    def _room(self) -> tuple[SiteRoom, str] | None:
        """Return the room of the token and the path below it; answer 403 and return None without a valid token."""
        token, _, rest = self.path.partition("?")[0].lstrip("/").partition("/")
        self.room = room = self.server.room(token)
        if room is None:
            self.close_connection = True  # a body is not read
            self.answer(403)
            return None
        self.server.known(self.connection)
        return room, rest

    def answer(self, status: int, body: bytes = b"", kind: str = "application/octet-stream") -> None:
        """Send a status and a body; if the page is gone, close the connection."""
        try:
            self.begin(status, kind, len(body))
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the page is gone

    def begin(self, status: int, kind: str, size: int | None = None, *, keeps: str = "no-store") -> None:
        """Send the head of a response; without a size, the response lasts until the connection ends."""
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
        """Answer with a file of this Python package."""
        data = files(__package__).joinpath(name).read_bytes()
        self.answer(200, data, TYPES[name[name.rindex(".") :]])

    def file(self, path: Path, *, keeps: str = "no-store") -> bool:
        """Answer with a file, with a cache header; return False if it does not exist."""
        try:
            source = open_file(path)  # a pipe would block this thread forever
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
        """Do not log requests, since addresses contain tokens."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS  # the default of five delays concurrent connections by a second

    def __init__(self, place: tuple[str, int]) -> None:
        self.rooms: dict[str, SiteRoom] = {}
        self._open: dict[socket.socket, float] = {}  # time limit to send a valid token
        self._held: Counter[SiteRoom] = Counter()
        self._released = threading.Condition()
        super().__init__(place, Request)

    def server_bind(self) -> None:
        """Bind without resolving this machine's name, unlike http.server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def room(self, token: str) -> SiteRoom | None:
        match = None
        # All tokens are compared, each in constant time, so the duration reveals nothing about them.
        for room_token, room in list(self.rooms.items()):
            if secrets.compare_digest(room_token.encode(), token.encode("utf-8", "replace")):
                match = room
        return match

    def known(self, request: socket.socket) -> None:
        """Exempt a connection with a valid token from the time limit of strangers."""
        if request in self._open:
            self._open[request] = math.inf

    @contextlib.contextmanager
    def held(self, room: SiteRoom, size: int) -> Iterator[bool]:
        """Reserve memory for a body, waiting until it is available; yield False if none is available in time."""

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
                self._held += Counter()  # removes the rooms with a count of 0
                self._released.notify_all()

    def service_actions(self) -> None:
        """Close connections without a valid token after their time limit; called at least every tenth of a second."""
        now = monotonic.now_s()
        for request, until in list(self._open.items()):
            if now > until:
                self._cut(request)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its own thread, or close it if the connection limit is reached."""
        strangers = [known for known, until in list(self._open.items()) if until < math.inf]
        if len(self._open) >= MOST_CONNECTIONS and not strangers:
            self.shutdown_request(request)
            return
        if len(self._open) >= MOST_CONNECTIONS:
            # Browsers send their token at once, so the oldest connection without one is closed.
            oldest = min(strangers, key=lambda known: self._open.get(known, 0.0))
            self._open.pop(oldest, None)
            self._cut(oldest)
        self._open[request] = monotonic.now_s() + TOKEN_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and remove it from the open ones."""
        self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stop listening, and end open connections."""
        super().server_close()
        for request in list(self._open):
            self._cut(request)

    def _cut(self, request: socket.socket) -> None:
        """Shut down a connection, which ends its thread."""
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_: object) -> None:
        """Ignore dropped connections; the page's state is observed in other ways."""


class Site:
    """HTTP server of an address, with a room for each token.

    Args:
        address: Address of this machine to listen on.
        port: Port to listen on; 0 for a free one.
        name: Host name in addresses; "" for the address.
        tls: TLS context with the certificate; None for plain HTTP.

    Raises:
        OSError: The address is not available.
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
            # Handshakes run in the thread of each connection, so an unresponsive client delays no other.
            self._http.socket = tls.wrap_socket(
                self._http.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._http.server_port
        self._start = f"http{'s' if tls else ''}://{name or address}:{self.port}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def open(self, room: SiteRoom, token: str = "") -> str:
        """Register a room under a token, a new one by default, and return its address."""
        token = token or secrets.token_urlsafe(24)
        self._http.rooms[token] = room
        return f"{self._start}/{token}/"

    def shut(self, url: str) -> None:
        """Revoke the token of an address."""
        self._http.rooms.pop(token_of(url), None)

    def close(self) -> None:
        """Stop the server and close its socket."""
        self._http.shutdown()
        self._http.server_close()


def token_of(url: str) -> str:
    """Return the token in an address of a site."""
    return url.rstrip("/").rpartition("/")[2]


def build_of(dist: Path, name: str) -> Path | None:
    """Return the path of an onnxruntime-web file; None for other names and for links out of the folder."""
    if "/" in name or "\\" in name or "\0" in name or Path(name).suffix not in TYPES:
        return None
    return path if inside(path := dist / name, dist) else None
