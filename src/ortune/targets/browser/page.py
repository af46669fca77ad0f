"""A trial that runs as a page of a browser, with the messages and turns of a worker process.

The browser and its processes form one group, which is stopped between turns and ended last. Its CPU time and memory are
read from outside, since a page cannot measure them.
"""

from __future__ import annotations

import contextlib
import json
import queue
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from ortune import launcher, monotonic, platform, temporary
from ortune.catalogue import providers
from ortune.errors import RuntimeNotFound
from ortune.platform import SensorSnapshot
from ortune.records import (
    Applied,
    FailureReason,
    Outcome,
    TrialDone,
    TrialError,
    TrialRequest,
)
from ortune.targets.browser import setup
from ortune.targets.browser.compiled_code import CompiledCode
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError, PageEvent
from ortune.targets.browser.outputs import ImpossibleOutput, Outputs
from ortune.targets.browser.page_files import CannotServe
from ortune.targets.browser.page_job import GRAPH, HIDDEN_S, MOST_GRAPH, prepare
from ortune.targets.browser.page_report import (
    PageAbout,
    PageMessage,
    environment,
    placement_of,
    read_back,
    untrue,
)
from ortune.targets.browser.remote import AWAY_S
from ortune.targets.browser.server import PageServer, Served
from ortune.targets.browser.site import Site, token_of
from ortune.targets.machine import Machine
from ortune.targets.process import ProcessRunner
from ortune.targets.task import TrialTask
from ortune.targets.turns import Runner
from ortune.targets.worker import LOG, Message

CONSOLE = "console.txt"
COMPILERS = "ThreadPoolForeg"
"""Linux name of Chromium's threads in which V8 compiles during runs."""
_DAY_S = 86_400.0
_GONE_S = 1.0
MOST_LINES, MOST_PRINTED = 200_000, 1 << 28
"""Limits of a page's console: lines, and characters in total."""
MOST_SAID_WRONG = 2000
"""Limit of the characters of a page's error message."""
_TOKEN = secrets.token_urlsafe(24)
"""Token shared by all pages of this process, so that they share the browser's cache."""


