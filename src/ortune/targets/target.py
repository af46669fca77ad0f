"""Interface of a target, a place where a model can run, with the implementation for processes of a runtime."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU
from ortune.records import Applied, Channel, Measured, Plan, ProviderReport, ProviderSpec, Runtime

if TYPE_CHECKING:
    from ortune.platform import SensorSnapshot
    from ortune.targets.browser.setup import BrowserSetup
    from ortune.targets.machine import Machine
    from ortune.targets.task import TrialTask
    from ortune.targets.turns import Runner


@dataclass(frozen=True, slots=True)
class Target:
    """An execution provider in a process of a runtime. Other kinds of targets override the methods.

    Modules that find runtimes and run trials are imported on use, since ``check`` only needs a target's name.

    Attributes:
        provider: Properties of the provider.
        channels: The channels through which settings reach the target.
        of_runtime: Whether the provider is part of an ONNX Runtime for Python, or can be added to one.
    """

    provider: Provider
    channels: ClassVar[tuple[Channel, ...]] = (
        "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
        "env_allocator", "global_pool", "call_style",
    )  # fmt: skip
    of_runtime: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """Value of ``--target``."""
        return self.provider.target

    @property
    def providers(self) -> tuple[ProviderSpec, ...]:
        """Execution providers of the target's plans; () for the CPU provider, which is ONNX Runtime's default."""
        p = self.provider
        return () if p == CPU else (ProviderSpec(name=p.name, options=dict(p.needs)),)

    @property
    def default(self) -> Plan:
        """Baseline plan of the target: the default of ONNX Runtime, of a GPU's provider, or of onnxruntime-web."""
        # On a GPU target, settings are compared with the provider's defaults, not with the CPU.
        own = not self.of_runtime or self.provider.hardware == "gpu"
        return Plan(providers=self.providers) if own else Plan()

    def discover(self, runtime: Runtime, browser: BrowserSetup | None = None) -> ProviderReport:
        """Report whether a runtime (or the browser, for a target in one) can run the provider, or why not."""
        from ortune.runtimes import made
        from ortune.runtimes.local_support import lacking
        from ortune.targets.discover import provider_report

        del browser
        if self.provider.name in runtime.offered:
            return provider_report(self.provider.name, runtime)
        p = self.provider
        if not runtime.error and any(one.name == self.name for one in made.installed()):
            why, do = f"not in this build, but in the runtime {self.name}", f"add --runtime {self.name}"
            return ProviderReport(name=p.name, in_build=False, usable=False, why=why, do=do)
        why = runtime.error or self.why_absent(platform.system())
        can = not runtime.error and any(not lacking(p, build) for build in p.builds)
        do = f"ortune runtime add {self.name}" if can else ""
        return ProviderReport(name=p.name, in_build=False, usable=False, why=why, do=do)

    def why_absent(self, system: str) -> str:
        """Return a message that the build lacks the provider, with the way to get it on a system."""
        return f"not in this build; {self.where_it_is(system)}"

    def where_it_is(self, system: str) -> str:
        """Return the way to get the provider on a system (named as by ``platform``), or why that is impossible."""
        from ortune.runtimes.local_support import lacking, systems

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
        self, task: TrialTask, settings: tuple[Applied, ...], machine: Machine, group: Sequence[Runner]
    ) -> Runner:
        """Return the runner of one trial; ``group`` contains all runners alive at the same time, including this one."""
        from ortune.targets.process import ProcessRunner

        return ProcessRunner(task, settings, machine, group)

    def emulated(self, trial: Measured) -> str:
        """Return the provider's name if the trial ran on an emulated device; else ""."""
        return self.provider.name if self.provider.emulated_by(trial.done.devices) else ""

    def sensors(self, machine: Machine) -> SensorSnapshot:
        """Return the sensor readings of the machine, which are recorded before and after the target's trials."""
        return machine.sensors()
