"""What a trial is, before anything is started: data that a runner of any target can take."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ortune.records import Plan, Runtime, TrialRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a trial may use.

    Attributes:
        load_s: Seconds until the session exists; of several that load at once, of each one's share.
        run_s: Seconds for all that comes then, the turns of others not counted.
        memory_share: Share of the memory left that the process may hold. Beyond it the trial is ended, since in
            a container the kernel's own answer would end ortune too.
    """

    load_s: float = 600.0
    run_s: float = 600.0
    memory_share: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One trial that is wanted.

    Attributes:
        plan: What is tried; it names the execution provider, and so the target.
        runtime: Whose ONNX Runtime runs it.
        request: Model, feeds and timing; the plan's settings and providers come on top.
        folder: Where its log lies, and what it leaves.
        scratch: Folder of this invocation, for what its trials share.
        limits: Time and memory.
        reference: Folder of outputs for the same inputs, by case, which tell how large those of a page can be; None
            where there are none yet.
    """

    plan: Plan
    runtime: Runtime
    request: TrialRequest
    folder: Path
    scratch: Path
    limits: Limits = Limits()
    reference: Path | None = None
