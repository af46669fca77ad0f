"""Observation of the user's page: its calls of onnxruntime-web, and their results.

The page is loaded as in any browser. In its scripts the class InferenceSession is located by a method that no bundler
renames, and instrumented to report its calls; if a bundler has transformed the class, nothing is found. All reports of
the page are untrusted data.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ortune import monotonic, temporary
from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.errors import RuntimeNotFound, UsageError
from ortune.printable import without_password
from ortune.records import (
    PageFile,
    PageSeen,
    WatchedPage,
)
from ortune.targets.browser import setup, watched_model
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError, PageEvent, without_halves
from ortune.targets.browser.remote import browser_name
from ortune.targets.browser.waiting_scripts import ScriptKind
from ortune.targets.browser.watched_model import PageModels
from ortune.targets.browser.watched_session import (
    LONGEST_LINE,
    MOST_NS,
    BrowserFacts,
    HookMessage,
    LoadedFile,
    WatchedSession,
    session_record,
    thread_times,
)

MOST_SESSIONS = 50
MOST_FILES = 200
MOST_LINES = 200_000
MOST_TROUBLE = 20
MOST_TEXT = 1 << 20
BESIDES_S = 30.0
"""Seconds in addition to the observation: start and end of the browser, loading of the page, and reading of models."""
_LOAD_S, _END_S = 14.0, 9.0  # of these, for start and load, and for the steps after reading the models
_ASKED_S = 3.0
_BEAT_S = 0.1
_SAMPLE_US = 1000
_NO_PAGE = 400  # lowest HTTP status of an error

_CLASS = re.compile(rb"startProfiling\(\)\s*\{\s*this\.handler\.startProfiling\(\)")
_ENV = re.compile(rb"wasm:\s*\{\s*\},\s*webgl:\s*\{\s*\},\s*webgpu:\s*\{\s*\},\s*versions:\s*\{\s*common:")
_TELLING = ("laced on [", "VerifyEachNodeIsAssignedToAnEp", "kernel not found in registries")
_DIGEST = re.compile(
    rb"""\sintegrity\s{0,9}=\s{0,9}(?:"sha[^"]{0,999}"|'sha[^']{0,999}')""", re.IGNORECASE
)  # bounded repetitions: the time is linear in the length of a document
_WRONG = re.compile(r"\[[WEF]:onnxruntime:|^wasm streaming compile failed")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_ABOUT = """(async () => {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null), info = adapter?.info ?? {};
  return {
    status: performance.getEntriesByType("navigation")[0]?.responseStatus ?? 0,
    isolated: Boolean(globalThis.crossOriginIsolated), agent: navigator.userAgent,
    cpus: navigator.hardwareConcurrency ?? 0,
    adapter: [info.vendor, info.architecture, info.description].filter(Boolean).join(" "),
    software: Boolean(adapter && (adapter.isFallbackAdapter ?? info.isFallbackAdapter)),
    float16: Boolean(adapter?.features.has("shader-f16")), visible: globalThis.document?.visibilityState === "visible",
  };
})()"""
_LOADED = (
    "performance.getEntriesByType('resource')"
    ".filter(({ name, responseStatus }) => /\\.wasm([?#]|$)/.test(name) && !(responseStatus >= 400))"
    ".map(({ name, decodedBodySize }) => [name, decodedBodySize])"
)


_Known = TypeVar("_Known")


@dataclass(frozen=True, kw_only=True)
class PageRecord:
    """Record of an observed page, and the models read from it.

    Attributes:
        page: The record, without findings.
        models: Files of the models that could be read, by index of the session.
    """

    page: WatchedPage
    models: Mapping[int, Path]


