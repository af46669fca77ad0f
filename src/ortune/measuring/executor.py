"""Arms and their trials, each run in a process and journalled before it starts."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ortune.catalogue.providers import find
from ortune.records import ArrivalSchedule, FeedRef, Measured, Outcome, Plan, Runtime, TrialRequest, Workload
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import ALONE, Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """The configuration of a trial: a plan for a model on a runtime, with feeds."""

    name: str
    plan: Plan
    model: Path
    runtime: Runtime
    feeds: tuple[FeedRef, ...]
    wait_ratio: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Number and duration of the runs of a trial, equal for all arms.

    Attributes:
        runs: Number of runs of a separate trial, all in one turn.
        turns: Turns of the trials in a group.
        warmup_runs, warmup_ns: Minimum number of runs and minimum time of the warm-up; 0 runs for no warm-up.
        warmup_cap_ns: Maximum time of the warm-up, whether or not times are steady.
    """

    runs: int = 20
    turns: Turns = Turns(runs=8, unmeasured=2, rounds=6)  # noqa: RUF009  (frozen)
    warmup_runs: int = 3
    warmup_ns: int = 30_000_000
    warmup_cap_ns: int = 2_000_000_000


IN_SOFTWARE = Turns(runs=3, unmeasured=0, rounds=1)
"""Turns of profiled runs on an emulated GPU, where a run takes seconds."""


