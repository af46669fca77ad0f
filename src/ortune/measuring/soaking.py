"""A soak: processes that call a model for long, alive together and taking turns, and their memory meanwhile."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ortune import monotonic
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.opening import Experiment
from ortune.records import ArrivalSchedule, Failed, FreshInput, NodeMemory, SoakDone, SoakPoint, TrialRequest
from ortune.targets.soaking import Soaking, SoakTask, prepared
from ortune.targets.task import Limits, Task
from ortune.targets.turns import load

POINTS = 96
"""Of a process, that its time should hold."""
SHORTEST_TURN_S, LONGEST_TURN_S = 0.03, 20.0
HANG_TIMES = 20.0
"""How many times as long as its whole soak a process may work before it is called a hang."""

Schedule = Callable[[int, Sequence[int]], ArrivalSchedule]
"""From a number of calls and a seed to when they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakArm:
    """A process that is wanted.

    Attributes:
        arm: Plan, model and inputs.
        fresh: Inputs with new values in each call.
        seed: Of the order of sizes and of the values; equal ones give equal calls.
        recreate: Calls after which the sessions are created again; 0 keeps them.
        trim: Return the allocator's free pages after each turn.
        nodes: Have ONNX Runtime record the memory of each node.
        callers: Threads that call each session; None for as many as in the workload.
    """

    arm: Arm
    fresh: tuple[FreshInput, ...]
    seed: int
    recreate: int = 0
    trim: bool = False
    nodes: bool = False
    callers: int | None = None


@dataclass(slots=True, kw_only=True)
class Followed:
    """The memory of one process.

    Attributes:
        points: After each turn; the first one without any call.
        done: Its end; None if it failed.
    """

    points: list[SoakPoint] = field(default_factory=list)
    done: SoakDone | None = None


@dataclass(slots=True, kw_only=True)
class Soaked(Followed):
    """What became of one process of a model.

    Attributes:
        wanted: What it is.
        failure: Why it ended early; None if it did not.
        counted: Number of calls, and the index of the last one's size.
        nodes: The memory of each node, if it was recorded.
    """

    wanted: SoakArm
    failure: Failed | None = None
    nodes: tuple[NodeMemory, ...] = ()
    counted: tuple[int, int] | None = None


class Soak:
    """Processes that are soaked together; each has as many calls as the others.

    Args:
        opened: The experiment.
        measuring: The model with its inputs, settled.
        arms: The processes.
        total_s: Seconds that they may take together; turns are cut for it.
        schedule: When calls start; None if each follows the one before.

    Attributes:
        goes_on: Whether the first process and others go on without one that has failed.
    """

    def __init__(
        self,
        opened: Experiment,
        measuring: Measuring,
        arms: Sequence[SoakArm],
        total_s: float,
        schedule: Schedule | None = None,
    ) -> None:
        self.opened, self.measuring = opened, measuring
        self.soaked = [Soaked(wanted=arm) for arm in arms]
        self.schedule = schedule
        self.turn_s = min(LONGEST_TURN_S, max(SHORTEST_TURN_S, total_s / (len(arms) * POINTS)))
        self.calls = 0
        self.goes_on = False
        self._rounds = self._most = 0
        self._next = 1
        self._limits = Limits(run_s=60 + HANG_TIMES * total_s)
        self._rng = random.Random(measuring.work.seed)
        self._live: list[tuple[Soaked, Soaking]] = []
        self._group: list[Soaking] = []

    def start(self) -> bool:
        """Start all processes and load the model in each; False after a stop."""
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

    def run(self, until_s: float, progress: Callable[[int, float], None]) -> bool:
        """Call until so many seconds of the budget are spent, or a process has failed; False after a stop.

        Args:
            until_s: On the clock of the budget.
            progress: Gets the calls of each process, and the memory held by the largest, in bytes.
        """
        watch, budget = self.opened.watch, self.opened.budget.running
        round_s = 0.0  # what the next one takes
        while self.whole and budget.spent_s + round_s < until_s:
            if watch.stop():
                return False
            calls = self._most or self._next
            took_s = self._round(calls)
            self.calls += calls
            self._next = max(1, self.calls)  # twice as many in all, until they take a turn's time
            if not self._most and long_enough(self.soaked, self.turn_s, took_s):
                self._most = calls
            round_s = took_s * (self._most or self._next) / calls
            held = [s.points[-1].held_bytes or 0 for s in self.soaked if s.points]
            progress(self.calls, float(max(held, default=0)))
        return True

    @property
    def whole(self) -> bool:
        """Whether all processes live; of those that go on without others, the first."""
        if self.goes_on:
            return bool(self._live) and self._live[0][1].live and self._live[0][0] is self.soaked[0]
        return all(process.live for _, process in self._live) and len(self._live) == len(self.soaked)

    def _round(self, calls: int) -> float:
        """One turn of each process, in random order; return the seconds that the processes worked."""
        self._rounds += 1
        took_s = 0.0
        live = [each for each in self._live if each[1].live]
        for soaked, process in self._rng.sample(live, len(live)):
            starts: tuple[int, ...] = ()
            if self.schedule is not None and calls:
                starts = self.schedule(calls, (soaked.wanted.seed, self._rounds)).starts_ns
            before_s = monotonic.now_s()
            process.turn(calls, starts)
            took_s += monotonic.now_s() - before_s
            soaked.points = process.points
            if process.live:
                self.opened.log.add("soak", {"arm": soaked.wanted.arm.name, "point": process.points[-1]})
        return took_s

    def close(self) -> list[Soaked]:
        """Have each process report, end all of them, and return what became of them."""
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
        task = Task(
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


def long_enough(soaked: Sequence[Followed], turn_s: float, took_s: float) -> bool:
    """Return whether the calls of the last round take its time, and not what surrounds them.

    Args:
        soaked: The processes.
        turn_s: Seconds that the turn of one should take.
        took_s: What the round took.
    """
    turns = [each.points[-2:] for each in soaked if len(each.points) > 1]
    active_s = sum((after.active_ns - before.active_ns) / 1e9 for before, after in turns)
    return active_s >= max(turn_s * len(turns) / 2, (took_s - active_s) / 2)


def as_is(measuring: Measuring, fresh: tuple[FreshInput, ...], n: int, recreate: int) -> list[SoakArm]:
    """Return n processes of a side as it is, each with calls of its own."""
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
