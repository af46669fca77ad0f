"""Plans: settings, execution providers and rewrites."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from ortune.catalogue import providers
from ortune.records.base import Record, Value

Channel = Literal[
    "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
    "env_allocator", "global_pool", "call_style", "page", "web_env", "web_session", "web_page",
]  # fmt: skip

ReadBackLevel = Literal["effect", "echo", "none"]


class ProviderSpec(Record, frozen=True, kw_only=True):
    """An execution provider with its options."""

    name: str
    options: dict[str, str] = {}


class RewriteSpec(Record, frozen=True, kw_only=True):
    """One model-to-model change, by name."""

    name: str
    params: dict[str, str] = {}


ENOUGH_INPUTS = 59
"""Number of held-out inputs within a limit that show with 95 % confidence that at most 5 % of all inputs exceed it:
0.95^59 < 0.05."""


class Calibration(Record, frozen=True, kw_only=True):
    """The data used to calibrate a quantized model.

    Attributes:
        inputs: Number of input sets used for calibration.
        checked: Number of input sets used to measure the error. If the user gave four or more, none of these was used
            for calibration.
        screened: Number of these on which models other than the winner were compared; 0 for all of them.
        source: The path given by the user; "" for synthetic inputs.
        labelled: Number of input sets with a label, the right answer; without labels, a built-in metric is the
            agreement with the original model. None in documents of older versions.
    """

    inputs: int
    checked: int
    screened: int = 0
    source: str = ""
    labelled: int | None = None

    @property
    def final(self) -> bool:
        """Whether the error was measured on at least ``ENOUGH_INPUTS`` real inputs, as needed for a final result."""
        return bool(self.source) and self.checked >= ENOUGH_INPUTS


def assignment(name: str, value: Value) -> str:
    """Return a setting in the form of ``--set``: "allow_spinning=0"; booleans become 0 or 1."""
    return f"{name}={int(value) if isinstance(value, bool) else value}"


class Plan(Record, frozen=True, kw_only=True):
    """An immutable set of rewrites, settings and execution providers. ``Plan()`` is ONNX Runtime's default."""

    rewrites: tuple[RewriteSpec, ...] = ()
    settings: dict[str, Value] = {}
    providers: tuple[ProviderSpec, ...] = ()

    @property
    def id(self) -> str:
        """Short stable identifier: 12 hexadecimal digits that are equal for equal plans."""
        ordered = msgspec.structs.replace(self, settings=dict(sorted(self.settings.items())))
        return hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()[:12]

    @property
    def provider_names(self) -> tuple[str, ...]:
        """Names of the plan's execution providers; only the CPU provider if it names none, as in ONNX Runtime."""
        return tuple(p.name for p in self.providers) or (providers.CPU.name,)

    @property
    def is_web(self) -> bool:
        """Whether the plan runs in a browser, with onnxruntime-web."""
        return providers.find(self.provider_names[0]).in_page

    @property
    def is_node(self) -> bool:
        """Whether the plan runs in Node.js, with onnxruntime-node."""
        return providers.find(self.provider_names[0]).in_node

    @property
    def assignments(self) -> list[str]:
        """The settings in the form of ``--set``, sorted by name."""
        return [assignment(name, value) for name, value in sorted(self.settings.items())]

    def describe(self) -> str:
        """Return the plan as text: "default", or "intra_op_num_threads=4, allow_spinning=0"."""
        parts = [r.name for r in self.rewrites]
        parts += self.assignments
        # The text "web_build=wasm, wasm" would be ambiguous.
        names = [providers.short_name(p.name) for p in self.providers]
        parts += [f"provider {name}" if name in self.settings.values() else name for name in names]
        return ", ".join(parts) or "default"
