"""The user's own page, watched: what it asks of onnxruntime-web, and what it gets.

The page is loaded as anybody's browser loads it. In its scripts the class InferenceSession is found by a method that no
bundler renames, and told to report what is asked of it; where a bundler has made something else of the class, nothing
is found. All that comes from the page is data.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ortune.errors import RuntimeNotFound, UsageError
from ortune.knobs.web.web_build import build_of_file
from ortune.records import (
    WEB_PROVIDERS,
    PageFile,
    PageModel,
    PageRuns,
    PageSeen,
    PageSession,
    PageTensor,
    PageWeights,
    Plan,
    ProviderSpec,
    Value,
    WatchedPage,
)
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools, DevToolsError, PageEvent, ScriptKind
from ortune.targets.browser.page import fallbacks_of, placement_of
from ortune.targets.browser.remote import browser_name

MOST_MODEL = 512 << 20
MOST_SESSIONS = 50
MOST_LINES = 200_000
MOST_TROUBLE = 20
_PIECE = 2 << 20
_LOAD_S = 60.0
_BEAT_S = 0.1
_SAMPLE_US = 1000
_NO_PAGE = 400  # as servers answer, from here on

_CLASS = re.compile(rb"startProfiling\(\)\s*\{\s*this\.handler\.startProfiling\(\)")
_ENV = re.compile(rb"wasm:\s*\{\s*\},\s*webgl:\s*\{\s*\},\s*webgpu:\s*\{\s*\},\s*versions:\s*\{\s*common:")
_TELLING = ("laced on [", "VerifyEachNodeIsAssignedToAnEp", "kernel not found in registries")
_DIGEST = re.compile(rb"""\sintegrity\s*=\s*(?:"sha[^"]*"|'sha[^']*')""", re.IGNORECASE)
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


class _Said(msgspec.Struct, kw_only=True):
    """Anything that the hook tells."""

    kind: str
    number: int
    url: str = ""
    bytes: int = 0
    ms: float = 0.0
    back: int = 0
    what: str = ""
    file: str = ""
    version: str = ""
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    external: list[PageWeights] = []
    inputs: list[PageTensor] = []
    outputs: list[PageTensor] = []


@dataclass
class _Session:
    """A session while it is watched."""

    context: str
    worker: bool
    number: int
    asked: _Said
    made: _Said | None = None
    error: str = ""
    log: list[str] = field(default_factory=list)
    runs_ms: list[float] = field(default_factory=list)
    first: _Said | None = None
    n_failed: int = 0
    run_error: str = ""
    back_bytes: int = 0
    n_reads: int = 0


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A page and the models that it gave.

    Attributes:
        page: All but its findings.
        models: The file of each session's model that could be read, by the session's place.
    """

    page: WatchedPage
    models: Mapping[int, Path]


def watch(
    url: str,
    *,
    browser: setup.BrowserSetup,
    watch_s: float,
    folder: Path,
    stop: Callable[[], bool],
) -> Watched:
    """Loads a page and watches it.

    Args:
        url: Its address.
        browser: Which browser.
        watch_s: Seconds from its load on.
        folder: Where the browser has its profile and models are put.
        stop: Asked meanwhile; True ends it.

    Raises:
        RuntimeNotFound: There is no browser.
        UsageError: The address cannot be opened, or its server has no page there.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            "is no address of a page", where=f"--page {url}", do="e.g. --page http://localhost:5173"
        )
    return _Watch(folder).go(url, browser, watch_s, stop)


