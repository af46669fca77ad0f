"""A target in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortune.errors import RuntimeNotFound
from ortune.records import Applied, Channel, ProviderReport, Runtime
from ortune.targets.browser import setup
from ortune.targets.browser.page import Page, trouble
from ortune.targets.machine import Machine
from ortune.targets.target import PAGE, Target
from ortune.targets.task import Task
from ortune.targets.turns import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class WebTarget(Target):
    """An execution provider of onnxruntime-web.

    Attributes:
        asked: Whether a browser may lack it: a page is opened to see.
    """

    channels: tuple[Channel, ...] = PAGE
    of_runtime: bool = False
    asked: bool = False

    def discover(self, runtime: Runtime) -> ProviderReport:
        """Whether there is a browser that has it; onnxruntime-web is fetched when a trial needs it."""
        del runtime
        chosen = setup.BrowserSetup()
        try:
            program = setup.program(chosen)
        except RuntimeNotFound as error:
            return self._report(error.what)
        if self.asked and (why := trouble(self.provider, chosen)):
            return self._report(why)
        try:
            web = setup.ort_web(chosen, fetch=False)
            words = f"onnxruntime-web {web.version} in {program}"
        except RuntimeNotFound:
            words = f"onnxruntime-web {setup.VERSION} (npm fetches it at the first use) in {program}"
        return ProviderReport(name=self.provider, in_build=False, usable=True, why=words)

    def _report(self, why: str) -> ProviderReport:
        return ProviderReport(name=self.provider, in_build=False, usable=False, why=why)

    def runner(
        self, task: Task, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """A page in a browser of its own."""
        return Page(task, settings, machine, group)
