"""Result of ``ortune tune`` on a recording."""

from __future__ import annotations

from typing import Literal

from ortune.records import AppRatio, Finding, MemoryChange, OutputDifference, Runtime, Value
from ortune.records.base import Record
from ortune.verbs._app_bench.result import PlayedPart

Verdict = Literal[
    "faster", "not-shown", "inconclusive", "wrong-output", "invalid", "generator", "nothing-tested"
]


class AppCandidate(Record, frozen=True, kw_only=True):
    """A change that was tested on top of the changes that were kept before it.

    Attributes:
        settings: Changed settings of all sessions.
        share: Whether equal requests of a process get one session.
        model: File name of the model that is changed instead; "" for a change of sessions.
        rewrites: The rewrites of the model.
        provider: The execution provider of the model, instead of rewrites.
        form: Changed form of the calls instead: "lists" become arrays, arrays with "strides" become contiguous, and
            single calls become "batches". "" for other changes. It is measured in separate blocks.
        cpu, wall: Ratios of CPU time, and of the time in ONNX Runtime or the latency of calls at given times, to the
            changes kept before; None if it failed.
        status: "kept" changes are part of the result; "confirmed" is a form of calls that saves time.
        why: The error if it failed.
    """

    settings: dict[str, Value] = {}
    share: bool = False
    model: str = ""
    rewrites: tuple[str, ...] = ()
    provider: str = ""
    form: str = ""
    cpu: AppRatio | None = None
    wall: AppRatio | None = None
    status: Literal["kept", "confirmed", "dropped", "failed"] = "dropped"
    why: str = ""


class RewrittenModel(Record, frozen=True, kw_only=True):
    """A model that is replaced.

    Attributes:
        name: Name of the model's file.
        guarded: Whether the replacement is only used for the recorded shapes.
    """

    name: str
    rewrites: tuple[str, ...]
    guarded: bool = False


class AppConfirmation(Record, frozen=True, kw_only=True):
    """All kept changes compared with the recorded settings, in fresh blocks that did not influence the choice.

    Attributes:
        cpu, wall: Ratios of CPU time, and of the time in ONNX Runtime or the latency of calls at given times.
        same_cpu, same_wall: Ratios of the recorded settings to themselves (A/A check).
        same_ok: Whether the A/A check found no difference.
        memory: Peak memory, the median over plays; None if the system does not report it.
        outputs: The largest difference of the outputs; None if they were not compared.
        offered_before, offered_after: Time that the rate requires of the busiest thread, as a fraction of its time,
            with the recorded settings and with the changes; above 1, a queue grows. None without calls at given times.
    """

    cpu: AppRatio
    wall: AppRatio
    same_cpu: AppRatio
    same_wall: AppRatio
    same_ok: bool = True
    memory: MemoryChange | None = None
    outputs: OutputDifference | None = None
    offered_before: float | None = None
    offered_after: float | None = None


class AppTuneResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune tune app.workload --json``.

    Attributes:
        verdict: "nothing-tested" if there was nothing to test (``enough_s`` is 0), or no time for it; "generator" if
            calls at given times started too late, so there is no answer.
        arrival: When calls start: constant, poisson, gamma:CV or recorded; "" if each follows the one before it.
        rate_per_s: Mean rate of all calls at given times; None for others.
        late_share: Mean delay of these calls by the generator as a fraction of their mean latency; median over plays.
        busy: Whether other programs used the CPUs, so only CPU time decides.
        used_cpus: Median number of CPUs that other programs used; None if unknown.
        candidates: Tested changes, in the order of their tests.
        current: Settings of ``--current``, which replace the recorded settings.
        settings: Kept settings, including ``current``.
        share: Whether shared sessions were kept.
        variables: Environment variables that were kept instead of settings, because they reach every session.
        providers: Kept execution providers, keyed by the name of the model.
        models: The models that are replaced.
        confirmation: Confirmation of the kept changes; None if nothing was kept or it did not fit in the budget.
        findings: Findings of rules, each with its gain in a replay.
        bundle: Folder of the bundle; "" for none.
        command: The recorded command line.
        enough_s: Budget, in seconds, expected to be enough for a confirmation; 0 if the budget was enough.
        n_plays: Number of plays.
    """

    label: str
    headline: str = ""
    verdict: Verdict
    runtime: Runtime
    played: PlayedPart
    arrival: str = ""
    rate_per_s: float | None = None
    late_share: float | None = None
    busy: bool = False
    used_cpus: float | None = None
    candidates: tuple[AppCandidate, ...] = ()
    current: dict[str, Value] = {}
    settings: dict[str, Value] = {}
    share: bool = False
    variables: dict[str, str] = {}
    providers: dict[str, str] = {}
    models: tuple[RewrittenModel, ...] = ()
    confirmation: AppConfirmation | None = None
    findings: tuple[Finding, ...] = ()
    bundle: str = ""
    command: tuple[str, ...] = ()
    enough_s: float = 0.0
    n_plays: int = 0
    notes: tuple[str, ...] = ()
    reproduce: str = ""
    session: str = ""
    elapsed_s: float = 0.0