class _Watch:
    """One page while it is watched."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"ortune-{secrets.token_hex(8)}:"
        self.sessions: list[_Session] = []
        self.known: dict[tuple[str, int], _Session] = {}
        self.log: list[str] = []
        self.trouble: list[str] = []
        self.over = False
        self.read_until = 0.0
        kept = f'(globalThis[Symbol.for("{self.mark}")]??={{models:[]}})'
        source = files(__package__).joinpath("hook.js").read_text(encoding="utf-8").rstrip()
        hook = source.replace("= KEPT,", f"= {kept},", 1)
        hook = hook.replace("say(MARK", f'say("{self.mark}"', 1).replace("= MOST,", f"= {MOST_MODEL},", 1)
        self._kept, self._hook = kept.encode(), f"static{{({hook[hook.index('(Inf') :]})(this)}}".encode()

    def go(self, url: str, browser: setup.BrowserSetup, watch_s: float, stop: Callable[[], bool]) -> Watched:
        """From the browser's start to its end."""
        profile = self.folder / "browser"
        given = setup.flags(webgpu=True, webnn=False, headful=browser.headful, profile=profile)
        with (self.folder / "log").open("wb") as log:
            tools = DevTools(
                setup.program(browser), given, environment=setup.environment(), folder=self.folder, log=log,
                happened=self._happened,
            )  # fmt: skip
        try:
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
            began = time.monotonic()
            try:
                tools.navigate(url, _LOAD_S)
            except DevToolsError as error:
                raise UsageError(
                    str(error).removeprefix(f"{url} "),
                    where=f"--page {url}",
                    do="start its server, or mend the address",
                ) from None
            until = time.monotonic() + watch_s
            while time.monotonic() < until and not stop() and not self.over:
                time.sleep(_BEAT_S)
            return self._told(tools, url, time.monotonic() - began)
        finally:
            tools.close()
            setup.tidy(profile)

    # --- while it runs

    def _rewritten(self, kind: ScriptKind, text: bytes) -> bytes | None:
        """The script with the hook in it; None where it has no such class.

        A document is asked to take the changed script: without the digests of what its servers send.
        """
        if kind == "Document":
            found, n = _DIGEST.subn(b"", text)
            return found if n else None
        found, n_env = _ENV.subn(self._env, text)
        found, n_class = _CLASS.subn(lambda match: self._hook + match[0], found)
        return found if n_env + n_class else None

    def _env(self, match: re.Match[bytes]) -> bytes:
        """The environment's literal, whose parts are kept where the hook finds them."""
        kept = self._kept
        return (
            b"wasm:" + kept + b".wasm={},webgl:{},webgpu:" + kept + b".webgpu={},versions:" + kept
            + b".versions={common:"
        )  # fmt: skip

    def _happened(self, event: PageEvent) -> None:
        if event.kind == "console" and event.text.startswith(self.mark):
            try:
                said = msgspec.json.decode(event.text[len(self.mark) :], type=_Said)
            except (msgspec.DecodeError, UnicodeEncodeError):
                return
            self._said(event, said)
        elif event.kind == "console" and any(mark in event.text for mark in _TELLING):
            if len(self.log) < MOST_LINES:
                self.log.append(event.text)
        elif event.kind in ("crash", "gone"):
            self.trouble.append(event.text)
            self.over = True
        elif _is_trouble(event) and len(self.trouble) < MOST_TROUBLE:
            text = _COLOUR.sub("", event.text)[:300]
            self.trouble += [text] if text not in self.trouble else []

    def _said(self, event: PageEvent, said: _Said) -> None:
        key = (event.context, said.number)
        if said.kind == "asked":
            if len(self.sessions) < MOST_SESSIONS:
                made = _Session(context=event.context, worker=event.worker, number=said.number, asked=said)
                self.sessions.append(made)
                self.known[key] = made  # a page that is loaded again counts from the beginning
            return
        session = self.known.get(key)
        if session is None:
            return
        match said.kind:
            case "created":
                session.made, session.log, self.log = said, self.log, []
            case "failed":
                session.error, session.log, self.log = said.what or "it failed", self.log, []
            case "run":
                session.first = session.first or said
                session.runs_ms.append(said.ms)
                session.back_bytes += said.back
            case "run-failed":
                session.n_failed += 1
                session.run_error = session.run_error or said.what
            case "read":
                session.n_reads += 1
                session.back_bytes += said.bytes
            case _:
                pass

    # --- at its end

    def _told(self, tools: DevTools, url: str, watched_s: float) -> Watched:
        self.read_until = time.monotonic() + _LOAD_S
        busy_s, model_s = self._main_thread(tools)
        about: dict[str, Any] = _asked(tools, _ABOUT, "") or {}
        if not self.sessions and int(about.get("status", 0)) >= _NO_PAGE:
            raise UsageError(
                f"its server answers with {about['status']}", where=f"--page {url}", do="mend the address"
            )
        loaded = self._loaded(tools)
        models: dict[int, Path] = {}
        sessions = []
        for place, session in enumerate(self.sessions):
            model = self._model(tools, place, session)
            if (path := self._path(place)).exists():
                models[place] = path
            sessions.append(_record(session, model, about, [f.url for f in loaded]))
        page = WatchedPage(
            url=url,
            seen=PageSeen(
                browser=browser_name(str(about.get("agent", ""))),
                isolated=bool(about.get("isolated")),
                adapter=str(about.get("adapter", "")),
                software=bool(about.get("software")),
                float16=bool(about.get("float16")),
                visible=bool(about.get("visible", True)),
                cpus=int(about.get("cpus", 0)),
            ),
            watched_ns=int(1e9 * watched_s),
            main_thread_ns=int(1e9 * busy_s),
            model_thread_ns=int(1e9 * model_s),
            sessions=tuple(sessions),
            files=tuple(loaded),
            trouble=tuple(self.trouble),
        )
        return Watched(page=page, models=models)

    def _main_thread(self, tools: DevTools) -> tuple[float, float]:
        """Seconds that the page's main thread was at work, and those of them in WebAssembly."""
        try:
            return thread_times(tools.call("Profiler.stop")["profile"])
        except (DevToolsError, KeyError):
            return 0.0, 0.0

    def _loaded(self, tools: DevTools) -> list[PageFile]:
        found: dict[str, int] = {}
        for context in tools.contexts:
            for name, size in _asked(tools, _LOADED, context) or []:
                found[str(name)] = max(int(size), found.get(str(name), 0))
        return [PageFile(url=name, size_bytes=size) for name, size in found.items()]

    def _path(self, place: int) -> Path:
        """Where a session's model is put, its weights beside it."""
        return self.folder / f"model-{place}" / "model"

    def _model(self, tools: DevTools, place: int, session: _Session) -> PageModel:
        """The model and its weights, out of the page: what it was given, or fetched again, as the page itself may."""
        asked = session.asked
        known = PageModel(url=asked.url, size_bytes=asked.bytes, weights=tuple(asked.external))
        if self.known.get((session.context, session.number)) is not session:
            return msgspec.structs.replace(known, error="the page was loaded again since")
        model, what = self._path(place), ""
        found: list[tuple[str, int]] = []
        try:
            found.append(self._read(tools, session, 0, asked.bytes, model, 0))
            for part, weights in enumerate(asked.external, 1):
                what = f"its weights in {weights.path}: "
                path, before = _beside(model, weights.path), sum(size for _, size in found)
                found.append(self._read(tools, session, part, weights.size_bytes, path, before))
        except (DevToolsError, TypeError, ValueError, KeyError, OSError) as error:
            model.unlink(missing_ok=True)
            known = msgspec.structs.replace(known, error=what + str(error).partition("\n")[0][:200])
        if found:
            known = msgspec.structs.replace(known, url=asked.url or found[0][0], size_bytes=found[0][1])
        told = [
            msgspec.structs.replace(each, url=each.url or url, size_bytes=size)
            for each, (url, size) in zip(asked.external, found[1:], strict=False)
        ]
        return msgspec.structs.replace(known, weights=(*told, *asked.external[len(told) :]))

    def _read(
        self, tools: DevTools, session: _Session, part: int, size: int, path: Path, before: int
    ) -> tuple[str, int]:
        """A session's model, or the file of that number with its weights: where it came from, and its bytes.

        Raises:
            DevToolsError: It cannot be read; the words say why.
        """

        def left_s() -> float:
            return self.read_until - time.monotonic()

        if left_s() <= 0:
            raise DevToolsError(f"reading the models took more than {_LOAD_S:.0f} s")
        if before + size > MOST_MODEL:
            raise DevToolsError(f"more than {MOST_MODEL >> 20} MiB are not read")
        kept = f'globalThis[Symbol.for("{self.mark}")]'
        opened = f"{kept}.open({session.number}, {part}, {size})"
        found = tools.evaluate(opened, left_s(), context=session.context)
        url, size = str(found["url"]), int(found["size"])
        if not size:
            raise DevToolsError("its bytes are not in the page any more")
        if before + size > MOST_MODEL:
            raise DevToolsError(f"more than {MOST_MODEL >> 20} MiB are not read")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for at in range(0, size, _PIECE):
                piece = f"{kept}.piece({session.number}, {part}, {at}, {_PIECE})"
                data = tools.evaluate(piece, max(_BEAT_S, left_s()), context=session.context)
                file.write(base64.b64decode(data))
        return url, size


