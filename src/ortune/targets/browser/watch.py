"""The user's own page, watched: what it asks of onnxruntime-web, and what it gets.

The page is loaded as anybody's browser loads it. In its scripts the class InferenceSession is found by a method that no
bundler renames, and told to report what is asked of it; where a bundler has made something else of the class, nothing
is found. All that comes from the page is data.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ortune import monotonic, providers, temporary
from ortune.errors import RuntimeNotFound, UsageError
from ortune.knobs.web.web_build import build_of_file
from ortune.providers.web_wasm import PROVIDER as WASM
from ortune.providers.web_webgpu import PROVIDER as WEBGPU
from ortune.records import (
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
from ortune.targets.browser.devtools import DevTools, DevToolsError, PageEvent, ScriptKind, without_halves
from ortune.targets.browser.page_report import fallbacks_of, placement_of
from ortune.targets.browser.remote import browser_name

MOST_MODEL = 512 << 20
MOST_SESSIONS = 50
MOST_FILES = 200
MOST_LINES = 200_000
MOST_TROUBLE = 20
MOST_RUNS = 200_000
MOST_TEXT = 1 << 20
_LONGEST_LINE = 4_000
_MOST_NS = 1 << 62
_PIECE = 2 << 20
BESIDES_S = 30.0
"""Beyond the time of watching: the browser's start and end, the page's load, and the reading of models."""
_LOAD_S, _END_S = 14.0, 9.0  # of these the start with the load, and what comes after the reading
_ASKED_S = 3.0
_BEAT_S = 0.1
_SAMPLE_US = 1000
_NO_PAGE = 400  # as servers answer, from here on

_CLASS = re.compile(rb"startProfiling\(\)\s*\{\s*this\.handler\.startProfiling\(\)")
_ENV = re.compile(rb"wasm:\s*\{\s*\},\s*webgl:\s*\{\s*\},\s*webgpu:\s*\{\s*\},\s*versions:\s*\{\s*common:")
_TELLING = ("laced on [", "VerifyEachNodeIsAssignedToAnEp", "kernel not found in registries")
_DIGEST = re.compile(
    rb"""\sintegrity\s{0,9}=\s{0,9}(?:"sha[^"]{0,999}"|'sha[^']{0,999}')""", re.IGNORECASE
)  # no document takes longer than its length
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


_MANY = msgspec.Meta(max_length=2000)  # more than the hook tells
_Words = Annotated[str, msgspec.Meta(max_length=1000)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_Ms = Annotated[float, msgspec.Meta(ge=0, le=1e8)]


class _Weights(PageWeights, frozen=True, kw_only=True):
    """A file with weights, as a page tells of it."""

    size_bytes: _Bytes = 0


class _Said(msgspec.Struct, kw_only=True):
    """Anything that the hook tells; a page may tell what it likes in its name."""

    kind: str
    number: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    url: str = ""
    bytes: _Bytes = 0
    ms: _Ms = 0.0
    back: _Bytes = 0
    what: str = ""
    file: str = ""
    version: str = ""
    options: dict[str, str] = {}
    environment: dict[str, str] = {}
    external: Annotated[list[_Weights], _MANY] = []
    inputs: Annotated[list[PageTensor], _MANY] = []
    outputs: Annotated[list[PageTensor], _MANY] = []


class _About(msgspec.Struct, kw_only=True):
    """What the page answers of its browser."""

    status: Annotated[int, msgspec.Meta(ge=0, le=999)] = 0
    isolated: bool | None = None
    agent: _Words = ""
    cpus: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] = 0
    adapter: _Words = ""
    software: bool = False
    float16: bool = False
    visible: bool = True


class _Open(msgspec.Struct, kw_only=True):
    """A file that is read out of the page."""

    url: Annotated[str, msgspec.Meta(max_length=_LONGEST_LINE)]
    size: _Bytes


_Loaded = tuple[Annotated[str, msgspec.Meta(max_length=_LONGEST_LINE)], _Bytes]
_Known = TypeVar("_Known")


