"""A session of onnxruntime-web in the user's page: the hook's reports, and the record derived from them."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import msgspec

from ortune.catalogue import providers
from ortune.catalogue.computed.web_build import build_of_file
from ortune.catalogue.providers import WEB_WASM as WASM
from ortune.catalogue.providers import WEB_WEBGPU as WEBGPU
from ortune.records import (
    PageMemory,
    PageModel,
    PageOutput,
    PageRuns,
    PageSession,
    PageTensor,
    PageWeights,
    Plan,
    ProviderSpec,
    Value,
)
from ortune.targets.browser.page_report import fallbacks_of, placement_of

MOST_RUNS = 200_000
LONGEST_LINE = 4_000
MOST_NS = 1 << 62
_MANY = msgspec.Meta(max_length=2000)  # the hook reports fewer
_Words = Annotated[str, msgspec.Meta(max_length=1000)]
_Bytes = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
_Ms = Annotated[float, msgspec.Meta(ge=0, le=1e8)]


class _Weights(PageWeights, frozen=True, kw_only=True):
    """A weights file reported by a page."""

    size_bytes: _Bytes = 0


class _Held(PageOutput, frozen=True, kw_only=True):
    """Number and size of one output's tensors on the GPU, as a page reports them."""

    made: _Bytes = 0
    disposed: _Bytes = 0
    size_bytes: _Bytes = 0


class _Memory(msgspec.Struct, kw_only=True):
    """A page's report on its memory."""

    wasm: _Bytes = 0
    gpu: _Bytes = 0
    buffers: _Bytes = 0

    def record(self) -> PageMemory:
        return PageMemory(wasm_bytes=self.wasm, gpu_bytes=self.gpu, gpu_buffers=self.buffers)


class HookMessage(msgspec.Struct, kw_only=True):
    """A report of the hook in the page; untrusted, since the page can forge it."""

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
    device: Annotated[list[_Held], _MANY] = []
    memory: _Memory | None = None


class BrowserFacts(msgspec.Struct, kw_only=True):
    """The page's report on its browser."""

    status: Annotated[int, msgspec.Meta(ge=0, le=999)] = 0
    isolated: bool | None = None
    agent: _Words = ""
    cpus: Annotated[int, msgspec.Meta(ge=0, le=1 << 16)] = 0
    adapter: _Words = ""
    software: bool = False
    float16: bool = False
    visible: bool = True


LoadedFile = tuple[Annotated[str, msgspec.Meta(max_length=LONGEST_LINE)], _Bytes]


@dataclass
class WatchedSession:
    """An observed session, updated with each report of the hook."""

    context: str
    worker: bool
    number: int
    asked: HookMessage
    replaced: bool = False  # by a session with the same number, after a reload of the page
    created: HookMessage | None = None
    error: str = ""
    log: list[str] = field(default_factory=list)
    runs_ms: list[float] = field(default_factory=list)  # of the first ``MOST_RUNS``
    n_runs: int = 0
    total_ms: float = 0.0
    longest_ms: float = 0.0
    first: HookMessage | None = None
    last: HookMessage | None = None
    n_failed: int = 0
    run_error: str = ""
    back_bytes: int = 0
    n_reads: int = 0

    def ran(self, ms: float) -> None:
        """Record the duration of a run."""
        self.n_runs, self.total_ms, self.longest_ms = (
            self.n_runs + 1, self.total_ms + ms, max(self.longest_ms, ms),
        )  # fmt: skip
        if len(self.runs_ms) < MOST_RUNS:
            self.runs_ms.append(ms)


def thread_times(profile: Mapping[str, Any]) -> tuple[float, float]:
    """Return the active seconds of a sampled profile, and the part with WebAssembly on the stack."""
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
    # Each difference is the time from the previous sample to its own, in which the previous one was running.
    samples, deltas = profile.get("samples", []), profile.get("timeDeltas", [])
    for node, delta_us in zip(samples, deltas[1:], strict=False):
        if frames[node]["functionName"] in ("(idle)", "(root)"):
            continue
        busy_us += max(0, delta_us)
        model_us += max(0, delta_us) if wasm[node] else 0
    return busy_us / 1e6, model_us / 1e6


def _ns(ms: float) -> int:
    return min(MOST_NS, int(1e6 * ms))


def session_record(
    session: WatchedSession, model: PageModel, about: BrowserFacts, loaded: Sequence[str]
) -> PageSession:
    """Return the record of a session.

    Args:
        session: The observed session.
        model: Record of its model.
        about: Properties of the browser.
        loaded: Addresses of the WebAssembly files that the page loaded.
    """
    asked, created, first = session.asked, session.created, session.first
    times = session.runs_ms
    in_force = created.environment if created else {}
    ours = [url for url in loaded if build_of_file(url)]
    file = created.file if created else ""
    if created and not file and len(ours) == 1:  # its worker loaded it
        (file,) = ours
    placement = placement_of(session.log)
    memories = [said.memory.record() for said in (first, session.last) if said and said.memory]
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
            # The first run also compiles shaders and fills caches, so it is reported separately.
            median_ns=_ns(statistics.median(times[1:] or times)) if times else 0,
            longest_ns=_ns(session.longest_ms),
            total_ns=_ns(session.total_ms),
            read_back_bytes=session.back_bytes if any("CPU" not in p.provider for p in placement) else 0,
            n_reads=session.n_reads,
            on_gpu=tuple(PageOutput(**msgspec.structs.asdict(held)) for held in session.last.device)
            if session.last
            else (),
            memory=tuple(memories),
            error=session.run_error,
        ),
        error=session.error or ("" if created else "still running when the observation ended"),
    )


def _tensors(declared: Iterable[PageTensor], fed: Iterable[PageTensor]) -> tuple[PageTensor, ...]:
    """Return the declared tensors by name, replaced by those of the first run where known."""
    return tuple({tensor.name: tensor for tensor in (*declared, *fed)}.values())


def plan_of(
    options: Mapping[str, str], environment: Mapping[str, str], *, isolated: bool | None, file: str
) -> Plan:
    """Return the plan with the settings of a page's session; unset ones are absent.

    Args:
        options: Options of the session.
        environment: Environment of onnxruntime-web.
        isolated: Whether the page is cross-origin isolated; None if the page ended before it could be queried.
        file: The WebAssembly file that onnxruntime-web loaded; "" if unknown.
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