def _beside(model: Path, name: str) -> Path:
    """Where weights are put that a page calls so; the model names them by the same name.

    Raises:
        DevToolsError: That is not beside the model.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise DevToolsError("that is no file beside the model")
    path = model.parent.joinpath(*parts)
    if path == model:
        raise DevToolsError("the model is called so here")
    return path


def thread_times(profile: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds of a sampled profile in which anything ran, and in which WebAssembly was on the stack."""
    parents: dict[int, int] = {}
    frames: dict[int, Mapping[str, Any]] = {}
    for node in profile["nodes"]:
        frames[node["id"]] = node["callFrame"]
        parents.update(dict.fromkeys(node.get("children", ()), node["id"]))

    def in_wasm(node: int) -> bool:
        at: int | None = node
        while at is not None:
            url = frames[at]["url"]
            if url.startswith("wasm:") or url.partition("?")[0].endswith(".wasm"):
                return True
            at = parents.get(at)
        return False

    wasm = {node: in_wasm(node) for node in frames}
    busy_us = model_us = 0
    # Each time lies between the sample before and its own, when the one before was still what ran.
    samples, deltas = profile.get("samples", []), profile.get("timeDeltas", [])
    for node, delta_us in zip(samples, deltas[1:], strict=False):
        if frames[node]["functionName"] in ("(idle)", "(root)"):
            continue
        busy_us += max(0, delta_us)
        model_us += max(0, delta_us) if wasm[node] else 0
    return busy_us / 1e6, model_us / 1e6


