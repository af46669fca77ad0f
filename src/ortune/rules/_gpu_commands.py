"""The commands that measure what a model on a GPU gains without one cause of its slowness."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.catalogue import knobs
from ortune.catalogue.named import CALL_STYLE
from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, WEB_WASM, WEB_WEBGPU, of_profile
from ortune.rules.facts import Facts
from ortune.rules.placement.graph_capture_refused import obstacles

_MODEL = "model.onnx"
"""What stands for the model that is looked at."""


@dataclass(frozen=True, slots=True)
class GpuCommands:
    """Words of a command line each; none if no command measures it.

    Attributes:
        facts: Of the profiled run.
        ran_on: The provider of its nodes on the GPU.
    """

    facts: Facts
    ran_on: Provider

    @classmethod
    def of(cls, facts: Facts, provider: str) -> GpuCommands:
        """Return those for a profiled run, with what the profile calls the provider of nodes on the GPU."""
        in_page = facts.profile is not None and facts.profile.trace.format == "web-console"
        return cls(facts, WEB_WEBGPU if in_page else of_profile(provider))

    @property
    def _target(self) -> Provider:
        return self.facts.provider if self.facts.target != CPU.target else self.ran_on

    def against_cpu(self) -> list[str]:
        """Compare the GPU with the CPU."""
        cpu = WEB_WASM.target if self._target.in_page else CPU.target
        return ["ortune", "compare", _MODEL, "--a-target", self._target.target, "--b-target", cpu]

    def sides(self) -> list[str]:
        """Compare plans with the nodes before, or after, those that the GPU does not take on the CPU too."""
        target = self._target
        if target.in_page or not target.ships:
            return []
        return ["ortune", "tune", _MODEL, "--targets", f"{CPU.target},{target.target}"]

    def capture(self) -> list[str]:
        """Compare with one launch of a captured graph, unless the model or the provider prevents that."""
        provider = self._target
        if not provider.graph_option or self.facts.model is None or obstacles(self.facts):
            return []
        for knob in knobs.all_knobs().values():
            if (knob.provider, knob.key) == (provider.name, provider.graph_option):
                return self._with(f"{knob.name}=1", *knob.needs)
        return []

    def binding(self) -> list[str]:
        """Compare with buffers in the device's memory, if the provider has one."""
        return self._with(f"{CALL_STYLE.name}=device_binding") if self._target.memory else []

    def _with(self, *settings: str) -> list[str]:
        """Compare the target's default with these settings; nothing if others were profiled."""
        if self.facts.plan.settings:
            return []
        options = [word for setting in settings for word in ("--b-set", setting)]
        return ["ortune", "compare", _MODEL, "--target", self._target.target, *options]
