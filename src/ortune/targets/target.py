"""What a target is: all that is known of a place where a model can run, and what runs a trial there."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from ortune.platform import Snapshot
from ortune.records import Applied, Channel, ProviderReport, ProviderSpec, Runtime
from ortune.targets.browser.setup import BrowserSetup
from ortune.targets.discover import in_build
from ortune.targets.machine import Machine
from ortune.targets.process import Process
from ortune.targets.task import Task
from ortune.targets.turns import Runner

NATIVE: tuple[Channel, ...] = (
    "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
    "env_allocator", "global_pool", "call_style",
)  # fmt: skip
"""What a process of this machine can be told."""

PAGE: tuple[Channel, ...] = ("web_env", "web_session", "web_page", "provider_option")
"""What a page of a browser can be told."""

CPU = "CPUExecutionProvider"
_SYSTEM_NAMES = {"Darwin": "macOS"}
DESKTOP = ("Linux", "Windows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a model can run: an execution provider in a process of a runtime. One of another kind overrides that.

    Attributes:
        name: What ``--target`` calls it: the name of its folder, with hyphens.
        provider: Its execution provider, by ONNX Runtime's name.
        wheel: The wheel whose build has the provider; "" when no wheel does.
        systems: Where that wheel exists, by ``platform.system()``.
        plugin: A plugin wheel that adds the provider to a plain ``onnxruntime``.
        otherwise: Where the provider comes from when no wheel brings it.
        channels: The ways in which settings reach it.
        made: What ``ortune runtime add`` calls a build that has the provider; "" where it makes none.
        ships: Whether a bundle can be made for it.
        options: What a plan file or a bundle may set of the provider: numbers, switches and words. Never what names a
            file, a folder or a library, or holds an address in memory.
        in_trace: What a profile calls the provider, where that is another name.
        of_runtime: Whether it is a part of an ONNX Runtime for Python, or comes beside any.
    """

    name: str
    provider: str
    wheel: str = ""
    systems: tuple[str, ...] = ("Linux",)
    plugin: str = ""
    otherwise: str = ""
    channels: tuple[Channel, ...] = NATIVE
    made: str = ""
    ships: bool = False
    options: frozenset[str] = frozenset()
    in_trace: str = ""
    of_runtime: bool = True

    @property
    def providers(self) -> tuple[ProviderSpec, ...]:
        """The execution providers of its plans; none for the CPU's, which ONNX Runtime takes by itself."""
        return () if self.provider == CPU else (ProviderSpec(name=self.provider),)

    def discover(self, runtime: Runtime, browser: BrowserSetup | None = None) -> ProviderReport:
        """Whether a runtime can run it, or why not; in a browser, whether the one that the user chose can."""
        del browser
        if self.provider in runtime.providers:
            return in_build(self.provider, runtime)
        why = runtime.error or self.why_absent(platform.system())
        return ProviderReport(name=self.provider, in_build=False, usable=False, why=why)

    def why_absent(self, system: str) -> str:
        """One sentence on how to get the provider that a build lacks, on that ``platform.system()``."""
        if not self.wheel:
            return f"not in this build, and in no wheel: {self.otherwise}"
        if system not in self.systems:
            places = " and ".join(_SYSTEM_NAMES.get(place, place) for place in self.systems)
            return f"not in this build: {places} only"
        if self.made:
            return f"not in this build: ortune runtime add {self.made}"
        plugin = f", or {self.plugin} beside a plain onnxruntime" if self.plugin else ""
        note = f" ({self.otherwise})" if self.otherwise else ""
        return f"not in this build: pip install {self.wheel} in an environment of its own{plugin}{note}"

    def runner(
        self, task: Task, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """What runs one trial; ``group`` is all that live at the same time, itself included."""
        return Process(task, settings, machine, group)

    def sensors(self, machine: Machine) -> Snapshot:
        """What is read before and after its trials."""
        return machine.sensors()