@dataclass
class _Session:
    """A session while it is watched."""

    context: str
    worker: bool
    number: int
    asked: _Said
    created: _Said | None = None
    error: str = ""
    log: list[str] = field(default_factory=list)
    runs_ms: list[float] = field(default_factory=list)  # of the first so many
    n_runs: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0
    first: _Said | None = None
    n_failed: int = 0
    run_error: str = ""
    back_bytes: int = 0
    n_reads: int = 0

    def ran(self, ms: float) -> None:
        """Counts a run."""
        self.n_runs, self.total_ms, self.longest_ms = (
            self.n_runs + 1, self.total_ms + ms, max(self.longest_ms, ms),
        )  # fmt: skip
        if len(self.runs_ms) < MOST_RUNS:
            self.runs_ms.append(ms)


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
    until: float,
    folder: Path,
    stop: Callable[[], bool],
) -> Watched:
    """Loads a page and watches it.

    Args:
        url: Its address.
        browser: Which browser.
        watch_s: Seconds from its load on.
        until: By ``monotonic.now_s``, when all must be over; ``BESIDES_S`` beyond the time of watching.
        folder: Where the browser has its profile and models are put.
        stop: Asked meanwhile; True ends it.

    Raises:
        RuntimeNotFound: There is no browser.
        UsageError: The address cannot be opened, or its server has no page there.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(
            "is not a URL", where=f"--page {url}", do="use --page http://localhost:5173, for example"
        )
    return _Watch(folder, until - _END_S).go(url, browser, watch_s, stop)


class _Watch:
    """One page while it is watched."""

    def __init__(self, folder: Path, until: float) -> None:
        self.folder, self.until = folder, until
        self.mark = f"ortune-{secrets.token_hex(8)}:"
        self.sessions: list[_Session] = []
        self.session_of: dict[tuple[str, int], _Session] = {}
        self.log: list[str] = []
        self.trouble: list[str] = []
        self.over = False
        kept = f'(globalThis[Symbol.for("{self.mark}")]??={{models:[]}})'
        source = files(__package__).joinpath("hook.js").read_text(encoding="utf-8").rstrip()
        hook = source.replace("= KEPT,", f"= {kept},", 1)
        hook = hook.replace("say(MARK", f'say("{self.mark}"', 1).replace("= MOST,", f"= {MOST_MODEL},", 1)
        self._kept, self._hook = kept.encode(), f"static{{({hook[hook.index('(Inf') :]})(this)}}".encode()

    def go(self, url: str, browser: setup.BrowserSetup, watch_s: float, stop: Callable[[], bool]) -> Watched:
        """From the browser's start to its end."""
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
                    where=f"--page {url}",
                    do="start its server, or correct the URL",
                ) from None
            if not loaded:
                self.trouble.append(f"it did not load within {monotonic.now_s() - began:.0f} s")
            tools.deadline = self.until
            end = min(monotonic.now_s() + watch_s, self.until)
            while monotonic.now_s() < end and not stop() and not self.over:
                time.sleep(_BEAT_S)
            return self._watched(tools, url, monotonic.now_s() - began)
        finally:
            tools.close()
            temporary.remove_sockets(profile)

    # --- while it runs

    def _rewritten(self, kind: ScriptKind, text: bytes) -> bytes | None:
        """The script with the hook in it; None where it has no such class.

        A document is asked to take the changed script: without the digests of what its servers send.
        """
        if kind == "Document":
            changed, n = _DIGEST.subn(b"", text)
            return changed if n else None
        changed, n_env = _ENV.subn(self._env, text)
        changed, n_class = _CLASS.subn(lambda match: self._hook + match[0], changed)
        return changed if n_env + n_class else None

    def _env(self, match: re.Match[bytes]) -> bytes:
        """The environment's literal, whose parts are kept where the hook finds them."""
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
                said = msgspec.json.decode(without_halves(event.text[len(self.mark) :].encode()), type=_Said)
            except (msgspec.DecodeError, RecursionError):
                return
            self._said(event, said)
        elif event.kind == "console" and any(mark in event.text for mark in _TELLING):
            if len(self.log) < MOST_LINES:
                self.log.append(event.text[:_LONGEST_LINE])
        elif event.kind in ("crash", "gone"):
            self.trouble.append(event.text)
            self.over = True
        elif _is_trouble(event) and len(self.trouble) < MOST_TROUBLE:
            text = _COLOUR.sub("", event.text[:_LONGEST_LINE])[:300]
            self.trouble += [text] if text not in self.trouble else []

    def _said(self, event: PageEvent, said: _Said) -> None:
        key = (event.context, said.number)
        if said.kind == "asked":
            if len(self.sessions) < MOST_SESSIONS:
                new = _Session(context=event.context, worker=event.worker, number=said.number, asked=said)
                self.sessions.append(new)
                self.session_of[key] = new  # a page that is loaded again counts from the beginning
            return
        session = self.session_of.get(key)
        if session is None:
            return
        match said.kind:
            case "created":
                session.created, session.log, self.log = said, self.log, []
            case "failed":
                session.error, session.log, self.log = said.what or "it failed", self.log, []
            case "run":
                session.first = session.first or said
                session.ran(said.ms)
                session.back_bytes = min(_MOST_NS, session.back_bytes + said.back)
            case "run-failed":
                session.n_failed += 1
                session.run_error = session.run_error or said.what
            case "read":
                session.n_reads += 1
                session.back_bytes = min(_MOST_NS, session.back_bytes + said.bytes)
            case _:
                pass

    # --- at its end

    def _watched(self, tools: DevTools, url: str, watched_s: float) -> Watched:
        busy_s, model_s = self._main_thread(tools)
        about = _asked(tools, _ABOUT, "", _ASKED_S, _About) or _About()
        if not self.sessions and about.status >= _NO_PAGE:
            raise UsageError(
                f"the server responds with {about.status}", where=f"--page {url}", do="correct the URL"
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
            trouble=tuple(self.trouble),
        )
        return Watched(page=page, models=models)

    def _main_thread(self, tools: DevTools) -> tuple[float, float]:
        """Seconds that the page's main thread was at work, and those of them in WebAssembly."""
        try:
            return thread_times(tools.call("Profiler.stop", 2 * _ASKED_S)["profile"])
        except (DevToolsError, KeyError):
            return 0.0, 0.0

    def _loaded(self, tools: DevTools) -> list[PageFile]:
        sizes: dict[str, int] = {}
        until = monotonic.now_s() + _ASKED_S
        for context in tools.contexts:
            limit_s = (
                until - monotonic.now_s()
            ) / 2  # one that does not answer leaves the others their share
            for entry in _asked(tools, _LOADED, context, limit_s, list[Any]) or []:
                with contextlib.suppress(msgspec.ValidationError):
                    name, size = msgspec.convert(entry, _Loaded)
                    if name in sizes or len(sizes) < MOST_FILES:
                        sizes[name] = max(size, sizes.get(name, 0))
        return [PageFile(url=name, size_bytes=size) for name, size in sizes.items()]

    def _path(self, place: int) -> Path:
        """Where a session's model is put, its weights beside it."""
        return self.folder / f"model-{place}" / "model"

    def _model(self, tools: DevTools, place: int, session: _Session) -> PageModel:
        """The model and its weights, out of the page: what it was given, or fetched again, as the page itself may."""
        asked = session.asked
        beside = tuple(PageWeights(path=w.path, url=w.url, size_bytes=w.size_bytes) for w in asked.external)
        result = PageModel(url=asked.url, size_bytes=asked.bytes, weights=beside)
        if self.session_of.get((session.context, session.number)) is not session:
            return msgspec.structs.replace(result, error="the page was loaded again since")
        model, what = self._path(place), ""
        parts: list[tuple[str, int]] = []
        try:
            parts.append(self._read(tools, session, 0, asked.bytes, model, 0))
            for part, weights in enumerate(beside, 1):
                what = f"its weights in {weights.path}: "
                path, before = _beside(model, weights.path), sum(size for _, size in parts)
                parts.append(self._read(tools, session, part, weights.size_bytes, path, before))
        except (DevToolsError, TypeError, ValueError, KeyError, OSError) as error:
            model.unlink(missing_ok=True)
            result = msgspec.structs.replace(result, error=what + str(error).partition("\n")[0][:200])
        if parts:
            result = msgspec.structs.replace(result, url=asked.url or parts[0][0], size_bytes=parts[0][1])
        weights_now = [
            msgspec.structs.replace(file, url=file.url or url, size_bytes=size)
            for file, (url, size) in zip(beside, parts[1:], strict=False)
        ]
        return msgspec.structs.replace(result, weights=(*weights_now, *beside[len(weights_now) :]))

    def _read(
        self, tools: DevTools, session: _Session, part: int, size: int, path: Path, before: int
    ) -> tuple[str, int]:
        """A session's model, or the file of that number with its weights: where it came from, and its bytes.

        Raises:
            DevToolsError: It cannot be read; the words say why.
        """
        if before + size > MOST_MODEL:
            raise DevToolsError(f"larger than {MOST_MODEL >> 20} MiB, so not read")
        kept = f'globalThis[Symbol.for("{self.mark}")]'
        opened = f"{kept}.open({session.number}, {part}, {size})"
        file = msgspec.convert(self._answer(tools, opened, session.context), _Open)
        if not file.size:
            raise DevToolsError("its bytes are no longer in the page")
        if before + file.size > MOST_MODEL:
            raise DevToolsError(f"larger than {MOST_MODEL >> 20} MiB, so not read")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as out:
            for at in range(0, file.size, _PIECE):
                piece = f"{kept}.piece({session.number}, {part}, {at}, {_PIECE})"
                data = base64.b64decode(self._answer(tools, piece, session.context))
                if len(data) != min(_PIECE, file.size - at):
                    raise DevToolsError("its bytes are no longer in the page")
                out.write(data)
        return file.url, file.size

    def _answer(self, tools: DevTools, question: str, context: str) -> Any:
        """What the page answers while its models are read; where it does not, others are left half of the time."""
        left_s = self.until - monotonic.now_s()
        if left_s <= 0:
            raise DevToolsError("no time left to read it")
        return tools.evaluate(question, left_s / 2, context=context)


