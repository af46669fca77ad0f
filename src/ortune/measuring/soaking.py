"""Soaks a model: processes that are alive together call it in turn for a long time, and report their memory."""

from __future__ import annotations

import random
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ortune import monotonic
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.records import ArrivalSchedule, Failed, FreshInput, NodeMemory, SoakDone, SoakPoint, TrialRequest
from ortune.targets.soak_runner import prepared
from ortune.targets.soaking import Soaking, SoakTask
from ortune.targets.task import Limits, TrialTask
from ortune.targets.turns import load

POINTS = 96
"""Preferred number of memory points per process."""
SHORTEST_TURN_S, LONGEST_TURN_S = 0.03, 20.0
HANG_TIMES = 20.0
"""Multiple of the whole soak's duration after which a process counts as hanging."""

Schedule = Callable[[int, Sequence[int]], ArrivalSchedule]
"""Function that returns the start times of a number of calls, drawn with the given seeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakArm:
    """The configuration of one process of a soak.

    Attributes:
        arm: Plan, model and inputs.
        fresh: Inputs with new values in each call.
        seed: Seed of the order of sizes and of the input values; equal seeds give equal calls.
        recreate: Number of calls after which sessions are created again; 0 to keep them.
        trim: Whether to return the allocator's free pages after each turn.
        nodes: Whether ONNX Runtime records the memory of each node.
        callers: Number of threads that call each session; None for the workload's number.
    """

    arm: Arm
    fresh: tuple[FreshInput, ...]
    seed: int
    recreate: int = 0
    trim: bool = False
    nodes: bool = False
    callers: int | None = None

    def renamed(self, name: str) -> SoakArm:
        """Return the same configuration under another name."""
        return replace(self, arm=replace(self.arm, name=name))


@dataclass(slots=True, kw_only=True)
class ProcessMemory:
    """The memory of one process.

    Attributes:
        points: Memory after each turn; the first point is before any call.
        done: Final report of the process; None if it failed.
    """

    points: list[SoakPoint] = field(default_factory=list)
    done: SoakDone | None = None


@dataclass(slots=True, kw_only=True)
class SoakedProcess(ProcessMemory):
    """The results of one process of a soaked model.

    Attributes:
        wanted: The configuration of the process.
        failure: The error that ended the process early; None if there was none.
        counted: Number of calls, and index of the last call's size.
        nodes: The memory of each node, if it was recorded.
    """

    wanted: SoakArm
    failure: Failed | None = None
    nodes: tuple[NodeMemory, ...] = ()
    counted: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """Name of the process in the result."""
        return self.wanted.arm.name


class RunningSoak(ABC):
    """Processes that are soaked together, in turns of equally many repetitions.

    Args:
        opened: The experiment.
        n: Number of processes.
        total_s: Seconds for all processes together, which determine the length of a turn.

    Attributes:
        soaked: The processes.
        repeats: Number of repetitions so far: calls of each process, or rounds through the steps of an application.
        creates_first: Whether the first repetition creates all sessions, so that its duration decides nothing.
        goes_on: Whether the soak continues without failed processes, as long as the first process is alive.
    """

    soaked: Sequence[ProcessMemory]
    creates_first = False

    def __init__(self, opened: Experiment, n: int, total_s: float) -> None:
        self.opened = opened
        self.repeats = 0
        self.goes_on = False
        self._turn_s = min(LONGEST_TURN_S, max(SHORTEST_TURN_S, total_s / (n * POINTS)))
        self._limits = Limits(run_s=60 + HANG_TIMES * total_s)
        self._most = 0

    @property
    @abstractmethod
    def all_alive(self) -> bool:
        """Whether all processes are alive; with ``goes_on``, whether the first process is."""

    @abstractmethod
    def _round(self, repeats: int) -> float:
        """Run one turn in each process; return the duration in seconds."""

    def run(self, until_s: float, progress: Callable[[Sequence[SoakPoint]], None]) -> bool:
        """Repeat until the budget's clock reaches a time or a process fails; return False after a stop.

        Args:
            until_s: Time on the budget's clock, in seconds.
            progress: Called after each round with the last point of each process.
        """
        watch, budget = self.opened.watch, self.opened.budget.running
        round_s = 0.0  # estimated duration of the next round
        while self.all_alive and budget.spent_s + round_s < until_s:
            if watch.stop():
                return False
            repeats = self._most or max(1, self.repeats)  # doubles the total until a round is long enough
            took_s = self._round(repeats)
            decides = not self._most and (self.repeats or not self.creates_first)
            self.repeats += repeats
            if decides and self._is_long_enough(took_s):
                self._most = repeats
            round_s = took_s * (self._most or self.repeats) / repeats
            progress([each.points[-1] for each in self.soaked if each.points])
        return True

    def _is_long_enough(self, took_s: float) -> bool:
        """Return whether the last round was long enough, and consisted mostly of calls rather than overhead."""
        turns = [each.points[-2:] for each in self.soaked if len(each.points) > 1]
        active_s = sum((after.active_ns - before.active_ns) / 1e9 for before, after in turns)
        return active_s >= max(self._turn_s * len(turns) / 2, (took_s - active_s) / 2)


class ModelSoak(RunningSoak):
    """Processes that are soaked together; each makes the same number of calls.

    Args:
        opened: The experiment.
        measuring: The model, with settled inputs.
        arms: The processes.
        total_s: Seconds for all processes together, which determine the length of a turn.
        schedule: Start times of calls; None if each call follows the previous one.
    """

    def __init__(
        self,
        opened: Experiment,
        measuring: Measuring,
        arms: Sequence[SoakArm],
        total_s: float,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(opened, len(arms), total_s)
        self.measuring = measuring
        self.soaked: list[SoakedProcess] = [SoakedProcess(wanted=arm) for arm in arms]
        self.schedule = schedule
        self._rounds = 0
        self._rng = random.Random(measuring.work.seed)
        self._live: list[tuple[SoakedProcess, Soaking]] = []
        self._group: list[Soaking] = []

    def start(self) -> bool:
        """Start all processes and load the model in each; return False after a stop."""
        machine = self.measuring.machine
        for soaked in self.soaked:
            process = prepared(self._task(soaked.wanted), machine, self._group)
            if isinstance(process, Failed):
                soaked.failure = process
                continue
            self._group.append(process)
            self._live.append((soaked, process))
        if not load(self._group, self.opened.watch.stop):
            return False
        self._round(0)
        return True

    @property
    def all_alive(self) -> bool:
        """Whether all processes are alive; with ``goes_on``, whether the first process is."""
        if self.goes_on:
            return bool(self._live) and self._live[0][1].live and self._live[0][0] is self.soaked[0]
        return all(process.live for _, process in self._live) and len(self._live) == len(self.soaked)

    def _round(self, repeats: int) -> float:
        """Run one turn of ``repeats`` calls in each process, in random order; return the duration in seconds."""
        self._rounds += 1
        took_s = 0.0
        live = [each for each in self._live if each[1].live]
        for soaked, process in self._rng.sample(live, len(live)):
            starts: tuple[int, ...] = ()
            if self.schedule is not None and repeats:
                starts = self.schedule(repeats, (soaked.wanted.seed, self._rounds)).starts_ns
            before_s = monotonic.now_s()
            process.turn(repeats, starts)
            took_s += monotonic.now_s() - before_s
            soaked.points = process.points
            if process.live:
                self.opened.log.add("soak", {"arm": soaked.wanted.arm.name, "point": process.points[-1]})
        return took_s

    def close(self) -> list[SoakedProcess]:
        """Let each process report, end all processes, and return the results."""
        try:
            for _, process in self._live:
                if process.live and process.points:
                    process.conclude()
        finally:
            for process in self._group:
                process.close()
        for soaked, process in self._live:
            soaked.points, soaked.done = process.points, process.done
            soaked.failure, soaked.counted, soaked.nodes = process.failure, process.counted, process.nodes
            shutil.rmtree(process.folder, ignore_errors=True)
        return self.soaked

    def _task(self, wanted: SoakArm) -> SoakTask:
        arm, work = wanted.arm, self.measuring.work
        folder = self.measuring.scratch / f"soak-{arm.name}"
        folder.mkdir()
        request = TrialRequest(
            model=str(arm.model),
            feeds=arm.feeds,
            gap_ns=work.gap_ns,
            seed=work.seed,
            sessions=work.sessions,
            callers=wanted.callers or work.callers,
            custom_ops=work.custom_ops,
        )
        task = TrialTask(
            plan=arm.plan,
            runtime=arm.runtime,
            request=request,
            folder=folder,
            scratch=self.measuring.scratch,
            limits=self._limits,
        )
        return SoakTask(
            task=task,
            fresh=wanted.fresh,
            seed=wanted.seed,
            recreate=wanted.recreate,
            trim=wanted.trim,
            nodes=wanted.nodes,
        )


def as_is(measuring: Measuring, fresh: tuple[FreshInput, ...], n: int, recreate: int) -> list[SoakArm]:
    """Return the arms of ``n`` processes of the unchanged side, each with different calls."""
    base = measuring.arm("as-is")
    return [
        SoakArm(
            arm=replace(base, name=f"as-is-{number + 1}"),
            fresh=fresh,
            seed=measuring.work.seed + number,
            recreate=recreate,
        )
        for number in range(n)
    ]
