"""Settings, providers, rewrites, and the plan that they make."""

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
    """An execution provider with its options, in the order of preference."""

    name: str
    options: dict[str, str] = {}


class RewriteSpec(Record, frozen=True, kw_only=True):
    """One model-to-model change, by name."""

    name: str
    params: dict[str, str] = {}


ENOUGH_INPUTS = 59
"""Held-out inputs of which none may exceed a limit, to show with 95 % confidence that at most 5 % of all do:
0.95^59 < 0.05."""


class Calibration(Record, frozen=True, kw_only=True):
    """The data used to calibrate a quantized model.

    Attributes:
        inputs: Number of input sets used for calibration.
        checked: Number of input sets used to measure the error; with four or more of the user's, none was used for
            calibration.
        screened: Number of these on which models other than the winner were compared; 0 for all of them.
        source: The path given by the user; "" for synthetic inputs.
        labelled: Number of input sets with a label, which says what is right; without labels, a built-in metric is the
            agreement with the original model. None in documents of older versions.
    """

    inputs: int
    checked: int
    screened: int = 0
    source: str = ""
    labelled: int | None = None

    @property
    def final(self) -> bool:
        """Whether the error was measured on as many real inputs as a final answer needs."""
        return bool(self.source) and self.checked >= ENOUGH_INPUTS


def assignment(name: str, value: Value) -> str:
    """Return a setting as ``--set`` takes it: "allow_spinning=0"."""
    return f"{name}={int(value) if isinstance(value, bool) else value}"


class Plan(Record, frozen=True, kw_only=True):
    """An immutable set of rewrites, settings and execution providers. ``Plan()`` is ONNX Runtime's default."""

    rewrites: tuple[RewriteSpec, ...] = ()
    settings: dict[str, Value] = {}
    providers: tuple[ProviderSpec, ...] = ()

    @property
    def id(self) -> str:
        """Short stable name: equal plans have equal ids."""
        ordered = msgspec.structs.replace(self, settings=dict(sorted(self.settings.items())))
        return hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()[:12]

    @property
    def provider_names(self) -> tuple[str, ...]:
        """The plan's execution providers; the CPU's alone where it names none, as ONNX Runtime has it."""
        return tuple(p.name for p in self.providers) or (providers.CPU.name,)

    @property
    def is_web(self) -> bool:
        """Whether the plan runs in a browser, by onnxruntime-web."""
        return providers.find(self.provider_names[0]).in_page

    @property
    def is_node(self) -> bool:
        """Whether the plan runs in Node.js, by onnxruntime-node."""
        return providers.find(self.provider_names[0]).in_node

    @property
    def assignments(self) -> list[str]:
        """The settings as ``--set`` takes them, by name."""
        return [assignment(name, value) for name, value in sorted(self.settings.items())]

    def describe(self) -> str:
        """Return the plan in words: "default", or "intra_op_num_threads=4, allow_spinning=0"."""
        parts = [r.name for r in self.rewrites]
        parts += self.assignments
        # "web_build=wasm, wasm" would say one word twice.
        names = [providers.short(p.name) for p in self.providers]
        parts += [f"provider {name}" if name in self.settings.values() else name for name in names]
        return ", ".join(parts) or "default"
