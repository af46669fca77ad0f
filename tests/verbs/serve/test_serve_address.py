"""The address of a page elsewhere: who is taken for its browser, what it serves, and how it is kept safe."""

from __future__ import annotations

import http.client
import ipaddress
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urljoin

import pytest
from served_pages import hello, net, phone

import ortune
from facts import facts
from ortune.errors import MeasurementError, OrtuneError, UsageError
from ortune.measuring.watcher import Watcher
from ortune.targets.browser import certificate
from ortune.targets.browser.remote import Remote
from ortune.targets.browser.site import Site, SiteRoom
from ortune.verbs._shared import remote_browser
from terminals import read_all


def test_who_only_previews_an_address_is_not_taken_for_the_browser() -> None:
    """Messengers open an address to show what it is, and are gone."""
    site = Site()
    there = Remote(site, lambda sentence: None)
    try:
        assert hello(there, "a", "b") == 204 and not there.wait(0.1, lambda: False)
        assert hello(there, "c", "d") == 204
        with urllib.request.urlopen(f"{there.url}pages/{'c' * 32}/{'d' * 32}", timeout=10):
            assert there.wait(10, lambda: False) and there.hello is not None and there.hello.id == "c" * 32
            assert hello(there, "e", "f") == 409
            assert hello(there, "c", "a") == 204  # loaded again
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{there.url}pages/{'a' * 32}/{'b' * 32}", timeout=10)
    finally:
        there.close()
        site.close()


def test_each_onnxruntime_web_has_an_address_of_its_own_there(tmp_path: Path) -> None:
    """Else the browser would give one side what it keeps of the other's."""
    site = Site()
    there = Remote(site, lambda sentence: None)
    try:
        found = {}
        for version in ("1.22.0", "1.30.0"):
            dist = tmp_path / version / "dist"
            dist.mkdir(parents=True)
            (dist / "ort.mjs").write_text(version)
            found[version] = there.builds(dist)
            assert there.builds(dist) == found[version]
        for version, place in found.items():
            with urllib.request.urlopen(urljoin(there.url, f"{place}ort.mjs"), timeout=10) as answer:
                assert answer.read().decode() == version
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{there.url}ort/ort.mjs", timeout=10)
    finally:
        there.close()
        site.close()


def test_no_token_is_told_where_a_file_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a browser says of it names the whole address, which lets in who has it."""
    tokens: list[str] = []
    usual = Site.open

    def opened(site: Site, room: SiteRoom, token: str = "") -> str:
        url = usual(site, room, token)
        tokens.append(url.rstrip("/").rpartition("/")[2])
        return url

    monkeypatch.setattr(Site, "open", opened)
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "ort.other.mjs").touch()
    with phone(tmp_path / "profile") as there, pytest.raises(OrtuneError, match="has no file") as caught:
        ortune.serve(
            net(tmp_path / "m.onnx"),
            ort_web=str(tmp_path),
            store=tmp_path / "st",
            watcher=Watcher(say=there.say),
        )
    assert len(tokens) >= 2 and "/…/ort/" in str(caught.value)
    told = [s for s in there.said if not s.startswith("open this on ")]
    kept = b"".join(p.read_bytes() for p in (tmp_path / "st").rglob("*") if p.is_file())
    assert kept
    for token in tokens:
        assert token.encode() not in kept and token not in f"{caught.value} {told}"


@pytest.mark.parametrize(
    ("environment", "tty", "drawn"), [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({}, False, False)]
)
def test_a_code_to_scan_is_drawn_in_a_terminal_with_colours_alone(
    environment: dict[str, str], tty: bool, drawn: bool, tmp_path: Path
) -> None:
    pytest.importorskip("segno")
    pty = pytest.importorskip("pty")
    command = [
        sys.executable,
        "-m",
        "ortune",
        "serve",
        str(net(tmp_path / "m.onnx")),
        "--open-within",
        "300ms",
    ]
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")
    }
    env = {**kept, "COLUMNS": "120", "TERM": "xterm-256color", "XDG_DATA_HOME": str(tmp_path), **environment}
    outer, inner = pty.openpty()
    with (tmp_path / "err").open("wb") as plain:
        process = subprocess.Popen(
            command, env=env, stdout=subprocess.DEVNULL, stderr=inner if tty else plain, close_fds=True
        )
    os.close(inner)
    printed = read_all(outer)
    assert process.wait(timeout=60) == 3
    said = printed if tty else (tmp_path / "err").read_bytes()
    assert b"http://127.0.0.1:" in said
    assert ("▀".encode() in said) is drawn


def test_where_a_page_is_to_be_opened_is_said() -> None:
    here = remote_browser.invitation("http://127.0.0.1:8000/x", "127.0.0.1")
    facts(here, "on this device", "another device: --address ", "http://127.0.0.1:8000/x")
    facts(remote_browser.invitation("https://192.168.1.20:8000/x", "192.168.1.20"), "on the other device")
    own = remote_browser.own_address()
    assert not own or not ipaddress.ip_address(own).is_loopback


def test_a_port_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match="cannot listen"):
            ortune.serve(net(tmp_path / "m.onnx"), port=taken.getsockname()[1])


def test_beyond_127_0_0_1_it_is_https(tmp_path: Path) -> None:
    """127.0.0.2 with a certificate of one's own stands for an address of a network."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is on this machine")
    cert, key = tmp_path / "c.pem", tmp_path / "k.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += [
        "-subj",
        "/CN=x",
        "-addext",
        "subjectAltName=IP:127.0.0.2",
        "-keyout",
        str(key),
        "-out",
        str(cert),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    seen: list[tuple[int, str]] = []

    def asks(sentence: str) -> None:
        found = re.search(r"https://(127\.0\.0\.2):(\d+)(/\S+/)$", sentence)
        if found:
            trusting = ssl.create_default_context(cafile=str(cert))
            asked = http.client.HTTPSConnection(found[1], int(found[2]), context=trusting, timeout=10)
            asked.request("GET", found[3])
            answer = asked.getresponse()
            seen.append((answer.status, answer.headers["Referrer-Policy"]))
            asked.close()

    with pytest.raises(MeasurementError, match="no browser connected"):
        ortune.serve(
            net(tmp_path / "m.onnx"),
            address="127.0.0.2",
            cert=str(cert),
            key=str(key),
            open_within="300ms",
            watcher=Watcher(say=asks),
        )
    assert seen == [(200, "no-referrer")]


def test_a_certificate_is_made_where_the_user_has_none(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl is on this machine")
    cert, key = certificate.create("127.0.0.2", tmp_path)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key)
    assert key.stat().st_mode & 0o077 == 0
