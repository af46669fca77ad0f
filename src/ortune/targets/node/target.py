"""Target of the CPU provider in Node.js."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ortune.errors import RuntimeNotFound
from ortune.records import Applied, ProviderReport, Runtime
from ortune.targets.target import Target

if TYPE_CHECKING:
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.targets.machine import Machine
    from ortune.targets.task import TrialTask
    from ortune.targets.turns import Runner


@dataclass(frozen=True, slots=True)
class NodeTarget(Target):
    """Target of ONNX Runtime's CPU provider, called from JavaScript in Node.js."""

    channels = ("session_option", "session_config", "env", "preload", "call_style")
    of_runtime = False

    def discover(self, runtime: Runtime, browser: BrowserSetup | None = None) -> ProviderReport:
        """Report whether Node.js and an onnxruntime-node are available, without fetching them."""
        from ortune.runtimes import node

        del runtime, browser
        name = self.provider.name
        try:
            found = node.find(fetch=False)
        except RuntimeNotFound as error:
            usable = error.do.endswith("downloads it")
            return ProviderReport(name=name, in_build=False, usable=usable, why=f"{error.what}; {error.do}")
        lacks = f"; without {', '.join(found.lacks)}" if found.lacks else ""
        return ProviderReport(name=name, in_build=False, usable=True, why=f"{found.called}{lacks}")

    def runner(
        self, task: TrialTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """Return the runner of one trial, a process of Node.js."""
        from ortune.targets.node.process import NodeTrial

        return NodeTrial(task, settings, machine, group)


KIND = NodeTarget