def _is_trouble(event: PageEvent) -> bool:
    """Whether something went wrong; the log that was asked for here comes as errors too, and is none."""
    if event.kind == "console":
        return event.level == "warning" or bool(_WRONG.search(event.text))
    return event.level == "error" and "/favicon.ico" not in event.text


def _asked(tools: DevTools, question: str, context: str) -> Any:
    """What a context answers; None where it is gone."""
    try:
        return tools.evaluate(question, context=context)
    except DevToolsError:
        return None


def _ns(ms: float) -> int:
    return max(0, int(1e6 * ms))


def _record(
    session: _Session, model: PageModel, about: Mapping[str, Any], loaded: Sequence[str]
) -> PageSession:
    asked, made, first = session.asked, session.made, session.first
    times = session.runs_ms
    in_force = made.environment if made else {}
    ours = [url for url in loaded if build_of_file(url)]
    file = made.file if made else ""
    if made and not file and len(ours) == 1:  # its worker loaded it
        (file,) = ours
    placement = placement_of(session.log)
    return PageSession(
        worker=session.worker,
        version=made.version if made else "",
        model=model,
        options=asked.options,
        environment=asked.environment,
        in_force=in_force,
        plan=plan_of(
            asked.options,
            asked.environment,
            isolated=about.get("isolated"),
            file=file,
        ),
        placement=placement,
        without_kernel=fallbacks_of(session.log),
        inputs=_tensors(made.inputs if made else (), first.inputs if first else ()),
        outputs=_tensors(made.outputs if made else (), first.outputs if first else ()),
        create_ns=_ns(made.ms) if made else 0,
        runs=PageRuns(
            n=len(times),
            n_failed=session.n_failed,
            first_ns=_ns(times[0]) if times else 0,
            median_ns=_ns(statistics.median(times[1:] or times)) if times else 0,
            longest_ns=_ns(max(times, default=0)),
            total_ns=_ns(sum(times)),
            read_back_bytes=session.back_bytes if any("CPU" not in p.provider for p in placement) else 0,
            n_reads=session.n_reads,
            error=session.run_error,
        ),
        error=session.error or ("" if made else "it had not ended when the watch did"),
    )


def _tensors(declared: Iterable[PageTensor], fed: Iterable[PageTensor]) -> tuple[PageTensor, ...]:
    """Those of the first run, and what else is declared."""
    return tuple({each.name: each for each in (*declared, *fed)}.values())


def plan_of(
    options: Mapping[str, str], environment: Mapping[str, str], *, isolated: bool | None, file: str
) -> Plan:
    """What a page asked for, as ortune's settings; what it left open is left out.

    Args:
        options: Of the session.
        environment: Of onnxruntime-web.
        isolated: Whether the page is cross-origin isolated; None of one that ended before it was asked.
        file: Of WebAssembly that onnxruntime-web loaded; "" where that is not known.
    """
    text = options.get("executionProviders", "")
    asked = _json(text) or text
    listed = asked if isinstance(asked, list) else [asked]
    names = [str(each.get("name", "")) if isinstance(each, dict) else str(each) for each in listed]
    names = [name for name in names if name in WEB_PROVIDERS] or ["wasm"]
    settings: dict[str, Value] = {} if isolated is None else {"web_isolation": isolated}
    build = build_of_file(file)
    if "webgl" in names[:1]:
        settings["web_build"] = "webgl"
    elif build:
        settings["web_build"] = build
    if environment.get("wasm.numThreads", "").isdecimal() and int(environment["wasm.numThreads"]):
        settings["web_threads"] = int(environment["wasm.numThreads"])
    if environment.get("wasm.proxy") == "true":
        settings["web_proxy"] = True
    profiling = _json(environment.get("webgpu.profiling", ""))
    mode = profiling.get("mode") if isinstance(profiling, dict) else environment.get("webgpu.profilingMode")
    if mode:
        settings["web_profiling"] = str(mode)
    if names[0] == "webgpu" and "webgpu" in listed:
        settings["web_provider_form"] = "string"
    if options.get("enableGraphCapture") == "true":
        settings["web_graph_capture"] = True
    if options.get("preferredOutputLocation") == "gpu-buffer":
        settings["web_output_location"] = "gpu-buffer"
    return Plan(settings=settings, providers=tuple(ProviderSpec(name=name) for name in names))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