class Executor:
    """Runs trials of arms.

    Args:
        arms: The arms by name.
        workload: Seed, gap and custom operators.
        folder: Scratch folder of this invocation.
        log: Journal, to which a trial is added before it starts.
        machine: The machine that runs the trials.

    Attributes:
        timing, limits: Timing and limits of later trials.
        most_alive: Maximum number of processes that fit in memory at once.
        recorded: Called before each trial; returns its outcome if an interrupted session measured it.
        ended: Returns the session time at which a trial ended, in nanoseconds; None without such a clock.
        passed: Callback after work that is not a trial of the session.
        last: The latest outcome; None before the first trial.
        reference: Folder of the reference outputs; None if there are none yet.
        caches: Whether trials may keep compiled code for later trials, which takes seconds in a browser.
        arrivals: Start times of calls in later trials; None if each call follows the previous one.
    """

    def __init__(
        self, arms: dict[str, Arm], workload: Workload, folder: Path, log: SessionLog, machine: Machine
    ) -> None:
        self.arms = arms
        self.machine = machine
        self.timing = Timing()
        self.limits = Limits()
        self.most_alive = 8
        self.recorded: Callable[[str, str], Outcome | None] | None = None
        self.ended: Callable[[], int] | None = None
        self.passed: Callable[[], None] = lambda: None
        self.last: Outcome | None = None
        self.reference: Path | None = None
        self.caches = True
        self.arrivals: ArrivalSchedule | None = None
        self._wrote: list[tuple[Arm, float]] = []  # arms that wrote a cache, with their load time
        self._rng = random.Random(workload.seed)
        self._workload = workload
        self._folder = folder
        self._log = log
        self._count = 0

    def __call__(
        self, arms: Sequence[str], stop: Callable[[], bool], /, *, keep: Collection[str] = ()
    ) -> tuple[Outcome, ...] | None:
        """Run trials of these arms, alive together and taking turns; return None after a stop."""
        mine = [self.arms[name] for name in arms]
        recorded = [self.recorded(arm.name, arm.plan.id) if self.recorded else None for arm in mine]
        played = tuple(outcome for outcome in recorded if outcome is not None)
        if len(played) == len(mine):
            self._count += len(played)  # later trials get the same number as without the interruption
            self.last = played[-1]
            return played
        # Comparing the last turn with the first shows whether they were warm.
        timing = replace(self.timing, warmup_cap_ns=0)
        return self._group(mine, timing, stop, {arm.name for arm in mine if arm.name in keep})

    @contextmanager
    def keeping_last(self) -> Iterator[None]:
        """Restore ``last`` afterwards, since the cost of a run is read from it."""
        last = self.last
        try:
            yield
        finally:
            self.last = last

    @contextmanager
    def without_warmup(self) -> Iterator[None]:
        """Run trials without a warm-up."""
        timing = self.timing
        self.timing = replace(timing, warmup_runs=0, warmup_ns=0)
        try:
            yield
        finally:
            self.timing = timing

    def trial(
        self,
        arm: Arm,
        *,
        runs: int | None = None,
        keep_outputs: bool = False,
        fresh: bool = False,
        split: bool = False,
    ) -> Outcome:
        """Run one trial alone, with all of its runs in one turn; ``runs=0`` loads the model and runs it once.

        ``keep_outputs`` keeps the outputs, at the path in the outcome. ``fresh`` ignores recorded outcomes. ``split``
        times transfers if the device has its own memory.
        """
        recorded = self.recorded(arm.name, arm.plan.id) if self.recorded and not fresh else None
        if recorded is not None:
            self._count += 1
            self.last = recorded
            return recorded
        runs = self.timing.runs if runs is None else runs
        timing = replace(
            self.timing,
            turns=Turns(runs=runs, unmeasured=0, rounds=1) if runs else ALONE,
            warmup_runs=self.timing.warmup_runs if runs else 0,
        )
        outcomes = self._group(
            [arm],
            timing,
            lambda: False,
            {arm.name} if keep_outputs else set(),
            split={arm.name} if split and _has_memory(arm) else set(),
            fresh=fresh,
        )
        assert outcomes is not None
        return outcomes[0]

    def untimed(self, arm: Arm) -> Outcome:
        """Run an arm once only for its outputs, which are kept; this is not a trial of the session, nor replayed."""
        return self.trial(arm, runs=0, keep_outputs=True, fresh=True)

    def profiled(self, arms: Sequence[Arm], turns: Turns) -> list[tuple[Outcome, Outcome | None]]:
        """Run each arm with and without ONNX Runtime's profiler, in turn; return (profiled, plain) pairs of outcomes.

        These are not trials of the session, since profiling changes their times. As many arms run at once as fit in
        memory. ``done.profile`` of the first outcome is the path of the trace in the scratch folder. The second run
        times transfers if the device has its own memory; it is None if the last trial's GPU was emulated, and then few
        runs are profiled.
        """
        timing = replace(self.timing, turns=turns, warmup_runs=3, warmup_ns=0, warmup_cap_ns=0)
        kinds = ["profiled", "plain"]
        if self._in_software(arms):
            timing = replace(timing, turns=IN_SOFTWARE, warmup_runs=0)
            kinds = ["profiled"]
        sets = [[replace(arm, name=f"{i}-{kind}") for kind in kinds] for i, arm in enumerate(arms)]
        watched = {both[0].name for both in sets}
        split = {both[1].name for both in sets if both[1:] and _has_memory(both[1])}
        # most_alive counts processes, and each arm is two of them here.
        at_once = max(1, self.most_alive // 2)
        pairs: list[tuple[Outcome, Outcome | None]] = []
        for i in range(0, len(sets), at_once):
            flat = [arm for both in sets[i : i + at_once] for arm in both]
            groups = [flat] if self.most_alive > 1 else [[arm] for arm in flat]
            outcomes: list[Outcome] = []
            for group in groups:
                ended = self._group(group, timing, lambda: False, (), watched, split, fresh=True)
                assert ended is not None
                outcomes += ended
            plain = outcomes[1::2] if "plain" in kinds else [None] * len(outcomes)
            pairs += zip(outcomes[:: len(kinds)], plain, strict=True)
        return pairs

    def _in_software(self, arms: Sequence[Arm]) -> bool:
        """Return whether the last trial's GPU or NPU was emulated by the CPU."""
        if not isinstance(self.last, Measured):
            return False
        page, devices = self.last.done.page, self.last.done.devices
        in_page = page is not None and page.software
        return in_page or any(find(arm.plan.provider_names[0]).emulated_by(devices) for arm in arms)

    def _group(
        self,
        arms: Sequence[Arm],
        timing: Timing,
        stop: Callable[[], bool],
        keep: Collection[str],
        profiled: Collection[str] = (),
        split: Collection[str] = (),
        *,
        fresh: bool = False,
    ) -> tuple[Outcome, ...] | None:
        """Run a group, journal each trial before it starts and all outcomes afterwards; return None after a stop."""
        # Runs that are repeated only for their outputs are not trials of the session.
        kinds = ("untimed", "untimed-outcome") if fresh else ("trial", "outcome")
        # Random operators must draw other numbers in each group: with one seed for all, a model seemed to equal itself,
        # and any rewrite that shifts the numbers seemed different. Trials of a group share the seed, since the work may
        # depend on it.
        seed = self._workload.seed if fresh else self._workload.seed + self._count
        names = []
        for arm in arms:
            self._count += 1
            names.append(f"{self._count:04d}-{arm.name}")
            self._log.add(kinds[0], {"trial": names[-1], "arm": arm.name, "plan": arm.plan})
        tasks = [
            self._task(
                arm,
                name,
                timing,
                seed,
                keep=arm.name in keep,
                profile=arm.name in profiled,
                split=arm.name in split,
            )
            for arm, name in zip(arms, names, strict=True)
        ]
        try:
            outcomes = run(tasks, self.machine, timing.turns, self._rng, stop)
        finally:
            for arm, task in zip(arms, tasks, strict=True):
                if arm.name not in keep and arm.name not in profiled:
                    shutil.rmtree(task.folder, ignore_errors=True)
        if outcomes is None:
            return None
        self.last = outcomes[-1]
        for arm, name, outcome in zip(arms, names, outcomes, strict=True):
            # Time on the session's clock, which stops while nothing is measured.
            at = {} if fresh or self.ended is None else {"ended_ns": self.ended()}
            event = {"trial": name, "arm": arm.name, "plan_id": arm.plan.id, "outcome": outcome, **at}
            self._log.add(kinds[1], event)
            if isinstance(outcome, Measured) and outcome.done.wrote:
                self._wrote.append((arm, float(outcome.done.load_ns)))
        if fresh:
            self.passed()
        return outcomes

    def first_load_ns(self, name: str, plan: Plan | None = None) -> float | None:
        """Return the load time of the first trial of an arm or plan that wrote a cache; None if no trial did."""
        same = (load for arm, load in self._wrote if (arm.plan.id == plan.id if plan else arm.name == name))
        return next(same, None)

    def _task(
        self, arm: Arm, name: str, timing: Timing, seed: int, *, keep: bool, profile: bool, split: bool
    ) -> TrialTask:
        folder = self._folder / name
        folder.mkdir()
        request = TrialRequest(
            model=str(arm.model),
            feeds=arm.feeds,
            warmup_runs=timing.warmup_runs,
            warmup_ns=timing.warmup_ns,
            warmup_cap_ns=timing.warmup_cap_ns,
            gap_ns=self._workload.gap_ns,
            wait_ratio=arm.wait_ratio,
            seed=seed,
            sessions=self._workload.sessions,
            callers=self._workload.callers,
            custom_ops=self._workload.custom_ops,
            outputs_path=str(folder / "outputs") if keep else "",
            profile_path=str(folder / "profile") if profile else "",
            name_nodes=not timing.warmup_runs,  # of a trial that is inspected, not timed
            transfers=split,
            arrivals=self.arrivals if timing.turns.rounds else None,
        )
        return TrialTask(
            plan=arm.plan,
            runtime=arm.runtime,
            request=request,
            folder=folder,
            scratch=self._folder,
            limits=self.limits,
            reference=self.reference,
            caches=self.caches,
        )


def _has_memory(arm: Arm) -> bool:
    """Return whether an arm's device has separate memory, in which values can stay between runs."""
    return bool(find(arm.plan.provider_names[0]).memory)
