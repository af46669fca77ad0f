"""Description of a trial before its start, for the runners of any target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ortune.records import Plan, Runtime, TrialRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a trial.

    Attributes:
        load_s: Maximum seconds until the session exists. If several trials load at once, only the time in which ortune
            waits for this trial is counted.
        run_s: Maximum seconds for everything afterwards, excluding the turns of other trials.
        memory_share: Maximum fraction of the free memory for the process. A trial that exceeds it is ended, because in
            a container the kernel could otherwise end ortune too.
    """

    load_s: float = 600.0
    run_s: float = 600.0
    memory_share: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialTask:
    """Everything that a runner needs to run one trial.

    Attributes:
        plan: The plan, which determines the execution provider and thereby the target.
        runtime: Runtime with the ONNX Runtime to use.
        request: Model, feeds and timing; the plan's settings and providers are added.
        folder: Folder for the trial's log and results.
        scratch: Folder of this invocation, for files that trials share.
        limits: Time and memory limits.
        reference: Folder of outputs for the same inputs, by case, which limits the size of a page's outputs; None if
            there are none yet.
        caches: Whether the trial may take seconds at its end to store compiled code, which makes later trials faster.
    """

    plan: Plan
    runtime: Runtime
    request: TrialRequest
    folder: Path
    scratch: Path
    limits: Limits = Limits()
    reference: Path | None = None
    caches: bool = True
