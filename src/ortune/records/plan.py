"""Settings, providers, rewrites, and the plan that they make."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from ortune.records.base import Record, Value

Channel = Literal[
    "session_option", "session_config", "run_config", "provider_option", "env", "preload", "process",
    "env_allocator", "global_pool", "call_style", "page",
]  # fmt: skip


ReadBackLevel = Literal["effect", "echo", "none"]


class Knob(Record, frozen=True, kw_only=True):
    """One setting, described by data; how to apply and probe it is code in the worker.

    Attributes:
        name: The name on the command line and in plans.
        aliases: Short names accepted by ``--set``.
        since: First ONNX Runtime version that knows it ("0" is any).
        channel: How it reaches the session (a closed list).
        key: The name within the channel: attribute, config key, variable, library stem.
        kind: Type of the value.
        choices: The values allowed, as text; empty means any of the kind.
        minimum: Smallest allowed value of an int.
        spelled: (value, as the channel wants it) pairs, where the two differ.
        default: ORT's default in words. A knob that is absent is recorded as ``default``, never as a guess.
        probe: Name of the worker's check that the setting arrived; "" where none is possible.
        conflicts: Names of knobs that must not be set together with this one (symmetric).
        safety: Safety class of setting it.
        summary: One line.
        tries: Values that ``tune`` proposes, as text; "{cpus}", "{cpus/2}" and "{cpus-1}" are filled in from the
            machine and dropped where they make no sense there.
        group: When tune tries it: "first", "late" (seldom pays on healthy models: only when time is left), or
            "never" on its own.
        needs: Settings that must be there for this one to mean anything, as ``knob=value``.
        per_model: The values tried come from the model (``knobs.values_for``), not from ``tries`` alone.
    """

    name: str
    aliases: tuple[str, ...] = ()
    since: str = "0"
    channel: Channel
    key: str
    kind: Literal["int", "bool", "choice", "text"]
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    spelled: tuple[tuple[str, str], ...] = ()
    default: str
    probe: str = ""
    conflicts: tuple[str, ...] = ()
    safety: Literal["exact", "numerics", "behaviour", "advice"] = "exact"
    summary: str
    tries: tuple[str, ...] = ()
    group: Literal["first", "late", "never"] = "never"
    needs: tuple[str, ...] = ()
    per_model: bool = False


class ProviderSpec(Record, frozen=True, kw_only=True):
    """An execution provider with its options, in the order of preference."""

    name: str
    options: dict[str, str] = {}


class RewriteSpec(Record, frozen=True, kw_only=True):
    """One model-to-model change, by name."""

    name: str
    params: dict[str, str] = {}


class Plan(Record, frozen=True, kw_only=True):
    """An immutable set of rewrites, settings and providers. ``Plan()`` is ORT's default."""

    rewrites: tuple[RewriteSpec, ...] = ()
    settings: dict[str, Value] = {}
    providers: tuple[ProviderSpec, ...] = ()

    @property
    def id(self) -> str:
        """Short stable name: equal plans have equal ids."""
        ordered = msgspec.structs.replace(self, settings=dict(sorted(self.settings.items())))
        return hashlib.sha256(msgspec.json.encode(ordered)).hexdigest()[:12]

    def describe(self) -> str:
        """The plan in words: "default", or "intra_op_num_threads=4, allow_spinning=0"."""
        parts = [r.name for r in self.rewrites]
        parts += [f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in sorted(self.settings.items())]
        parts += [p.name.removesuffix("ExecutionProvider") for p in self.providers]
        return ", ".join(parts) or "default"
