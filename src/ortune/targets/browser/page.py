"""A trial that is a page of a browser: the same messages and the same turns as those of a process.

The browser and all that it starts are one group: stopped between turns, gone at the end. What the page cannot know, its
CPU time and memory, is read from outside.
"""

from __future__ import annotations

import contextlib
import json
import math
import queue
import re
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ortune import launcher, monotonic, platform, providers, temporary
from ortune.errors import RuntimeNotFound
from ortune.knobs.in_page import in_page
from ortune.knobs.web.web_build import KNOB as BUILD
from ortune.knobs.web.web_build import build_of_file, default_of
from ortune.knobs.web.web_isolation import KNOB as ISOLATION
from ortune.platform import Snapshot
from ortune.records import (
    Applied,
    FailureReason,
    FeedRef,
    GpuRun,
    Outcome,
    PageSeen,
    Placement,
    ReadBack,
    TrialDone,
    TrialError,
    TrialRequest,
)
from ortune.targets.browser import setup
from ortune.targets.browser.devtools import DevTools, DevToolsError, PageEvent
from ortune.targets.browser.given import CannotServe, inputs_of, model_of
from ortune.targets.browser.kept import Kept
from ortune.targets.browser.outputs import Outputs, Unlike
from ortune.targets.browser.remote import AWAY_S, Ran, browser_name
from ortune.targets.browser.server import PageServer, Served, Site, token_of
from ortune.targets.machine import Machine
from ortune.targets.process import Process
from ortune.targets.task import Task
from ortune.targets.turns import Runner
from ortune.targets.worker import LOG, Message

CONSOLE = "console.txt"
GRAPH, MOST_GRAPH = "graph.onnx", 1 << 27
"""The graph that ran on a GPU, which the page has at its end, and its most bytes: the page holds it twice more."""
FILES = {
    "jsep": "ort.min.mjs", "asyncify": "ort.webgpu.min.mjs", "jspi": "ort.jspi.min.mjs", "wasm": "ort.wasm.min.mjs",
    "webgl": "ort.webgl.min.mjs",
}  # fmt: skip


WARM_MS, AGAIN_MS = 1000, 5000
"""A page is warmed up for so long, and until V8 has compiled its WebAssembly again for so long at most: what is hottest
takes half a second on a quiet machine, and up to four on a busy one. What runs less follows function by function, which
the CPU time of V8's own threads tells: while they had work a model of 0.9 ms took 10 to 30 ms of CPU a run. A page that
begins with compiled code does not wait for it: what is left is begun after a thousand runs and more, and one function
of the default build then takes over 20 s and 2.5 GB."""
COMPILERS, COMPILING = "ThreadPoolForeg", 0.2
"""Threads of Chromium in which V8 compiles beside the runs, as Linux names them; and their CPU time, as a share of the
time, from which on it is taken to do so."""
HIDDEN_S = 60.0
"""A trial waits so long for somebody to look at its page, and at most for half of its own limit."""