class Page(ProcessRunner):
    """Runner of a trial in a page, in its own browser or in the machine's remote browser.

    A remote browser is not stopped between turns; its page waits for the next one.

    Args:
        task: The trial.
        settings: The plan's settings.
        machine: The machine, with its browser.
        group: All runners alive at the same time, including this one.
    """

    def __init__(
        self, task: TrialTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> None:
        super().__init__(task, settings, machine, group)
        if machine.remote is not None:
            # The device may be unattended: the page may be hidden or disconnected for a while.
            patience_s = HIDDEN_S + AWAY_S
            load_s, run_s = (limit + patience_s for limit in (self.limits.load_s, self.limits.run_s))
            self.limits = replace(self.limits, load_s=load_s, run_s=run_s)
        self.provider = task.plan.providers[0]
        self.traits = providers.find(self.provider.name)
        self.server: PageServer | None = None
        self.about = PageAbout()
        self.console: list[str] = []
        self.missing: list[str] = []
        self._trouble = ""
        self._refused: TrialError | None = None
        self._tokens: list[str] = []
        self._kept: CompiledCode | None = None
        self._unopened = machine.remote is not None
        self._sent_bytes = 0
        self._sent: tuple[str, ...] = ()
        self._outputs: Outputs | None = None
        self._memory = platform.GroupMemory()
        self._peak_bytes = self._printed_chars = 0
        self._began_s = self._ended_s = 0.0

    # --- overridden steps of a worker process

    def open(self, settings: tuple[Applied, ...], arguments: Sequence[str] = ()) -> None:
        """Start the server and the browser; set ``end`` to the error if that fails."""
        del settings, arguments
        try:
            program = "" if self.machine.remote else setup.program(self.machine.browser)
            web = setup.of_runtime(self.task.runtime) or setup.ort_web(self.machine.browser)
            job = prepare(
                self.task,
                self.settings,
                web,
                self.limits,
                alone=len(self.group) == 1,
                elsewhere=self.machine.remote is not None,
            )
            self._outputs, self._job = job.outputs, job.message
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
            # A separate trial fetches and compiles onnxruntime-web itself, since its load time is reported.
            if len(self.group) > 1:
                self._job["builds"] = remote.builds(web.dist)
            self._tokens = [token_of(remote.url)]
            self.server = self._serving(job.served, site=remote.site)
            return
        profile = self.folder / "browser"
        if self.traits.cpu_kernels:
            same = (program, str(web.dist), self._job["build"], str(job.served.isolated))
            self._kept = CompiledCode(self.task.scratch, same)
            self._job["compiled"] = len(self.group) > 1 and self._kept.copy_into(profile)
        self.server = self._serving(job.served, token=_TOKEN)
        headful, port = self.machine.browser.headful, self.server.port
        flags = setup.flags(self.traits.browser_flags, headful=headful, profile=profile, port=port)
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
            self._take_message,
            self._printed,
            self._expected,
            self._output,
            self._figures(),
            site,
            token,
        )
        self._tokens.append(token_of(server.url))
        return server

    def send(self, message: Message) -> None:
        """Send a message to the page."""
        assert self.server is not None
        if isinstance(message, TrialRequest):
            self.server.send(json.dumps(self._job | {"version": message.version}).encode())
        else:
            self.server.send(msgspec.json.encode(message))

    def loaded(self) -> bool:
        """Wait a moment; return whether the page has loaded the model, or failed to, and sleeps.

        In a remote browser, each page of a group is opened after the previous ones have loaded, so it finds their files
        cached instead of requesting them at the same time.
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
        """Bytes of memory of the browser now, with shared memory counted once."""
        return self._memory.count(self.child.pid) if self.child is not None and self.live else 0

    def batch(self, runs: int, unmeasured: int) -> None:
        """Time a batch of runs in its turn."""
        self._began_s = self._began_s or monotonic.now_s()
        super().batch(runs, unmeasured)
        self._ended_s = monotonic.now_s()
        self._peak_bytes = max(self._peak_bytes, self.held_bytes)

    def close(self) -> None:
        """End the browser and the server."""
        leaves = False
        try:
            leaves = self._leaves_code()
        finally:  # even if the wait is interrupted
            self._close(leaves=leaves)

    def _close(self, *, leaves: bool) -> None:
        super().close()
        profile = self.folder / "browser"
        temporary.remove_sockets(profile)
        if leaves and self._kept is not None:
            self._kept.store(profile)
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
        """Return the last lines that the page printed, or the browser's if the page printed none."""
        return tuple(map(self._without_tokens, super().log()))

    def outcome(self, before: SensorSnapshot, after: SensorSnapshot) -> Outcome:
        """Return the outcome, with the measurements made outside of the page."""
        if isinstance(self.end, TrialDone):
            wrong = untrue(self.end, self.task.request.feeds)
            lacking = self._outputs.missing() if self._outputs is not None else ""
            if wrong or lacking:
                self.end = self.error(*(wrong or ("protocol", lacking)))
        if isinstance(self.end, TrialDone):
            self.end = self._completed(self.end)
            if self.machine.remote is not None:
                self.machine.remote.timed(self.task.plan.id, self.end, self._began_s, self._ended_s)
        elif isinstance(self.end, TrialError):
            what = self.end.what[:MOST_SAID_WRONG]
            self.end = msgspec.structs.replace(self.end, what=what, phase=self.end.phase[:20])
            if self.end.phase != "running" and self.missing:
                names = ", ".join(dict.fromkeys(self.missing))[:MOST_SAID_WRONG]
                what = f"onnxruntime-web has no file {names}: {what}"
                self.end = msgspec.structs.replace(self.end, reason="load-error", what=what)
        return super().outcome(before, after)

    # --- messages of the page, from the server's threads

    def _take_message(self, line: bytes | None) -> None:
        if line is None:
            self._lines.put(None)
            return
        try:
            about = msgspec.json.decode(line, type=PageMessage).about
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
        """Return a text without the tokens, which the browser's messages contain as part of failed addresses."""
        for token in self._tokens:
            text = text.replace(token, "…")
        return text

    def _expected(self, about: str, size: int) -> bool:
        assert self._outputs is not None
        if about == GRAPH and self._job["graph"]:
            return size <= MOST_GRAPH
        try:
            self._outputs.expect(about, size)
        except ImpossibleOutput as error:
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
        except ImpossibleOutput as error:
            self._refuse("protocol", str(error))
        except OSError as error:
            self._refuse("disk-full", f"an output cannot be kept: {error.strerror or error}")
        return self._refused is None

    def _refuse(self, reason: FailureReason, what: str) -> None:
        """End the trial with an error, unless it already has one."""
        self._refused = self._refused or self.error(reason, self._without_tokens(what))
        self._lines.put(None)

    def _figures(self) -> dict[str, Callable[[], int]]:
        """Return the functions for figures that the page may request: CPU times of the browser in nanoseconds."""
        return {"cpu": self._cpu_ns, "compiling": lambda: int(1e9 * self._compiling_s())}

    def _cpu_ns(self) -> int:
        return int(1e9 * platform.group_cpu_s(self.child.pid)) if self.child else 0

    def _leaves_code(self) -> bool:
        """Return whether the browser leaves compiled code that later trials can use."""
        asked = self.task.caches and self.task.request.warmup_runs
        if self._kept is None or not isinstance(self.end, TrialDone) or not asked:
            return False
        wait, profile = self._kept.wait_for_new_code, self.folder / "browser"
        return wait(profile, self._compiling_s, began_compiled=bool(self._job["compiled"]))

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

    # --- the end of the trial

    def _over_limits(self) -> TrialError | None:
        remote = self.machine.remote
        what = remote.lost(self.server.url) if remote is not None and self.server is not None else ""
        return self.error("crash", f"{what} while {self.phase}") if what else super()._over_limits()

    def _ended_silently(self) -> TrialError:
        if self._refused is not None:
            return self._refused
        # A browser's pipe ends before its process, and the exit status is more informative.
        code = self.child.ended_within(_GONE_S) if self.child is not None else None
        if code is None:
            return self.error("crash", f"{self._trouble or 'the page was closed'} while {self.phase}")
        ended = launcher.signal_name(code) or f"exit code {code}"
        return self.error("crash", f"the browser ended ({ended}) while {self.phase}")

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
        # Fields that a page cannot know are not taken from its report.
        return TrialDone(
            load_ns=done.load_ns,
            cases=done.cases,
            cpu_ns=done.cpu_ns,
            wall_ns=done.wall_ns,
            n_runs=done.n_runs,
            ort_version=done.ort_version[:100],
            providers=(self.provider.name,),
            peak_bytes=self._peak_bytes or None,
            read_back=tuple(read_back(setting, self.about, self._sent) for setting in self.settings),
            profile=profile,
            graph=str(graph) if graph.is_file() else "",
            placement=placement_of(self.console),
            page=environment(
                self.about,
                self.console,
                self._sent_bytes,
                self.machine.browser.network_bps,
                compiled=bool(self._job["compiled"]),
            ),
        )
