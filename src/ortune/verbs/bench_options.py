"""What ``bench`` can be asked, and the command that asks it again."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ortune.errors import UsageError
from ortune.stats.processes import LEAST_PROCESSES
from ortune.trials.baseline import InputOptions

BUDGET_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What ``bench`` can be asked; the names are those of the command line.

    Attributes:
        model: A model, a bundle, or ``model.onnx@revision``.
        settings, rewrites, plan: The one plan that is measured; of a bundle, what goes on top of its own.
        inputs: What the model is fed, and under what load.
        shared_pool: One pool of threads for all sessions of the process.
        shared_arena: One arena, registered with the environment, for all sessions of the process.
        processes: Processes a shape; None is as many as the budget holds.
        runs: Timed requests a process and caller; None is chosen from what a process and a request cost.
        budget_s: All measuring together.
    """

    model: str
    settings: Sequence[str] = ()
    rewrites: Sequence[str] = ()
    plan: Path | None = None
    python: str | None = None
    target: str = "cpu"
    inputs: InputOptions = field(default_factory=InputOptions)
    shared_pool: bool = False
    shared_arena: bool = False
    processes: int | None = None
    runs: int | None = None
    budget_s: float = BUDGET_S
    store: Path | None = None
    wait: bool = True

    def check(self) -> None:
        """Raises UsageError for what cannot be measured."""
        if self.model.endswith(".json"):
            raise UsageError(
                "is a plan, and a plan has no model",
                where=self.model,
                do=f"ortune bench model.onnx --plan {self.model}",
            )
        if self.processes is not None and self.processes < LEAST_PROCESSES:
            raise UsageError(
                f"{self.processes} processes give no interval",
                where="--processes",
                do=f"{LEAST_PROCESSES} or more",
            )
        if self.runs is not None and self.runs < 1:
            raise UsageError("a process must make at least one request", where="--runs", do="1 or more")


def reproduce(o: Options) -> str:
    """The command line that measures the same again."""
    words = ["ortune", "bench", o.model]
    for name, values in (("--set", o.settings), ("--rewrite", o.rewrites)):
        words += [word for value in values for word in (name, value)]
    if o.plan:
        words += ["--plan", str(o.plan)]
    if o.python:
        words += ["--python", o.python]
    if o.target != "cpu":
        words += ["--target", o.target]
    words += _inputs(o.inputs)
    words += [
        flag for flag, on in (("--shared-pool", o.shared_pool), ("--shared-arena", o.shared_arena)) if on
    ]
    if o.processes:
        words += ["--processes", str(o.processes)]
    if o.runs:
        words += ["--runs", str(o.runs)]
    if o.budget_s != BUDGET_S:
        words += ["--budget", f"{o.budget_s:g}s"]
    return shlex.join(words)


def _inputs(given: InputOptions) -> list[str]:
    words = []
    for name, shape in given.shapes.items():
        words += ["--shape", f"{name}:{'x'.join(map(str, shape))}"]
    for name, mix in given.dims.items():
        words += ["--dim", f"{name}={','.join(str(size) for size, _ in mix)}"]
    for option, path in (("--inputs", given.inputs), ("--workload", given.workload)):
        words += [option, str(path)] if path else []
    words += [word for library in given.custom_ops for word in ("--custom-ops", library)]
    if given.gap_ns:
        words += ["--gap", f"{given.gap_ns / 1e6:g}ms"]
    usual = InputOptions()
    for option, value, default in (
        ("--sessions", given.sessions, usual.sessions),
        ("--callers", given.callers, usual.callers),
        ("--seed", given.seed, usual.seed),
    ):
        words += [option, str(value)] if value != default else []
    if given.pod and given.pod.cpus is not None:
        words += ["--cpus", f"{given.pod.cpus:g}"]
    if given.pod and given.pod.memory_bytes is not None:
        words += ["--memory", str(given.pod.memory_bytes)]
    return words
