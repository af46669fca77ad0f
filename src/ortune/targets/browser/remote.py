"""A browser on another device, opened by the user: its properties and its open pages.

The browser stays on one page, which contains the page of each trial in a frame. Server-sent events list the frames that
should exist; the frames communicate themselves, as in a local browser.
"""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import msgspec

from ortune import monotonic
from ortune.records import Host, TrialDone
from ortune.targets.browser.site import KEEPS, Request, Site, build_of

BEAT_S = 1.0
MOST_HELLO = 1 << 16
MINUTE_S = 60.0
AWAY_S = 60.0
"""Seconds that a trial waits for the user to reopen the page."""
MOST_PAGES = 2
"""Maximum number of pages at a time: their memory cannot be observed, phones have little, and browsers limit the
connections to six per site."""
_VANISHED_MS = 20_000  # without an acknowledgement from the device
_AGAIN_MS = 1000
_SYSTEM = re.compile(r"(Android \d+|iPhone|iPad|Android|Windows|Mac OS X|CrOS|Linux)")


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """A browser's report on itself.

    Attributes:
        id: Identifier of the browser, unchanged by a reload.
        page: Identifier of the loaded page, changed by a reload.
        agent: Its User-Agent.
        secure: Whether the address is a secure context; WebGPU and threads require that.
        isolated: Whether the page is cross-origin isolated; threads need that too.
        webgpu: Whether there is WebGPU, with an adapter or without.
        cores: Logical processors, if it reports them.
        memory_gib: Memory in GiB; browsers report at most 8, and some none.
    """

    id: str
    page: str
    agent: str
    secure: bool
    isolated: bool
    webgpu: bool = False
    cores: int = 1
    memory_gib: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRun:
    """Times of one input shape in one trial of a remote browser.

    Attributes:
        plan: Id of the plan.
        case: Name of the input shape.
        start_s: Start on the monotonic clock, in seconds.
        end_s: End on the monotonic clock, in seconds.
        latency_ns: Latency of each run, in order.
    """

    plan: str
    case: str
    start_s: float
    end_s: float
    latency_ns: Sequence[int]


def described(hello: Hello) -> Host:
    """Return the host record of a browser's device, with the properties that the browser reports."""
    name = browser_name(hello.agent)
    system = _SYSTEM.search(hello.agent)
    memory_bytes = int(hello.memory_gib * 2**30)
    return Host(
        system=system[1] if system else "",
        machine="browser",
        cpu=f"{name} ({system[1]})" if system else name,
        cores=hello.cores,
        logical=hello.cores,
        affinity=hello.cores,
        effective_cpus=hello.cores,
        memory_bytes=memory_bytes,
        fingerprint=hashlib.sha256(f"{hello.agent} {hello.cores} {memory_bytes}".encode()).hexdigest()[:16],
    )


def browser_name(agent: str) -> str:
    """Return the browser's name and version from its User-Agent."""
    for mark, name in (
        ("Edg/", "Edge"),
        ("Firefox/", "Firefox"),
        ("Chrome/", "Chromium"),
        ("Version/", "Safari"),
    ):
        if mark in agent:
            return f"{name} {agent.partition(mark)[2].partition(' ')[0]}"
    return agent[:80]


def heat(ran: Sequence[CaseRun]) -> float | None:
    """Return the ratio of run times in the last minute to those in the first; None if they would overlap.

    Times are compared within each plan and shape, so the order of trials has no effect.
    """
    if not ran or max(r.end_s for r in ran) - min(r.start_s for r in ran) < 2 * MINUTE_S:
        return None
    first_s, last_s = min(r.start_s for r in ran) + MINUTE_S, max(r.end_s for r in ran) - MINUTE_S
    ratios = []
    for kind in {(r.plan, r.case) for r in ran}:
        mine = [r for r in ran if (r.plan, r.case) == kind]
        early = [median(r.latency_ns) for r in mine if r.end_s <= first_s]
        late = [median(r.latency_ns) for r in mine if r.start_s >= last_s]
        if early and late and median(early) > 0:
            ratios.append(median(late) / median(early))
    return median(ratios) if ratios else None


