"""Result of ``ortune tune`` on a recording."""

from __future__ import annotations

from typing import Literal

from ortune.records import Finding, MemoryChange, OutputDifference, Runtime, Value
from ortune.records.base import Record
from ortune.verbs._app_bench.result import PlayedPart

Verdict = Literal["faster", "not-shown", "inconclusive", "wrong-output", "invalid", "nothing-tested"]


class AppRatio(Record, frozen=True, kw_only=True):
    """A ratio to the recorded settings over the same blocks, below 1 is less; without ends if there are too few."""

    value: float
    low: float | None = None
    high: float | None = None
    n_blocks: int = 0


class AppCandidate(Record, frozen=True, kw_only=True):
    """A change that was tried, together with those that were kept before it.

    Attributes:
        settings: Settings of all sessions.
        share: Whether equal requests of a process get one session.
        model: The model that is changed instead; "" for a change of sessions.
        rewrites: Its rewrites.
        provider: Its execution provider, instead of rewrites.
        form: What is changed of the calls instead: "lists" become arrays, arrays with "strides" contiguous, and single
            calls "batches"; "" for a change of sessions. It is measured in blocks of its own.
        cpu, wall: Ratios of CPU time, and of the time in ONNX Runtime, to what was kept before.
        status: "kept" is part of the answer that was confirmed; "confirmed" is a form of calls that saves time.
        why: Why it failed.
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
    """A model that is replaced: its file's name, its rewrites, and whether it is for the recorded shape alone."""

    name: str
    rewrites: tuple[str, ...]
    guarded: bool = False


class AppConfirmation(Record, frozen=True, kw_only=True):
    """The kept changes together against the recorded settings, in blocks that nothing was chosen by.

    Attributes:
        cpu, wall: Ratios of CPU time, and of the time in ONNX Runtime.
        same_cpu, same_wall: The recorded settings against themselves.
        same_ok: Whether these do not differ.
        memory: Peak memory, the median over plays; None if the system does not tell.
        outputs: The largest difference of the outputs; None if they were not compared.
    """

    cpu: AppRatio
    wall: AppRatio
    same_cpu: AppRatio
    same_wall: AppRatio
    same_ok: bool = True
    memory: MemoryChange | None = None
    outputs: OutputDifference | None = None


class AppTuneResult(Record, frozen=True, kw_only=True):
    """``result`` of ``ortune tune app.workload --json``.

    Attributes:
        verdict: "nothing-tested" if there was nothing to try (``enough_s`` is 0), or no time for it.
        busy: Whether other programs used the CPUs, so that CPU time alone decides; ``used_cpus`` is how many.
        candidates: In the order in which they were tried.
        current: Settings of ``--current``, which are played in the place of those that were recorded.
        variables: Environment variables that were kept in place of settings, because they reach every session.
        providers: Execution providers by the names of their models.
        models: The models that are replaced.
        confirmation: None if nothing was kept or the budget did not hold it.
        findings: What costs the application time, each with its gain in a replay.
        bundle: The folder of the bundle; "" for none.
        enough_s: A budget that is expected to hold a confirmation; 0 if this one did.
    """

    label: str
    headline: str = ""
    verdict: Verdict
    runtime: Runtime
    played: PlayedPart
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
