"""What a target is: all that is known of a place where a model can run, and what runs a trial there."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU
from ortune.records import Applied, Channel, Measured, Plan, ProviderReport, ProviderSpec, Runtime

if TYPE_CHECKING:
    from ortune.platform import Snapshot
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.targets.machine import Machine
    from ortune.targets.task import Task
    from ortune.targets.turns import Runner


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model can run: an execution provider in a process of a runtime. One of another kind overrides that.

    What finds runtimes and runs trials is imported where it is needed: ``check`` asks for a target's name alone.

    Attributes:
        provider: All that is known of the provider.
        channels: The ways in which settings reach it.
        of_runtime: Whether it is part of an ONNX Runtime for Python, or can be added to any.
    """

    provider: Provider
    channels: ClassVar[tuple[Channel, ...]] = (
        "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
        "env_allocator", "global_pool", "call_style",
    )  # fmt: skip
    of_runtime: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """What ``--target`` calls it."""
        return self.provider.target

    @property
    def providers(self) -> tuple[ProviderSpec, ...]:
        """The execution providers of its plans; none for the CPU's, which ONNX Runtime takes by itself."""
        p = self.provider
        return () if p == CPU else (ProviderSpec(name=p.name, options=dict(p.needs)),)

    @property
    def default(self) -> Plan:
        """The base of its plans: ONNX Runtime's default, that of a GPU's provider, or onnxruntime-web's."""
        # Who runs on a GPU is told what its settings bring there; the GPU beside the CPU is raced from the CPU.
        own = not self.of_runtime or self.provider.hardware == "gpu"
        return Plan(providers=self.providers) if own else Plan()

    def discover(self, runtime: Runtime, browser: BrowserSetup | None = None) -> ProviderReport:
        """Find whether a runtime can run it, or why not; in a browser, whether the one that the user chose can."""
        from ortune.runtimes import made
        from ortune.runtimes.here import lacking
        from ortune.targets.discover import tried

        del browser
        if self.provider.name in runtime.offered:
            return tried(self.provider.name, runtime)
        p = self.provider
        if not runtime.error and any(one.name == self.name for one in made.made()):
            why, do = f"not in this build, but in the runtime {self.name}", f"add --runtime {self.name}"
            return ProviderReport(name=p.name, in_build=False, usable=False, why=why, do=do)
        why = runtime.error or self.why_absent(platform.system())
        can = not runtime.error and any(not lacking(p, build) for build in p.builds)
        do = f"ortune runtime add {self.name}" if can else ""
        return ProviderReport(name=p.name, in_build=False, usable=False, why=why, do=do)

    def why_absent(self, system: str) -> str:
        """Return one sentence on how to get the provider that a build lacks, on that ``platform.system()``."""
        return f"not in this build; {self.where_it_is(system)}"

    def where_it_is(self, system: str) -> str:
        """Return what has the provider that a build lacks, or why nothing has it on that ``platform.system()``."""
        from ortune.runtimes.here import lacking, systems

        p = self.provider
        if not p.wheel:
            return f"no wheel has it: {p.otherwise}"
        if system not in p.systems:
            return f"{systems(p)} only"
        if p.builds:
            why = [] if system != platform.system() else [lacking(p, build) for build in p.builds]
            return why[0] if why and all(why) else f"ortune runtime add {self.name}"
        missing = lacking(p) if system == platform.system() else ""
        return missing or p.by_hand or p.otherwise or f"pip install {p.wheel} in a separate environment"

    def runner(
        self, task: Task, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """Return what runs one trial; ``group`` is all that live at the same time, itself included."""
        from ortune.targets.process import Process

        return Process(task, settings, machine, group)

    def emulated(self, trial: Measured) -> str:
        """Return the provider that a trial ran on, where the CPU emulated its device; else ""."""
        return self.provider.name if self.provider.emulated_by(trial.done.devices) else ""

    def sensors(self, machine: Machine) -> Snapshot:
        """Return what is read before and after its trials."""
        return machine.sensors()
