"""Commands that measure the gain of removing one cause of slowness from a model on a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from ortune.catalogue import knobs
from ortune.catalogue.named import CALL_STYLE
from ortune.catalogue.provider import Provider
from ortune.catalogue.providers import CPU, WEB_WASM, WEB_WEBGPU, of_profile
from ortune.rules.facts import Facts
from ortune.rules.placement.graph_capture_refused import obstacles

_MODEL = "model.onnx"
"""Placeholder for the model's path."""


@dataclass(frozen=True, slots=True)
class GpuCommands:
    """Commands that measure GPU changes, as lists of words; a list is empty if no command can measure the change.

    Attributes:
        facts: The facts, which include a profiled run.
        ran_on: Provider of the nodes that ran on the GPU.
    """

    facts: Facts
    ran_on: Provider

    @classmethod
    def from_facts(cls, facts: Facts, provider: str) -> GpuCommands:
        """Return the commands for a profiled run; ``provider`` is the GPU nodes' provider as named in the profile."""
        in_page = facts.profile is not None and facts.profile.trace.format == "web-console"
        return cls(facts, WEB_WEBGPU if in_page else of_profile(provider))

    @property
    def _target(self) -> Provider:
        return self.facts.provider if self.facts.target != CPU.target else self.ran_on

    def against_cpu(self) -> list[str]:
        """Return the command that compares the GPU with the CPU."""
        cpu = WEB_WASM.target if self._target.in_page else CPU.target
        return ["ortune", "compare", _MODEL, "--a-target", self._target.target, "--b-target", cpu]

    def sides(self) -> list[str]:
        """Return the command that compares plans with more nodes on the CPU, before or after unsupported nodes."""
        target = self._target
        if target.in_page or not target.ships:
            return []
        return ["ortune", "tune", _MODEL, "--targets", f"{CPU.target},{target.target}"]

    def capture(self) -> list[str]:
        """Return the command that measures graph capture; empty if the model or the provider prevents capture."""
        provider = self._target
        if not provider.graph_option or self.facts.model is None or obstacles(self.facts):
            return []
        for knob in knobs.all_knobs().values():
            if (knob.provider, knob.key) == (provider.name, provider.graph_option):
                return self._compare_with(f"{knob.name}=1", *knob.needs)
        return []

    def binding(self) -> list[str]:
        """Return the command that measures buffers in device memory; empty if the provider does not support them."""
        return self._compare_with(f"{CALL_STYLE.name}=device_binding") if self._target.memory else []

    def _compare_with(self, *settings: str) -> list[str]:
        """Return the command that compares the default with `settings`; empty if the profiled plan has settings."""
        if self.facts.plan.settings:
            return []
        options = [word for setting in settings for word in ("--b-set", setting)]
        return ["ortune", "compare", _MODEL, "--target", self._target.target, *options]