def watch(
    url: str,
    *,
    browser: setup.BrowserSetup,
    watch_s: float,
    until: float,
    folder: Path,
    stop: Callable[[], bool],
) -> PageRecord:
    """Load a page and observe it.

    Args:
        url: Address of the page.
        browser: The user's options for the browser.
        watch_s: Seconds of observation after the page has loaded.
        until: Time limit by ``monotonic.now_s``, ``BESIDES_S`` after the observation.
        folder: Folder for the browser's profile and the models.
        stop: Callback that is polled; True ends the observation.

    Raises:
        RuntimeNotFound: No browser is installed.
        UsageError: The address cannot be opened, or the server responds with an error.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            "is not a URL",
            where=f"--page {without_password(url)}",
            do="use --page http://localhost:5173, for example",
        )
    return _Watch(folder, until - _END_S).go(url, browser, watch_s, stop)


class _Watch:
    """The observation of one page."""

    def __init__(self, folder: Path, until: float) -> None:
        self.folder, self.until = folder, until
        self.mark = f"ortune-{secrets.token_hex(8)}:"
        self.sessions: list[WatchedSession] = []
        self.session_of: dict[tuple[str, int], WatchedSession] = {}
        self.log: list[str] = []
        self.trouble: list[str] = []
        self.over = False
        self.heaps: tuple[int, ...] = ()
        kept = f'(globalThis[Symbol.for("{self.mark}")]??={{models:[]}})'
        # The hook is a file of plain JavaScript; its three constants are set here.
        source = files(__package__).joinpath("hook.js").read_text(encoding="utf-8").rstrip()
        hook = source.replace("= KEPT,", f"= {kept},", 1)
        hook = hook.replace("say(MARK", f'say("{self.mark}"', 1).replace(
            "= MOST,", f"= {watched_model.MOST_MODEL},", 1
        )
        counters = files(__package__).joinpath("counters.js").read_text(encoding="utf-8").rstrip().rstrip(";")
        hook = hook.replace("(COUNTERS)", f"({counters[counters.index('() =>') :]})", 1)
        # A static block runs while the class is defined, before its first use.
        self._kept, self._hook = kept.encode(), f"static{{({hook[hook.index('(Inf') :]})(this)}}".encode()

    def go(
        self, url: str, browser: setup.BrowserSetup, watch_s: float, stop: Callable[[], bool]
    ) -> PageRecord:
        """Run the browser and observe the page; only the browser receives the password of the address."""
        shown = without_password(url)
        profile = self.folder / "browser"
        flags = setup.flags(WEBGPU.browser_flags, headful=browser.headful, profile=profile)
        with (self.folder / "log").open("wb") as log:
            tools = DevTools(
                setup.program(browser), flags, environment=setup.environment(self.folder), folder=self.folder, log=log,
                happened=self._happened,
            )  # fmt: skip
        try:
            tools.deadline = monotonic.now_s() + _LOAD_S
            try:
                tools.attach(rewrite=self._rewritten)
                tools.call(
                    "Page.addScriptToEvaluateOnNewDocument",
                    source="performance.setResourceTimingBufferSize(5000)",
                )
                tools.call("Profiler.enable")
                tools.call("Profiler.setSamplingInterval", interval=_SAMPLE_US)
                tools.call("Profiler.start")
            except DevToolsError as error:
                raise RuntimeNotFound(f"the browser cannot be used: {error}", do="--browser PATH") from error
            began = monotonic.now_s()
            try:
                loaded = tools.navigate(url, _LOAD_S)
            except DevToolsError as error:
                raise UsageError(
                    str(error).removeprefix(f"{url} "),
                    where=f"--page {shown}",
                    do="start its server, or correct the URL",
                ) from None
            if not loaded:
                self.trouble.append(f"it did not load within {monotonic.now_s() - began:.0f} s")
            tools.deadline = self.until
            end = min(monotonic.now_s() + watch_s, self.until)
            heaps: list[int] = []
            while monotonic.now_s() < end and not stop() and not self.over:
                time.sleep(_BEAT_S)
                if not heaps and any(session.n_runs for session in self.sessions):
                    heaps.append(_heap_bytes(tools))
            self.heaps = (*heaps, _heap_bytes(tools)) if heaps else ()
            return self._watched(tools, shown, monotonic.now_s() - began)
        finally:
            tools.close()
            temporary.remove_sockets(profile)

    # --- during the observation

    def _rewritten(self, kind: ScriptKind, text: bytes) -> bytes | None:
        """Return a script with the hook inserted, or a document without the digests of its scripts; None if unchanged.

        Without the digests, the browser accepts the changed scripts.
        """
        if kind == "Document":
            changed, n = _DIGEST.subn(b"", text)
            return changed if n else None
        changed, n_env = _ENV.subn(self._env, text)
        changed, n_class = _CLASS.subn(lambda match: self._hook + match[0], changed)
        return changed if n_env + n_class else None

    def _env(self, match: re.Match[bytes]) -> bytes:
        """Return the environment's literal with its parts assigned to properties that the hook reads."""
        kept = self._kept
        return (
            b"wasm:" + kept + b".wasm={},webgl:{},webgpu:" + kept + b".webgpu={},versions:" + kept
            + b".versions={common:"
        )  # fmt: skip

    def _happened(self, event: PageEvent) -> None:
        if event.kind == "console" and event.text.startswith(self.mark):
            if len(event.text) > MOST_TEXT:
                return
            try:
                said = msgspec.json.decode(
                    without_halves(event.text[len(self.mark) :].encode()), type=HookMessage
                )
            except (msgspec.DecodeError, RecursionError):
                return
            self._said(event, said)
        elif event.kind == "console" and any(mark in event.text for mark in _TELLING):
            if len(self.log) < MOST_LINES:
                self.log.append(event.text[:LONGEST_LINE])
        elif event.kind in ("crash", "gone"):
            self.trouble.append(event.text)
            self.over = True
        elif _is_trouble(event) and len(self.trouble) < MOST_TROUBLE:
            text = _COLOUR.sub("", event.text[:LONGEST_LINE])[:300]
            self.trouble += [text] if text not in self.trouble else []

    def _said(self, event: PageEvent, said: HookMessage) -> None:
        key = (event.context, said.number)
        if said.kind == "asked":
            if len(self.sessions) < MOST_SESSIONS:
                new = WatchedSession(
                    context=event.context, worker=event.worker, number=said.number, asked=said
                )
                self.sessions.append(new)
                if key in self.session_of:  # a reloaded page numbers its sessions from 0
                    self.session_of[key].replaced = True
                self.session_of[key] = new
            return
        session = self.session_of.get(key)
        if session is None:
            return
        match said.kind:
            case "created":
                # Lines logged until now are attributed to this session.
                session.created, session.log, self.log = said, self.log, []
            case "failed":
                session.error, session.log, self.log = said.what or "it failed", self.log, []
            case "run":
                session.first = session.first or said
                session.last = said
                session.ran(said.ms)
                session.back_bytes = min(MOST_NS, session.back_bytes + said.back)
            case "run-failed":
                session.n_failed += 1
                session.run_error = session.run_error or said.what
            case "read":
                session.n_reads += 1
                session.back_bytes = min(MOST_NS, session.back_bytes + said.bytes)
            case _:
                pass

    # --- after the observation

    def _watched(self, tools: DevTools, url: str, watched_s: float) -> PageRecord:
        busy_s, model_s = self._main_thread(tools)
        about = _evaluate(tools, _ABOUT, "", _ASKED_S, BrowserFacts) or BrowserFacts()
        if not self.sessions and about.status >= _NO_PAGE:
            raise UsageError(
                f"the server responds with {about.status}", where=f"--page {url}", do="correct the URL"
            )
        loaded = self._loaded(tools)
        models: dict[int, Path] = {}
        sessions = []
        reader = PageModels(tools, f'globalThis[Symbol.for("{self.mark}")]', self.until)
        for place, session in enumerate(self.sessions):
            path = self.folder / f"model-{place}" / "model"
            model = reader.read(session, path)
            if path.exists():
                models[place] = path
            sessions.append(session_record(session, model, about, [f.url for f in loaded]))
        page = WatchedPage(
            url=url,
            seen=PageSeen(
                browser=browser_name(about.agent),
                isolated=bool(about.isolated),
                adapter=about.adapter,
                software=about.software,
                float16=about.float16,
                visible=about.visible,
                cpus=about.cpus,
            ),
            watched_ns=int(1e9 * watched_s),
            main_thread_ns=int(1e9 * busy_s),
            model_thread_ns=int(1e9 * model_s),
            sessions=tuple(sessions),
            files=tuple(loaded),
            heap_bytes=self.heaps,
            trouble=tuple(self.trouble),
        )
        return PageRecord(page=page, models=models)

    def _main_thread(self, tools: DevTools) -> tuple[float, float]:
        """Return the seconds of activity of the page's main thread, and the part in WebAssembly; zeros if unknown."""
        try:
            return thread_times(tools.call("Profiler.stop", 2 * _ASKED_S)["profile"])
        except (DevToolsError, KeyError):
            return 0.0, 0.0

    def _loaded(self, tools: DevTools) -> list[PageFile]:
        sizes: dict[str, int] = {}
        until = monotonic.now_s() + _ASKED_S
        for context in tools.contexts:
            limit_s = (until - monotonic.now_s()) / 2  # an unresponsive context leaves time for the others
            for entry in _evaluate(tools, _LOADED, context, limit_s, list[Any]) or []:
                with contextlib.suppress(msgspec.ValidationError):
                    name, size = msgspec.convert(entry, LoadedFile)
                    if name in sizes or len(sizes) < MOST_FILES:
                        sizes[name] = max(size, sizes.get(name, 0))
        return [PageFile(url=without_password(name), size_bytes=size) for name, size in sizes.items()]


def _heap_bytes(tools: DevTools) -> int:
    """Return the bytes of the page's JavaScript heap and its arrays, after a collection of garbage; 0 if unknown."""
    try:
        return tools.heap_bytes(_ASKED_S)
    except DevToolsError:
        return 0


def _is_trouble(event: PageEvent) -> bool:
    """Return whether an event reports an error; ONNX Runtime's verbose log, which arrives as errors, does not count."""
    if event.kind == "console":
        return event.level == "warning" or bool(_WRONG.search(event.text))
    return event.level == "error" and "/favicon.ico" not in event.text


def _evaluate(
    tools: DevTools, question: str, context: str, limit_s: float, kind: type[_Known]
) -> _Known | None:
    """Return the value of an expression in a context; None if the context ended, is busy, or the value is invalid."""
    try:
        return msgspec.convert(tools.evaluate(question, limit_s, context=context), kind)
    except (DevToolsError, msgspec.ValidationError):
        return None
