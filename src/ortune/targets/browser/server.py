"""The server between ortune and one page: on loopback, behind a token, with what that page needs and nothing else."""

from __future__ import annotations

import http.server
import json
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

POLL_S = 20.0  # a page asks again after so long without a message
BEAT_S = 0.5
MOST_BODY = 1 << 31
TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
}
ISOLATING = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}


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
        output: The same with what describes an output, and its bytes.
        cpu_s: Tells the CPU seconds that the browser has taken.
        token: Lets the page in; what pages with the same one keep of onnxruntime-web has the same address.

    Attributes:
        url: Where the page lies.
        port: On which it listens.
        missing: Files that the page asked for and that are not there.
        sent_bytes: Of files: onnxruntime-web's, and the model's.
    """

    def __init__(
        self,
        served: Served,
        said: Callable[[bytes | None], None],
        printed: Callable[[Sequence[str]], None],
        output: Callable[[Mapping[str, object], bytes], None],
        cpu_s: Callable[[], float],
        token: str = "",
    ) -> None:
        self._served, self._said, self._printed, self._output = served, said, printed, output
        self._cpu_s = cpu_s
        self._outbox: queue.Queue[bytes] = queue.Queue()
        self._closed = threading.Event()
        self._token = token or secrets.token_urlsafe(24)
        self.missing: list[str] = []
        self.sent_bytes = 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body are written one after the other: else the body waits 40 ms for the head's acknowledgement.
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                server._get(self)

            def do_POST(self) -> None:
                server._post(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = _Quiet(("127.0.0.1", 0), Handler)
        self.port = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/{self._token}/"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def send(self, message: bytes) -> None:
        """Gives the page its next message."""
        self._outbox.put(message)

    def close(self) -> None:
        """Stops listening; what a page still waits for ends."""
        self._closed.set()
        self._http.shutdown()
        self._http.server_close()

    # --- what a page asks for

    def _path(self, request: http.server.BaseHTTPRequestHandler) -> str | None:
        """What is asked for, below the token; None, and refused, without it."""
        first, _, rest = request.path.partition("?")[0].lstrip("/").partition("/")
        if not secrets.compare_digest(first.encode(), self._token.encode()):
            self._answer(request, 403, b"")
            return None
        return rest

    def _get(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path = self._path(request)
        if path is None:
            return
        kind, _, rest = path.partition("/")
        served = self._served
        if path in ("", "page.js"):
            name = path or "page.html"
            data = files(__package__).joinpath(name).read_bytes()
            self._answer(request, 200, data, TYPES[name[name.rindex(".") :]])
        elif path == "next":
            self._next(request)
        elif path == "cpu":
            self._answer(request, 200, str(int(1e9 * self._cpu_s())).encode(), "application/json")
        elif path == "alive":
            self._alive(request)
        elif path == "model":
            self._file(request, served.model)
        elif kind == "data" and rest.isdecimal() and int(rest) < len(served.external):
            self._file(request, served.external[int(rest)])
        elif kind == "feed":
            case, _, number = rest.partition("/")
            try:
                self._answer(request, 200, served.feeds[int(case)][int(number)])
            except (ValueError, IndexError):
                self._answer(request, 404, b"")
        elif kind == "ort" and "/" not in rest and "\\" not in rest and Path(rest).suffix in TYPES:
            self._file(request, served.dist / rest, keeps="max-age=86400")
        else:
            self._answer(request, 404, b"")

    def _post(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path = self._path(request)
        if path is None:
            return
        length = request.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BODY:
            self._answer(request, 413, b"")
            return
        body = request.rfile.read(int(length))
        if path == "say":
            self._said(body)
        elif path == "console":
            self._printed(_lines(body))
        elif path == "output":
            try:
                about = json.loads(unquote(request.headers.get("x-about", "")))
                self._output(about, body)
            except (ValueError, KeyError, TypeError):
                self._answer(request, 400, b"")
                return
        else:
            self._answer(request, 404, b"")
            return
        self._answer(request, 204, b"")

    def _next(self, request: http.server.BaseHTTPRequestHandler) -> None:
        until = time.monotonic() + POLL_S
        while not self._closed.is_set() and time.monotonic() < until:
            try:
                message = self._outbox.get(timeout=BEAT_S)
            except queue.Empty:
                continue
            self._answer(request, 200, message, "application/json")
            return
        self._answer(request, 204, b"")

    def _alive(self, request: http.server.BaseHTTPRequestHandler) -> None:
        """Stays open as long as the page: where writing fails, it is gone."""
        request.close_connection = True
        try:
            request.send_response(200)
            self._headers(request)
            request.send_header("Content-Type", "text/plain")
            request.send_header("Connection", "close")
            request.end_headers()
            while not self._closed.wait(BEAT_S):
                request.wfile.write(b".")
                request.wfile.flush()
        except OSError:
            self._said(None)

    def _file(self, request: http.server.BaseHTTPRequestHandler, path: Path, keeps: str = "no-store") -> None:
        try:
            size = path.stat().st_size
            source = path.open("rb")
        except OSError:
            self.missing.append(path.name)
            self._answer(request, 404, b"")
            return
        self.sent_bytes += size
        with source:
            request.send_response(200)
            self._headers(request, keeps)
            request.send_header("Content-Type", TYPES.get(path.suffix, "application/octet-stream"))
            request.send_header("Content-Length", str(size))
            request.end_headers()
            try:
                while chunk := source.read(1 << 20):
                    request.wfile.write(chunk)
            except OSError:
                request.close_connection = True

    def _answer(
        self,
        request: http.server.BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        kind: str = "application/octet-stream",
    ) -> None:
        try:
            request.send_response(status)
            self._headers(request)
            request.send_header("Content-Type", kind)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        except OSError:
            request.close_connection = True  # the page is gone

    def _headers(self, request: http.server.BaseHTTPRequestHandler, keeps: str = "no-store") -> None:
        for name, value in (ISOLATING if self._served.isolated else {}).items():
            request.send_header(name, value)
        request.send_header("Cache-Control", keeps)


class _Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A browser that is closed drops its connections; what became of the page is told by other means."""


def _lines(body: bytes) -> list[str]:
    try:
        found = json.loads(body)
    except ValueError:
        return []
    return [line for line in found if isinstance(line, str)] if isinstance(found, list) else []
