"""A soak that runs in a page of a browser."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from ortune.records import Applied, SoakRequest
from ortune.targets.browser.devtools import DevTools
from ortune.targets.browser.devtools_messages import DevToolsError
from ortune.targets.browser.page import Page
from ortune.targets.browser.page_report import read_back
from ortune.targets.machine import Machine
from ortune.targets.soaking import Soaking, SoakTask
from ortune.targets.worker import Message

_SHOWN_S = 60.0


class SoakingPage(Soaking, Page):
    """A page that calls its model in turns and reports its memory, from its start to its last message.

    The memory of a point is that of the page: JavaScript's heap after a collection of garbage, WebAssembly memory, and
    GPU buffers. Its resident memory is that of the whole browser.
    """

    def __init__(
        self, wanted: SoakTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Soaking]
    ) -> None:
        super().__init__(wanted, settings, machine, group)
        self._tools: DevTools | None = None
        self._connected = threading.Event()

    def send(self, message: Message) -> None:
        """Send a message to the page; the soak's first message includes the page's job."""
        if isinstance(message, SoakRequest):
            self._job["soak"] = {
                "fresh": msgspec.to_builtins(message.fresh), "seed": message.seed, "recreate": message.recreate,
            }  # fmt: skip
            super().send(message.trial)
        else:
            super().send(message)

    def turn(self, calls: int, starts_ns: tuple[int, ...] = ()) -> None:
        """Make calls as one turn, and record the memory after them."""
        n = len(self.points)
        super().turn(calls, starts_ns)
        if len(self.points) > n:
            self.points[-1] = msgspec.structs.replace(self.points[-1], resident_bytes=self.held_bytes or None)

    def conclude(self) -> None:
        """Get the final report of the page, and verify its settings."""
        super().conclude()
        if self.done is not None and self.server is not None:
            sent = self.server.sent
            seen = tuple(read_back(setting, self.about, sent) for setting in self.settings)
            self.done = msgspec.structs.replace(self.done, read_back=seen)

    def _figures(self) -> dict[str, Callable[[], int]]:
        return {**super()._figures(), "heap": self._heap_bytes}

    def _show(self, tools: DevTools, url: str) -> None:
        super()._show(tools, url)
        try:
            tools.connect()
        except DevToolsError as error:
            self._ended_with(str(error))
            return
        self._tools = tools
        self._connected.set()

    def _heap_bytes(self) -> int:
        """Return the bytes of JavaScript's heap and its arrays after a collection of garbage.

        An error ends the page.
        """
        if not self._connected.wait(_SHOWN_S) or self._tools is None:
            self._ended_with(f"the browser did not attach to its page within {_SHOWN_S:.0f} s")
            return 0
        try:
            return self._tools.heap_bytes()
        except DevToolsError as error:
            self._ended_with(str(error))
            return 0