def _beside(model: Path, name: str) -> Path:
    """Where weights are put that a page calls so; the model names them by the same name.

    Raises:
        DevToolsError: That is not beside the model.
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name or "\\" in name:
        raise DevToolsError("not a file in the model's folder")
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


def _asked(tools: DevTools, question: str, context: str, limit_s: float, kind: type[_Known]) -> _Known | None:
    """What a context answers; None where it is gone, is at work all the time, or answers with something else."""
    try:
        return msgspec.convert(tools.evaluate(question, limit_s, context=context), kind)
    except (DevToolsError, msgspec.ValidationError):
        return None


def _ns(ms: float) -> int:
    return min(_MOST_NS, int(1e6 * ms))


def _record(session: _Session, model: PageModel, about: _About, loaded: Sequence[str]) -> PageSession:
    asked, created, first = session.asked, session.created, session.first
    times = session.runs_ms
    in_force = created.environment if created else {}
    ours = [url for url in loaded if build_of_file(url)]
    file = created.file if created else ""
    if created and not file and len(ours) == 1:  # its worker loaded it
        (file,) = ours
    placement = placement_of(session.log)
    return PageSession(
        worker=session.worker,
        version=created.version if created else "",
        model=model,
        options=asked.options,
        environment=asked.environment,
        in_force=in_force,
        plan=plan_of(
            asked.options,
            asked.environment,
            isolated=about.isolated,
            file=file,
        ),
        placement=placement,
        without_kernel=fallbacks_of(session.log),
        inputs=_tensors(created.inputs if created else (), first.inputs if first else ()),
        outputs=_tensors(created.outputs if created else (), first.outputs if first else ()),
        create_ns=_ns(created.ms) if created else 0,
        runs=PageRuns(
            n=session.n_runs,
            n_failed=session.n_failed,
            first_ns=_ns(times[0]) if times else 0,
            median_ns=_ns(statistics.median(times[1:] or times)) if times else 0,
            longest_ns=_ns(session.longest_ms),
            total_ns=_ns(session.total_ms),
            read_back_bytes=session.back_bytes if any("CPU" not in p.provider for p in placement) else 0,
            n_reads=session.n_reads,
            error=session.run_error,
        ),
        error=session.error or ("" if created else "still running when the observation ended"),
    )


def _tensors(declared: Iterable[PageTensor], fed: Iterable[PageTensor]) -> tuple[PageTensor, ...]:
    """Those of the first run, and what else is declared."""
    return tuple({tensor.name: tensor for tensor in (*declared, *fed)}.values())


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
    names = [
        str(provider.get("name", "")) if isinstance(provider, dict) else str(provider) for provider in listed
    ]
    names = list(dict.fromkeys(name for name in names if providers.find(name).in_page)) or [WASM.name]
    settings: dict[str, Value] = {} if isolated is None else {"web_isolation": isolated}
    builds = providers.find(names[0]).web_builds
    if build := builds[0] if len(builds) == 1 else build_of_file(file):
        settings["web_build"] = build
    if re.fullmatch("[1-9][0-9]{0,3}", threads := environment.get("wasm.numThreads", "")):
        settings["web_threads"] = int(threads)
    if environment.get("wasm.proxy") == "true":
        settings["web_proxy"] = True
    profiling = _json(environment.get("webgpu.profiling", ""))
    mode = profiling.get("mode") if isinstance(profiling, dict) else environment.get("webgpu.profilingMode")
    if mode:
        settings["web_profiling"] = str(mode)[:20]
    if names[0] == WEBGPU.name and WEBGPU.name in listed:
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