class Remote:
    """The remote browser of a session: the first that opens the address; others are rejected.

    Args:
        site: The site with the address.
        say: Callback for progress messages.

    Attributes:
        site: The site with the address.
        url: Address to open; it contains the token that grants access.
        hello: The browser's report on itself; None before it connects.
        ran: Times of its trials.
    """

    isolated = True

    def __init__(self, site: Site, say: Callable[[str], None]) -> None:
        self.site, self._say = site, say
        self.hello: Hello | None = None
        self.ran: list[CaseRun] = []
        self._dists: dict[str, Path] = {}
        self._changed = threading.Condition()
        self._version = self._connection = 0
        self._connected = self._over = False
        self._away_since = monotonic.now_s()
        self._loaded = ""  # id of the current or last page
        self._pages: dict[str, str] = {}  # id of the page that contains each frame; "" before any has it
        self.url = site.open(self)

    def timed(self, plan: str, done: TrialDone, start_s: float, end_s: float) -> None:
        """Record the times of a trial, since heating of the device shows only across trials."""
        self.ran += [
            CaseRun(plan=plan, case=case.case, start_s=start_s, end_s=end_s, latency_ns=case.latency_ns)
            for case in done.cases
            if case.latency_ns
        ]

    def wait(self, limit_s: float, stop: Callable[[], bool]) -> bool:
        """Wait until a browser connects; return False if none did, or the session was stopped."""
        until = monotonic.now_s() + limit_s
        with self._changed:
            while not self._connected and monotonic.now_s() < until and not stop():
                self._changed.wait(0.2)
            return self._connected

    def show(self, url: str) -> None:
        """Register a page for the connected browser to open; if it is disconnected, request that the user reopen it."""
        with self._changed:
            self._pages[_path(url)] = ""
            self._touch()
            away = not self._connected
        if away:
            self._say(f"the browser disconnected; open the page there again within {AWAY_S:.0f} s")

    def hide(self, url: str) -> None:
        """Remove a page, so that the browser closes it."""
        with self._changed:
            self._pages.pop(_path(url), None)
            self._touch()

    def lost(self, url: str) -> str:
        """Return the reason why a page was lost or never opened; "" while it may be alive."""
        with self._changed:
            had = self._pages.get(_path(url), "")
            if had and self._connected and had != self._loaded:
                return "the browser disconnected and lost its state"
            # After a screen lock, a page continues once the device is unlocked.
            if not self._connected and monotonic.now_s() > self._away_since + AWAY_S:
                left = "the browser disconnected" if had else "no browser connected"
                return f"{left}, and did not open the page within {AWAY_S:.0f} s"
            return ""

    def builds(self, dist: Path) -> str:
        """Return the address of an onnxruntime-web for all pages that load it, so that the browser compiles it once."""
        # One address per version: the browser caches by address, and two sides may use two versions.
        name = hashlib.sha256(str(dist).encode()).hexdigest()[:16]
        self._dists[name] = dist
        return f"{_path(self.url)}ort/{name}/"

    def close(self) -> None:
        """Notify the browser that the session has ended."""
        with self._changed:
            self._pages.clear()
            self._over = True
            self._touch()
            self._changed.wait_for(lambda: not self._connected, BEAT_S)
        self.site.shut(self.url)

    def _touch(self) -> None:
        self._version += 1
        self._changed.notify_all()

    # --- requests of the browser

    def get(self, path: str, request: Request) -> None:
        """Answer a GET request, by its path below the token."""
        kind, _, rest = path.partition("/")
        if path in ("", "remote.js"):
            request.own(path or "remote.html")
        elif kind == "pages" and (hello := self.hello) and rest == f"{hello.id}/{hello.page}":
            self._tell(request, hello.page)
        elif kind == "ort" and (build := self._build(*rest.partition("/")[::2])):
            request.file(build, keeps=KEEPS)
        else:
            request.answer(404)

    def _build(self, name: str, file: str) -> Path | None:
        return build_of(dist, file) if (dist := self._dists.get(name)) else None

    def takes(self, path: str, size: int, request: Request) -> bool:
        """Return whether the body of a POST request is within the size limit."""
        return size <= MOST_HELLO

    def post(self, path: str, body: bytes, request: Request) -> None:
        """Handle a browser's report on itself; only the first browser is accepted."""
        if path != "hello":
            request.answer(404)
            return
        try:
            hello = msgspec.json.decode(body, type=Hello)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            request.answer(400)
            return
        named = all(re.fullmatch(r"[0-9a-f]{32}", name) for name in (hello.id, hello.page))
        if not named or not 1 <= hello.cores <= 1024 or not 0 <= hello.memory_gib <= 4096:
            request.answer(400)
            return
        with self._changed:
            # A preview of the address also sends a report, but never connects.
            mine = self.hello is None or self.hello.id == hello.id or not self._connection
            if mine:
                self.hello = hello
        request.answer(204 if mine else 409)

    def _tell(self, request: Request, page: str) -> None:
        """Send the list of open pages whenever it changes, and a heartbeat in between."""
        if hasattr(
            socket, "TCP_USER_TIMEOUT"
        ):  # otherwise a device without a network seems connected for a quarter of an hour
            request.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _VANISHED_MS)
        with self._changed:
            # The newest connection counts: a reloaded page connects before the end of its old connection is
            # detected.
            self._connection += 1
            mine, version_sent = self._connection, -1
            self._connected, self._loaded = True, page
            self._changed.notify_all()
        try:
            request.begin(200, "text/event-stream")
            request.wfile.write(b"retry: %d\n\n" % _AGAIN_MS)
            over = False
            while not over and mine == self._connection:
                with self._changed:
                    if version_sent == self._version:
                        self._changed.wait(BEAT_S)
                    news, version_sent, over = version_sent != self._version, self._version, self._over
                    for name in self._pages if news else ():
                        self._pages[name] = self._pages[name] or page
                    # Frames of a page before its reload are omitted, since they ended with it.
                    message = {"pages": [p for p, had in self._pages.items() if had == page], "over": over}
                request.wfile.write(b"data: %s\n\n" % json.dumps(message).encode() if news else b":\n\n")
                request.wfile.flush()
        except OSError:
            pass  # the browser disconnected
        finally:
            with self._changed:
                if mine == self._connection:
                    self._connected, self._away_since = False, monotonic.now_s()
                self._changed.notify_all()


def _path(url: str) -> str:
    """Return the path of a page's address, without the host, since a tunnel may use another."""
    return urlsplit(url).path