class Page(Process):
    """A runner that is a page in a browser of its own, or in the one elsewhere that the machine has.

    The one elsewhere is not stopped between turns: its page waits for the next one, as a page does.

    Args:
        task: What it runs.
        settings: The plan's.
        machine: Where it runs; it knows the browser.
        group: All that live at the same time, itself included.
    """

    def __init__(
        self, task: Task, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> None:
        super().__init__(task, settings, machine, group)
        if (
            machine.remote is not None
        ):  # nobody stands beside it: it may be out of sight, and away, for a while
            patience_s = HIDDEN_S + AWAY_S
            load_s, run_s = (limit + patience_s for limit in (self.limits.load_s, self.limits.run_s))
            self.limits = replace(self.limits, load_s=load_s, run_s=run_s)
        self.provider = task.plan.providers[0]
        self.traits = providers.find(self.provider.name)
        self.server: PageServer | None = None
        self.about = _About()
        self.console: list[str] = []
        self.missing: list[str] = []
        self._trouble = ""
        self._refused: TrialError | None = None
        self._tokens: list[str] = []
        self._kept: Kept | None = None
        self._unopened = machine.remote is not None
        self._sent_bytes = 0
        self._sent: tuple[str, ...] = ()
        self._outputs: Outputs | None = None
        self._peak_bytes = self._printed_chars = 0
        self._began_s = self._ended_s = 0.0

    # --- what the worker has a process for

    def open(self, settings: tuple[Applied, ...], arguments: Sequence[str] = ()) -> None:
        """Starts the server and the browser; where that cannot be, its end says so."""
        del settings, arguments
        try:
            program = "" if self.machine.remote else setup.program(self.machine.browser)
            web = setup.of_runtime(self.task.runtime) or setup.ort_web(self.machine.browser)
            served, self._job = self._prepared(web)
        except RuntimeNotFound as error:
            what = f"{error.where}: {error.what}" if error.where else error.what
            self.end = self.error("no-runtime", f"{what} -> {error.do}")
            return
        except CannotServe as error:
            self.end = self.error("unsupported", str(error))
            return
        self._lines = queue.Queue()
        remote = self.machine.remote
        if remote is not None:
            if len(self.group) > 1:
                self._job["builds"] = remote.builds(web.dist)
            self._tokens = [token_of(remote.url)]
            self.server = self._serving(served, site=remote.site)
            return
        profile = self.folder / "browser"
        if self.traits.cpu_kernels:
            same = (program, str(web.dist), self._job["build"], str(served.isolated))
            self._kept = Kept(self.task.scratch, same)
            self._job["compiled"] = len(self.group) > 1 and self._kept.give(profile)
        self.server = self._serving(served, token=_TOKEN)
        flags = setup.flags(
            self.traits.browser_flags,
            headful=self.machine.browser.headful,
            profile=profile,
            port=self.server.port,
        )
        with (self.folder / LOG).open("wb") as log:
            try:
                tools = DevTools(
                    program,
                    flags,
                    environment=setup.environment(self.folder),
                    folder=self.folder,
                    log=log,
                    happened=self._happened,
                )
            except RuntimeNotFound as error:
                self.end = self.error("no-runtime", error.what)
                return
        self.child = tools.child
        threading.Thread(
            target=self._show, args=(tools, f"http://{setup.HOST}/{_TOKEN}/"), daemon=True
        ).start()

    def _serving(self, served: Served, *, site: Site | None = None, token: str = "") -> PageServer:
        server = PageServer(
            served,
            self._said,
            self._printed,
            self._expected,
            self._output,
            {"cpu": self._cpu_s, "compiling": self._compiling_s},
            site,
            token,
        )
        self._tokens.append(token_of(server.url))
        return server

    def send(self, message: Message) -> None:
        """Tells the page something."""
        assert self.server is not None
        if isinstance(message, TrialRequest):
            self.server.send(json.dumps(self._job | {"version": message.version}).encode())
        else:
            self.server.send(msgspec.json.encode(message))

    def loaded(self) -> bool:
        """Waits a moment; whether it has loaded the model, or failed to, and sleeps.

        Of a group in a browser elsewhere each page is opened once those before it have loaded: it finds their files
        kept, and does not ask for them at the same time.
        """
        if self._unopened and self.live:
            before = self.group[: self.group.index(self)]
            if any(isinstance(page, Page) and page.live and page.phase != "running" for page in before):
                return False
            self._unopened = False
            assert self.machine.remote is not None and self.server is not None
            self.machine.remote.show(self.server.url)
        return super().loaded()

    @property
    def held_bytes(self) -> int:
        """Memory that the browser holds now, what its processes share counted once."""
        if self.child is None or not self.live:
            return 0
        return platform.group_memory_bytes(self.child.pid)

    def batch(self, runs: int, unmeasured: int) -> None:
        """Its turn to time a batch."""
        self._began_s = self._began_s or monotonic.now_s()
        super().batch(runs, unmeasured)
        self._ended_s = monotonic.now_s()
        self._peak_bytes = max(self._peak_bytes, self.held_bytes)

    def close(self) -> None:
        """Makes sure that neither browser nor server is left."""
        leaves = False
        try:
            leaves = self._leaves_code()
        finally:  # however it is stopped in the midst of that
            self._close(leaves=leaves)

    def _close(self, *, leaves: bool) -> None:
        super().close()
        profile = self.folder / "browser"
        temporary.remove_sockets(profile)
        if leaves and self._kept is not None:
            self._kept.take(profile)
        if self.server is not None:
            if self.machine.remote is not None:
                self.machine.remote.hide(self.server.url)
            self.server.close()
            self._sent = self.server.sent
            self.missing, self._sent_bytes, self.server = self.server.missing, self.server.sent_bytes, None
        if self.console:
            with contextlib.suppress(OSError):
                (self.folder / LOG).write_text("\n".join(self.console) + "\n", encoding="utf-8")

    def log(self) -> tuple[str, ...]:
        """The end of what the page printed, or else the browser."""
        return tuple(map(self._without_tokens, super().log()))

    def outcome(self, before: Snapshot, after: Snapshot) -> Outcome:
        """What became of it, with what was seen from outside."""
        if isinstance(self.end, TrialDone):
            wrong = untrue(self.end, self.task.request.feeds)
            lacking = self._outputs.missing() if self._outputs is not None else ""
            if wrong or lacking:
                self.end = self.error(*(wrong or ("protocol", lacking)))
        if isinstance(self.end, TrialDone):
            self.end = self._completed(self.end)
            self._keep_times(self.end)
        elif isinstance(self.end, TrialError):
            what = self.end.what[:MOST_SAID_WRONG]
            self.end = msgspec.structs.replace(self.end, what=what, phase=self.end.phase[:20])
            if self.end.phase != "running" and self.missing:
                names = ", ".join(dict.fromkeys(self.missing))[:MOST_SAID_WRONG]
                what = f"onnxruntime-web has no file {names}: {what}"
                self.end = msgspec.structs.replace(self.end, reason="load-error", what=what)
        return super().outcome(before, after)

    # --- what the page says, from the server's threads

    def _said(self, line: bytes | None) -> None:
        if line is None:
            self._lines.put(None)
            return
        try:
            about = msgspec.json.decode(line, type=_Told).about
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._refuse("protocol", f"the page sent an unreadable message: {error}")
            return
        self.about = about or self.about
        self._lines.put(self._without_tokens(line.decode()).encode())

    def _printed(self, lines: Sequence[str]) -> None:
        room = max(0, MOST_LINES - len(self.console))
        self._printed_chars += sum(map(len, lines))
        if self._printed_chars <= MOST_PRINTED:
            self.console += [self._without_tokens(line) for line in lines[:room]]

    def _without_tokens(self, text: str) -> str:
        """What a browser says of an address that failed names the whole address."""
        for token in self._tokens:
            text = text.replace(token, "…")
        return text

    def _expected(self, about: str, size: int) -> bool:
        assert self._outputs is not None
        if about == GRAPH and self._job["graph"]:
            return size <= MOST_GRAPH
        try:
            self._outputs.expect(about, size)
        except Unlike as error:
            self._refuse("protocol", str(error))
            return False
        return True

    def _output(self, about: str, body: bytes) -> bool:
        assert self._outputs is not None
        try:
            if about == GRAPH and self._job["graph"]:
                (self.folder / GRAPH).write_bytes(body)
            else:
                self._outputs.keep(about, body)
        except Unlike as error:
            self._refuse("protocol", str(error))
        except OSError as error:
            self._refuse("disk-full", f"an output cannot be kept: {error.strerror or error}")
        return self._refused is None

    def _refuse(self, reason: FailureReason, what: str) -> None:
        """The trial ends with this."""
        self._refused = self._refused or self.error(reason, self._without_tokens(what))
        self._lines.put(None)

    def _cpu_s(self) -> float:
        return platform.group_cpu_s(self.child.pid) if self.child else 0.0

    def _leaves_code(self) -> bool:
        """Whether it ends with compiled code of use: while V8 is at work, all that begin with it do that work again."""
        if self._kept is None or not isinstance(self.end, TrialDone) or not self.task.request.warmup_runs:
            return False
        first = not self._kept.awaited()
        if not first and not self._kept.lacks(self.folder / "browser"):
            return False
        if self._job["compiled"] and self._compiling_s() > _LARGE_S:
            return False
        quiet, until = self._quiet(), monotonic.now_s() + _FIRST_S
        while first and not quiet and monotonic.now_s() < until:
            quiet = self._quiet()
        if quiet:
            time.sleep(_WRITTEN_S)  # what it wrote last may note as begun what is ready by now
        return quiet

    def _quiet(self) -> bool:
        before = self._compiling_s()
        time.sleep(_LOOK_S)
        return self._compiling_s() - before < COMPILING * _LOOK_S

    def _compiling_s(self) -> float:
        return platform.group_thread_cpu_s(self.child.pid, COMPILERS) if self.child else 0.0

    def _show(self, tools: DevTools, url: str) -> None:
        try:
            tools.show(url, _DAY_S)  # the trial's own limits end it
        except DevToolsError as error:
            self._ended_with(str(error))

    def _happened(self, event: PageEvent) -> None:
        if event.kind in ("crash", "gone"):
            self._ended_with(event.text)

    def _ended_with(self, what: str) -> None:
        self._trouble = self._trouble or what
        self._lines.put(None)

    # --- its ends

    def _over_limits(self) -> TrialError | None:
        remote = self.machine.remote
        what = remote.lost(self.server.url) if remote is not None and self.server is not None else ""
        return self.error("crash", f"{what} while {self.phase}") if what else super()._over_limits()

    def _ended_silently(self) -> TrialError:
        if self._refused is not None:
            return self._refused
        # A browser's pipe ends before it does, and how it ends tells more.
        code = self.child.ended_within(_GONE_S) if self.child is not None else None
        if code is None:
            return self.error("crash", f"{self._trouble or 'the page was closed'} while {self.phase}")
        ended = launcher.signal_name(code) or f"exit code {code}"
        return self.error("crash", f"the browser ended ({ended}) while {self.phase}")

    def _keep_times(self, done: TrialDone) -> None:
        """What a browser elsewhere took, and when: a device that grows hot is seen over all trials alone."""
        if self.machine.remote is None:
            return
        for case in done.cases:
            if case.latency_ns:
                ran = Ran(
                    plan=self.task.plan.id,
                    case=case.case,
                    start_s=self._began_s,
                    end_s=self._ended_s,
                    latency_ns=case.latency_ns,
                )
                self.machine.remote.ran.append(ran)

    def _memory_trouble(self) -> str:
        self._peak_bytes = max(self._peak_bytes, self.held_bytes)
        return super()._memory_trouble()

    def _completed(self, done: TrialDone) -> TrialDone:
        profile = ""
        if self.task.request.profile_path:
            path = self.folder / CONSOLE
            path.write_text("\n".join(self.console) + "\n", encoding="utf-8")
            profile = str(path)
        graph = self.folder / GRAPH
        # What a page cannot know is not taken from it.
        return TrialDone(
            load_ns=done.load_ns,
            cases=done.cases,
            cpu_ns=done.cpu_ns,
            wall_ns=done.wall_ns,
            n_runs=done.n_runs,
            ort_version=done.ort_version[:100],
            providers=(self.provider.name,),
            peak_bytes=self._peak_bytes or None,
            read_back=tuple(self._read_back(setting) for setting in self.settings),
            profile=profile,
            graph=str(graph) if graph.is_file() else "",
            placement=placement_of(self.console),
            page=_environment(
                self.about,
                self.console,
                self._sent_bytes,
                self.machine.browser.network_bps,
                compiled=bool(self._job["compiled"]),
            ),
        )

    def _read_back(self, setting: Applied) -> ReadBack:
        """What the page saw of a setting."""
        if setting.channel == "web_env":
            value_seen = self.about.env.get(setting.key)
            return ReadBack(
                knob=setting.knob,
                level="echo",
                ok=_same(value_seen, setting.value),
                seen=str(value_seen)[:_MOST_SEEN],
            )
        if setting.knob == BUILD.name:
            # What a browser has kept is not sent, and what a proxy's worker loads the page does not see.
            names = sorted({*self._sent, *self.about.files})
            loaded = {name: build for name in names if (build := _build_of(name))}
            return ReadBack(
                knob=setting.knob,
                level="effect" if loaded else "none",
                ok={*loaded.values()} <= {str(setting.value)},
                seen=", ".join(loaded)[:_MOST_SEEN],
            )
        if setting.channel == "web_page" and setting.key == "isolation":
            isolated = self.about.isolated
            ok = isolated == _truth(setting.value)
            return ReadBack(
                knob=setting.knob, level="effect", ok=ok, seen=f"crossOriginIsolated is {isolated}"
            )
        if setting.channel == "web_page":
            return ReadBack(knob=setting.knob, level="effect", ok=True, seen=str(setting.value))
        # An option of a session or of an execution provider is told back by nothing.
        return ReadBack(knob=setting.knob, level="none", ok=True)

    # --- its request

    def _prepared(self, web: setup.OrtWeb) -> tuple[Served, dict[str, Any]]:
        """What the page may have, and what it is asked to do.

        Raises:
            CannotServe: An input has no counterpart in JavaScript, or a file is larger than a page can fetch.
        """
        request = self.task.request
        if request.custom_ops or request.sessions > 1 or request.callers > 1:
            raise CannotServe(
                "custom operators, several sessions and several callers are not supported in a page"
            )
        page_settings = in_page(self.provider, (*self.settings, *request.applied))
        isolated = [setting.value for setting in self.settings if setting.knob == ISOLATION.name]
        if self.machine.remote and isolated and not _truth(isolated[-1]):
            raise CannotServe(f"a page elsewhere is always isolated: {ISOLATION.name}=0 needs a browser here")
        feeds = [inputs_of(Path(feed.path)) for feed in request.feeds]
        model = Path(request.model).absolute()
        contents = model_of(model)
        build = page_settings.build or default_of(self.provider.name)
        if page_settings.build and build not in map(_build_of, (path.name for path in web.dist.iterdir())):
            # One of 1.22 has a file of that name: JSEP.
            raise CannotServe(f"onnxruntime-web {web.version or 'there'} has no build {build}")
        self._outputs = Outputs(
            Path(request.outputs_path) if request.outputs_path else None,
            [ref.name for ref in request.feeds],
            contents.outputs,
            self.task.reference,
        )
        served = Served(
            model=model,
            external=[model.parent / name for name in contents.external],
            feeds=[[data for _, data in feed] for feed in feeds],
            dist=web.dist,
            isolated=not isolated or _truth(isolated[-1]),
        )
        job = {
            "builds": "ort/",
            "build": FILES[build],
            "compiled": False,
            "env": page_settings.env,
            "session": page_settings.session,
            "provider": self.provider.name,
            "inputs_on_gpu": page_settings.inputs == "gpu-buffer",
            "profile": bool(request.profile_path),
            # Only a log in all its words says where each node runs, and why not elsewhere.
            "placement": bool(request.profile_path or (request.outputs_path and not self.traits.cpu_kernels)),
            # Of WebAssembly the native optimiser makes it too, and a device elsewhere has no memory to spare.
            "graph": GRAPH
            if request.profile_path
            and not self.traits.web_alone
            and self.machine.remote is None
            and sum(file.stat().st_size for file in (model, *served.external)) <= MOST_GRAPH // 2
            else "",
            "keep": bool(request.outputs_path),
            "alone": len(self.group) == 1,
            "hidden_ms": int(1000 * min(HIDDEN_S, self.limits.load_s / 2, self.limits.run_s / 2)),
            "external": contents.external,
            "gap_ns": request.gap_ns,
            "wait_ratio": request.wait_ratio,
            "warm_ms": WARM_MS,
            "again_ms": AGAIN_MS,
            "compiling": COMPILING,
            "warmup_runs": request.warmup_runs,
            "warmup_ns": min(request.warmup_ns, request.warmup_cap_ns or math.inf),
            "feeds": [
                {"index": i, "name": ref.name, "weight": ref.weight, "inputs": [about for about, _ in feed]}
                for i, (ref, feed) in enumerate(zip(request.feeds, feeds, strict=True))
            ],
        }
        return served, job


_DAY_S = 86_400.0
_GONE_S = 1.0
_LOOK_S = 0.1
"""In which it is seen whether V8 compiles."""
_LARGE_S = 2.0
"""CPU time of that work from which on a page with compiled code has met a function that takes ten times as long; V8
notes which it has begun."""
_FIRST_S, _WRITTEN_S = 5.0, 2.2
"""The most that the first page of a build is given to end that work, and what V8 waits after it before it writes: later
pages are done in 3 s each, where they took 9."""
MOST_LINES, MOST_PRINTED = 200_000, 1 << 28
"""Of a page's console: lines, and characters of all."""
MOST_SAID_WRONG = 2000
"""Characters of what a page says went wrong."""
_MOST_SEEN = 200
"""Characters of what a page says of a setting."""
_TOKEN = secrets.token_urlsafe(24)
"""Of all pages of this process: what a browser keeps of one is found by the others."""


_MOST_NS = 10**18
_Count = Annotated[float, msgspec.Meta(ge=0, le=_MOST_NS)]
_Words = Annotated[str, msgspec.Meta(max_length=1000)]
_Whole = Annotated[int, msgspec.Meta(ge=-_MOST_NS, le=_MOST_NS)]
_Natural = Annotated[int, msgspec.Meta(ge=0, le=_MOST_NS)]
_MANY = msgspec.Meta(max_length=100)


class _Adapter(msgspec.Struct, kw_only=True):
    """What a page tells of a GPU."""

    vendor: _Words | None = None
    architecture: _Words | None = None
    description: _Words | None = None
    fallback: bool = False
    float16: bool = False


class _GpuRun(msgspec.Struct, kw_only=True):
    """What a page tells of the parts of a run."""

    whole_ns: _Count
    fed_ns: _Count
    device_ns: _Count
    input_bytes: _Natural
    output_bytes: _Natural
    n_runs: _Natural


class _About(msgspec.Struct, kw_only=True):
    """What a page tells of itself and its trial, beside what every worker tells; times in nanoseconds."""

    agent: _Words = ""
    isolated: bool = False
    adapter: _Adapter | None = None
    env: Annotated[dict[_Words, bool | _Whole | float | _Words | None], _MANY] = {}
    files: Annotated[tuple[_Words, ...], _MANY] = ()
    resolution_ns: _Count = 0
    fetch_ns: _Count = 0
    wasm_fetch_ns: _Count = 0
    repeated_turns: _Count = 0
    import_ns: _Count = 0
    block_ns: _Count = 0
    frames_lost: _Count = 0
    gpu_run: _GpuRun | None = None


class _Told(msgspec.Struct, kw_only=True):
    """A message of a page, of which the rest is read as every worker's is."""

    about: _About | None = None


def untrue(done: TrialDone, asked: Sequence[FeedRef]) -> tuple[FailureReason, str] | None:
    """What cannot be in a page's report, which may be a stranger's, and in words; None where nothing is wrong.

    Args:
        done: The report.
        asked: The cases that it was asked for, in order.
    """
    times = [case.latency_ns for case in done.cases]
    runs = sum(map(len, times))
    cases = [(case.case, case.weight) for case in done.cases]
    if cases != [(ref.name, ref.weight) for ref in asked] or done.n_runs != runs:
        return "protocol", "the page reported other cases or runs than requested"
    if any(sum(case.turn_runs) != len(case.latency_ns) for case in done.cases if case.turn_runs):
        return "protocol", "the page reported turns of other runs than requested"
    if any(len(case.waits_ns) not in (0, len(case.latency_ns)) for case in done.cases):
        return "protocol", "the page reported waits of other runs than requested"
    figures = [done.load_ns, done.cpu_ns, done.wall_ns]
    figures += [n for case in done.cases for n in (case.first_ns, case.warmup_runs, *case.turn_runs)]
    figures += [ns for case in done.cases for ns in (*case.latency_ns, *case.waits_ns)]
    if not all(0 <= n <= _MOST_NS for n in figures):
        return "protocol", "the page reported impossible times"
    if runs and not (done.wall_ns and all(map(any, times))):
        return "unsupported", "the browser's clock is too coarse for this model: its runs measure as 0 ms"
    return None


def placement_of(console: Sequence[str]) -> tuple[Placement, ...]:
    """Which nodes each execution provider has, out of ONNX Runtime's log; () where it does not tell."""
    placements: dict[str, Placement] = {}
    name = ""
    for line in console:
        placed = _PLACED.search(line)
        if placed is not None:
            name = placed["provider"]
            placements[name] = Placement(provider=name, n_nodes=int(placed["nodes"]), n_parts=0)
            continue
        node = _NODE.search(line) if name else None
        if node is None:
            name = name if not line.strip() else ""
            continue
        operators = dict(placements[name].operators)
        operators[node["op"]] = operators.get(node["op"], 0) + 1
        placements[name] = msgspec.structs.replace(placements[name], operators=operators)
    return tuple(placements.values())


def fallbacks_of(console: Sequence[str]) -> tuple[str, ...]:
    """The nodes that the provider has no kernel for, as the log gives the reason."""
    matches = (_WITHOUT.search(line) for line in console)
    return tuple(dict.fromkeys(f"{match['op']} {match['name']}".strip() for match in matches if match))[
        :MOST_FALLBACKS
    ]


_PLACED = re.compile(
    r"[Nn]ode(?:\(s\)|s) placed on \[(?P<provider>\w+)\]\. Number of nodes: (?P<nodes>\d{1,9})"
)
_NODE = re.compile(r"VerifyEachNodeIsAssignedToAnEp\]\s+(?P<op>\w+) \(")
_WITHOUT = re.compile(
    r"kernel not found in registries for Op type: (?P<op>\w+) node name: (?P<name>[^\x1b]*)"
)
MOST_FALLBACKS = 200


def _environment(
    about: _About, console: Sequence[str], sent_bytes: int, network_bps: float, *, compiled: bool
) -> PageSeen:
    adapter = about.adapter or _Adapter()
    words = [adapter.vendor, adapter.architecture, adapter.description]
    run = about.gpu_run
    return PageSeen(
        browser=browser_name(about.agent),
        isolated=about.isolated,
        adapter=" ".join(word for word in words if word),
        software=adapter.fallback,
        float16=adapter.float16,
        resolution_ns=int(about.resolution_ns),
        fetch_ns=int(about.fetch_ns),
        wasm_fetch_ns=int(about.wasm_fetch_ns),
        without_kernel=fallbacks_of(console),
        repeated_turns=int(about.repeated_turns),
        compiled=compiled,
        download_bytes=sent_bytes,
        download_ns=int(8e9 * sent_bytes / network_bps),
        import_ns=int(about.import_ns),
        block_ns=int(about.block_ns),
        frames_lost=about.frames_lost,
        gpu_run=GpuRun(**msgspec.structs.asdict(run), software=adapter.fallback) if run is not None else None,
    )


def _build_of(name: str) -> str:
    """The build that a file shows to be there: its WebAssembly, or the one that has none; "" for other files."""
    return "webgl" if name == FILES["webgl"] else build_of_file(name)


def _truth(value: object) -> bool:
    return value not in (False, 0, "0", "false", "off", "")


def _same(actual: object, asked: object) -> bool:
    if isinstance(asked, bool) or isinstance(actual, bool):
        return _truth(actual) == _truth(asked)
    return str(actual) == str(asked)
