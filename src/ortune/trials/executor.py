"""Arms and their trials: what a scheduler calls to have one process run, journalled before it starts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ortune.platform.pod import Pod
from ortune.records import Applied, Failed, FeedRef, Outcome, Plan, Runtime, TrialRequest, Workload
from ortune.store.db import SessionLog
from ortune.trials import requests
from ortune.trials.archive import write_worker
from ortune.trials.launch import Limits, run_trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One contestant: a plan on a model under a runtime, with its feeds."""

    name: str
    plan: Plan
    model: Path
    runtime: Runtime
    feeds: tuple[FeedRef, ...]
    wait_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How a trial spends its time; the same for every arm."""

    runs: int = 20
    warmup_runs: int = 3
    warmup_ns: int = 30_000_000
    warmup_cap_ns: int = 2_000_000_000


class Executor:
    """Runs trials of arms.

    Args:
        arms: The contestants by name.
        workload: Seed, gap and custom operators.
        folder: Scratch folder of this invocation.
        log: Journal; a trial is written down before it starts.

    Attributes:
        timing, limits: Of all further trials.
        pod: Quota and memory limit that every trial is put into.
        recorded: Asked first: the outcome of a trial that an interrupted session measured already.
        last: The newest outcome, None before the first trial.
    """

    def __init__(self, arms: dict[str, Arm], workload: Workload, folder: Path, log: SessionLog) -> None:
        self.arms = arms
        self.timing = Timing()
        self.limits = Limits()
        self.pod: Pod | None = None
        self.recorded: Callable[[str, str], Outcome | None] | None = None
        self.ended: Callable[[], int] | None = None
        self.last: Outcome | None = None
        self._workload = workload
        self._folder = folder
        self._log = log
        self._archive = write_worker(folder)
        self._count = 0

    def __call__(self, arm: str, /) -> Outcome:
        """One trial of an arm with the current timing, keeping no outputs."""
        return self.trial(self.arms[arm])

    def trial(
        self,
        arm: Arm,
        *,
        runs: int | None = None,
        keep_outputs: bool = False,
        fresh: bool = False,
        profile: bool = False,
    ) -> Outcome:
        """One trial. ``runs=0`` loads and runs once. With ``keep_outputs`` the outcome says where they lie.

        ``fresh`` runs it whatever was recorded. With ``profile`` ONNX Runtime's profiler is on, and ``done.profile``
        names the file, which stays as long as the scratch folder.
        """
        self._count += 1
        known = self.recorded(arm.name, arm.plan.id) if self.recorded and not fresh else None
        if known is not None:
            return known
        name = f"{self._count:04d}-{arm.name}"
        # What is run again only for its outputs is no trial of the session's.
        kinds = ("untimed", "untimed-outcome") if fresh else ("trial", "outcome")
        self._log.add(kinds[0], {"trial": name, "arm": arm.name, "plan": arm.plan})
        outcome = self.last = self._run(arm, name, runs, keep_outputs, profile)
        # When it ended on the session's own clock, which stands still while nobody measures.
        ended = {} if fresh or self.ended is None else {"ended_ns": self.ended()}
        event = {"trial": name, "arm": arm.name, "plan_id": arm.plan.id, "outcome": outcome, **ended}
        self._log.add(kinds[1], event)
        return outcome

    def _run(self, arm: Arm, name: str, runs: int | None, keep_outputs: bool, profile: bool) -> Outcome:
        try:
            settings = requests.applied(arm.plan, arm.runtime)
        except requests.CannotApply as error:
            return Failed(plan=arm.plan.id, reason=error.reason, what=str(error), phase="preparing")
        if self.pod is not None and self.pod.affinity:
            affinity = Applied(knob="cpus", channel="process", key="affinity", value=self.pod.affinity)
            settings = (*settings, affinity)
        folder = self._folder / name
        folder.mkdir()
        timing = self.timing if runs is None else replace(self.timing, runs=runs)
        request = TrialRequest(
            model=str(arm.model.absolute()),  # the worker has a working directory of its own
            applied=settings,
            providers=arm.plan.providers,
            feeds=arm.feeds,
            runs=timing.runs,
            warmup_runs=timing.warmup_runs,
            warmup_ns=timing.warmup_ns,
            warmup_cap_ns=timing.warmup_cap_ns,
            gap_ns=self._workload.gap_ns,
            wait_ratio=arm.wait_ratio,
            seed=self._workload.seed,
            sessions=self._workload.sessions,
            callers=self._workload.callers,
            custom_ops=self._workload.custom_ops,
            outputs_path=str(folder / "outputs") if keep_outputs else "",
            profile_path=str(folder / "profile") if profile else "",
        )
        try:
            return run_trial(
                arm.plan.id,
                arm.runtime.python,
                self._archive,
                request,
                requests.environment(settings),
                folder,
                self.limits,
                self.pod,
            )
        finally:
            if not (keep_outputs or profile):
                shutil.rmtree(folder, ignore_errors=True)
