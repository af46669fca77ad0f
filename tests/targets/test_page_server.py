"""The server of a page, asked by others than the page: it gives away nothing without the token, and no other file."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ortune.targets.browser import site
from ortune.targets.browser.server import UNASKED, PageServer, Served
from ortune.targets.browser.site import MOST_CONNECTIONS

MOST_OUTPUT = 100


class Asked:
    """A server, and what it was told."""

    def __init__(self, folder: Path, *, isolated: bool = True) -> None:
        dist = folder / "onnxruntime-web" / "dist"
        dist.mkdir(parents=True)
        for name in ("ort.wasm.min.mjs", "ort.wasm", "ort.js.map", "secret.txt"):
            (dist / name).write_text(name)
        (dist.parent / "package.mjs").write_text("outside")
        (folder / "m.onnx").write_text("model")
        (folder / "m.data").write_text("weights")
        self.said: list[bytes | None] = []
        self.outputs: list[bytes] = []
        served = Served(
            model=folder / "m.onnx",
            external=[folder / "m.data"],
            feeds=[[b"feed"]],
            dist=dist,
            isolated=isolated,
        )
        self.server = PageServer(
            served,
            self.said.append,
            lambda lines: None,
            lambda about, size: size <= MOST_OUTPUT,
            self.output,
            {"cpu": lambda: 250_000_000},
        )
        self.where = urlsplit(self.server.url)
        self.token = self.where.path.strip("/")

    def output(self, about: str, body: bytes) -> bool:
        """Takes what it is given, with any words."""
        self.outputs.append(body)
        return about != "refused"

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """What is answered to a path that is sent as it is."""
        connection = http.client.HTTPConnection(str(self.where.hostname), self.where.port, timeout=30)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    yield made
    made.server.close()


def test_it_listens_on_loopback_with_another_token_each_time(asked: Asked, tmp_path: Path) -> None:
    assert asked.where.hostname == "127.0.0.1"
    other = Asked(tmp_path / "other")
    other.server.close()
    assert len(asked.token) >= 32 and asked.token != other.token
    assert asked.where.port != other.where.port


def test_a_body_does_not_wait_until_its_head_is_acknowledged(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes 40 ms a message where Nagle's algorithm meets delayed acknowledgements: most of a short turn."""
    found: list[int] = []
    usual = http.server.BaseHTTPRequestHandler.parse_request

    def parsed(handler: http.server.BaseHTTPRequestHandler) -> bool:
        found.append(handler.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return usual(handler)

    monkeypatch.setattr(http.server.BaseHTTPRequestHandler, "parse_request", parsed)
    assert asked.ask(f"/{asked.token}/model")[0] == 200
    assert found and all(found)


@pytest.mark.parametrize(
    "path", ["/", "", "/model", "/page.js", "//model", "/TOKEN/model", "/%E9/model", "/x?TOKEN/model"]
)
def test_without_the_token_nothing_is_given(asked: Asked, path: str) -> None:
    path = path.replace("TOKEN", asked.token.swapcase())
    status, _, body = asked.ask(path)
    assert (status, body) == (403, b"")


@pytest.mark.parametrize("path", ["say", "output", "console"])
def test_without_the_token_nothing_is_taken(asked: Asked, path: str) -> None:
    assert asked.ask(f"/{path}", "POST", b"{}")[0] == 403
    assert (asked.said, asked.outputs) == ([], [])


def test_it_gives_what_a_page_needs(asked: Asked) -> None:
    given = {
        "": "text/html", "page.js": "text/javascript", "model": "application/octet-stream",
        "data/0": "application/octet-stream", "feed/0/0": "application/octet-stream",
        "ort/ort.wasm.min.mjs": "text/javascript", "ort/ort.wasm": "application/wasm",
    }  # fmt: skip
    for path, kind in given.items():
        status, headers, body = asked.ask(f"/{asked.token}/{path}")
        assert (status, headers["Content-Type"].split(";")[0]) == (200, kind), path
        assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Access-Control-Allow-Origin" not in headers
        assert body


@pytest.mark.parametrize(
    "path",
    [
        "ort/", "ort", "ort/..", "ort/../package.mjs", "ort/%2e%2e/package.mjs", "ort/..%2fpackage.mjs",
        "ort/..\\package.mjs", "ort/secret.txt", "ort/ort.js.map", "ort//etc/passwd", "data/1", "data/-1", "data/",
        "data/0/../../m.onnx", "feed/", "feed/1/0", "feed/0/9", "feed/x/0", "../m.onnx", "m.onnx",
    ],
)  # fmt: skip
def test_it_gives_nothing_else(asked: Asked, path: str) -> None:
    status, _, body = asked.ask(f"/{asked.token}/{path}")
    assert (status, body) == (404, b"")


def test_a_page_that_is_not_isolated_gets_no_such_headers(tmp_path: Path) -> None:
    asked = Asked(tmp_path, isolated=False)
    try:
        _, headers, _ = asked.ask(f"/{asked.token}/")
        assert "Cross-Origin-Embedder-Policy" not in headers
    finally:
        asked.server.close()


def test_what_is_asked_for_or_sent_again_is_the_same_once(asked: Asked) -> None:
    """A page whose network was gone does not know what arrived."""
    for message in (b"one", b"two"):
        asked.server.send(message)
    paths = [f"/{asked.token}/next/{number}" for number in (0, 0, 1, 1)]
    assert [asked.ask(path)[2] for path in paths] == [b"one", b"one", b"two", b"two"]
    for number in ("0", "0", "1"):
        assert asked.ask(f"/{asked.token}/say", "POST", b"{}", **{"x-number": number})[0] == 204
    assert asked.said == [b"{}", b"{}"]


def test_an_output_that_is_sent_again_is_no_other(asked: Asked) -> None:
    path = f"/{asked.token}/output"
    found = [asked.ask(path, "POST", body, **{"X-Number": "1"})[0] for body in (b"x", b"x", b"xx")]
    assert (found, asked.outputs) == ([204, 204, 413], [b"x"])


def test_who_says_more_than_was_asked_is_not_heard(asked: Asked) -> None:
    asked.server.send(b"one")
    found = [asked.ask(f"/{asked.token}/say", "POST", b"{}", **{"x-number": str(n)})[0] for n in range(6)]
    assert found == [204] * (1 + UNASKED) + [429] * (5 - UNASKED)
    assert len(asked.said) == 1 + UNASKED


def test_connections_are_counted(asked: Asked) -> None:
    def refused(held: socket.socket, within_s: float) -> bool:
        held.settimeout(within_s)
        try:
            return held.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True

    with contextlib.ExitStack() as stack:
        place = (str(asked.where.hostname), int(asked.where.port or 0))
        held = [stack.enter_context(socket.create_connection(place)) for _ in range(MOST_CONNECTIONS + 1)]
        assert refused(held[0], 10.0) and not refused(held[-1], 0.2)  # the one that came first gives way
    assert asked.ask(f"/{asked.token}/model")[0] == 200


def test_strangers_hold_no_connections(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is in the same network and has no token."""
    monkeypatch.setattr(site, "TOKEN_S", 0.3)
    place = (str(asked.where.hostname), int(asked.where.port or 0))
    with contextlib.ExitStack() as stack:
        known = http.client.HTTPConnection(*place, timeout=10)
        stack.callback(known.close)
        known.request("GET", f"/{asked.token}/model")
        assert known.getresponse().read() == b"model"
        held = [stack.enter_context(socket.create_connection(place)) for _ in range(MOST_CONNECTIONS - 1)]
        ends = time.monotonic() + 0.6
        while time.monotonic() < ends:
            with contextlib.suppress(OSError):
                held[0].sendall(b"G")  # one that goes on for ever says nothing either
            time.sleep(0.05)
        assert asked.ask(f"/{asked.token}/model")[0] == 200
        known.request("GET", f"/{asked.token}/model")  # and who has shown it once stays
        assert known.getresponse().read() == b"model"


def test_who_has_the_token_comes_in_while_strangers_hold_all_connections(asked: Asked) -> None:
    place = (str(asked.where.hostname), int(asked.where.port or 0))
    with contextlib.ExitStack() as stack:
        known = http.client.HTTPConnection(*place, timeout=10)
        stack.callback(known.close)
        known.request("GET", f"/{asked.token}/model")
        assert known.getresponse().read() == b"model"
        for _ in range(2 * MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(place))
        assert asked.ask(f"/{asked.token}/model")[0] == 200
        known.request("GET", f"/{asked.token}/model")  # and who was there stays
        assert known.getresponse().read() == b"model"


def test_bodies_wait_for_each_other_where_they_are_large(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else as many as there may be connections lie in memory at once."""
    monkeypatch.setattr(site, "MOST_HELD", 100)
    monkeypatch.setattr(site, "STALLED_S", 0.4)
    head = f"POST /{asked.token}/say HTTP/1.1\r\nHost: x\r\nContent-Length: 80\r\n\r\n"
    post = f"/{asked.token}/say"
    found: list[int] = []
    second = threading.Thread(target=lambda: found.append(asked.ask(post, "POST", b"2" * 80)[0]))
    with socket.create_connection((str(asked.where.hostname), int(asked.where.port or 0))) as first:
        first.sendall(head.encode() + b"1" * 40)
        time.sleep(0.1)
        second.start()
        time.sleep(0.1)
        assert asked.ask(post, "POST", b"3" * 20)[0] == 204  # there is room for that one
        assert asked.said == [b"3" * 20]
        second.join()  # the first goes no further, and is cut off
        assert first.recv(100) == b""
    assert (found, asked.said[1:]) == ([204], [b"2" * 80])
    assert asked.ask(post, "POST", b"4" * 150)[0] == 204  # alone


def test_what_is_said_badly_is_refused(asked: Asked) -> None:
    post = f"/{asked.token}/output"
    assert asked.ask(post, "POST", None, **{"Content-Length": str(MOST_OUTPUT + 1)})[0] == 413
    assert asked.ask(post, "POST", b"x", **{"X-About": "taken"})[0] == 204
    assert asked.ask(f"/{asked.token}/say", "POST", None, **{"Content-Length": str(1 << 40)})[0] == 413
    assert asked.ask(f"/{asked.token}/nothing", "POST", b"{}")[0] == 404


def test_what_was_cut_off_is_sent_again_and_taken_once(asked: Asked) -> None:
    """A network that is gone in the middle of a message ends its connection."""
    head = f"POST /{asked.token}/say HTTP/1.1\r\nHost: x\r\nContent-Length: 24\r\nX-Number: 7\r\n\r\n"
    with socket.create_connection((str(asked.where.hostname), int(asked.where.port or 0))) as half:
        half.sendall(head.encode() + b'{"message"')
        half.shutdown(socket.SHUT_WR)
        assert half.recv(100) == b""
    assert asked.said == []
    whole = b'{"message": "turn-over"} '[:24]
    for _ in range(2):
        assert asked.ask(f"/{asked.token}/say", "POST", whole, **{"X-Number": "7"})[0] == 204
    assert asked.said == [whole]


def test_an_output_that_could_not_be_kept_is_not_taken_for_kept(asked: Asked) -> None:
    for _ in range(2):
        headers = {"X-About": "refused", "X-Number": "1"}
        assert asked.ask(f"/{asked.token}/output", "POST", b"x", **headers)[0] == 507
    assert asked.outputs == [b"x", b"x"]


def test_words_are_no_gigabytes(asked: Asked) -> None:
    path = f"/{asked.token}/say"
    assert asked.ask(path, "POST", **{"Content-Length": str(1 << 27)})[0] == 413


def test_nothing_is_heard_once_it_is_closed(asked: Asked) -> None:
    head = f"POST /{asked.token}/say HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"
    with socket.create_connection((str(asked.where.hostname), int(asked.where.port or 0))) as late:
        late.sendall(head.encode() + b"ab")
        assert asked.ask(f"/{asked.token}/model")[0] == 200  # it is listened to
        asked.server.close()
        late.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            # A head that was not read before the token ended is refused, one that was is cut off.
            assert late.recv(100).partition(b"\r\n")[0] in (b"", b"HTTP/1.1 403 Forbidden")
    assert asked.said == []
