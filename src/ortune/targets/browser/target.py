"""Target of an execution provider in a browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ortune.catalogue.provider import EMULATED
from ortune.errors import RuntimeNotFound
from ortune.platform import SensorSnapshot
from ortune.records import Applied, ProviderReport, Runtime
from ortune.targets.browser import setup
from ortune.targets.browser.offers import refused
from ortune.targets.machine import Machine
from ortune.targets.target import Target
from ortune.targets.task import TrialTask
from ortune.targets.turns import Runner


@dataclass(frozen=True, slots=True)
class WebTarget(Target):
    """Target of an execution provider of onnxruntime-web."""

    channels = ("web_env", "web_session", "web_page", "provider_option")
    of_runtime = False

    def discover(self, runtime: Runtime, browser: setup.BrowserSetup | None = None) -> ProviderReport:
        """Report whether the browser offers the provider and an onnxruntime-web is available, without fetching it."""
        del runtime
        chosen = browser or setup.BrowserSetup()
        try:
            program = setup.program(chosen)
        except RuntimeNotFound as error:
            return self._report(error.what)
        question = self.provider.question
        why = refused(program, headful=chosen.headful)[self.provider.name] if question else ""
        emulated = why == EMULATED
        if why and not emulated:
            return self._report(f"{program} does not offer it: {why}")
        try:
            web = setup.ort_web(chosen, fetch=False)
            words = f"onnxruntime-web {web.version} in {program}"
        except RuntimeNotFound:
            words = f"onnxruntime-web {setup.VERSION} (npm fetches it on first use) in {program}"
        words += "; its GPU is emulated on the CPU: correct outputs, meaningless times" if emulated else ""
        return ProviderReport(
            name=self.provider.name, in_build=False, usable=True, why=words, emulated=emulated
        )

    def _report(self, why: str) -> ProviderReport:
        return ProviderReport(name=self.provider.name, in_build=False, usable=False, why=why)

    def runner(
        self, task: TrialTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """Return the runner of one trial: a page in its own browser, or in the remote one."""
        from ortune.targets.browser.page import Page  # imported here, since only browsers need an HTTP server

        return Page(task, settings, machine, group)

    def sensors(self, machine: Machine) -> SensorSnapshot:
        """Return the sensors; empty for a remote browser, since this machine's sensors do not describe it."""
        return SensorSnapshot() if machine.remote else machine.sensors()


KIND = WebTarget
