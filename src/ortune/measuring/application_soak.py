"""Soaks a recorded application: its processes repeat their steps in turn."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from ortune import monotonic
from ortune.inputs.fresh import fresh_inputs
from ortune.inputs.played import ReplayPart, Script
from ortune.measuring.application import RECORDED, Application, Variant
from ortune.measuring.soaking import ProcessMemory, RunningSoak
from ortune.records import (
    Applied,
    FreshInput,
    Loaded,
    PlaySoakRequest,
    SoakDone,
    TrialError,
)
from ortune.targets.soaking import SoakingPlayer
from ortune.targets.worker import POLL_LOADING_S

RECORDED_AS_IS = Variant(name=RECORDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedArm:
    """The configuration of one process of a soak.

    Attributes:
        name: Name of the process in the result.
        number: Index of the recorded process's script.
        script: The steps, without times.
        seed: Seed of the input values; equal seeds give equal calls.
        variant: Changes to the recorded sessions.
        fresh: Whether inputs have new values in each call.
        trim: Whether to return the allocator's free pages after each turn.
        variables: Further settings of the process.
    """

    name: str
    number: int
    script: Script
    seed: int
    variant: Variant = RECORDED_AS_IS
    fresh: bool = True
    trim: bool = False
    variables: tuple[Applied, ...] = ()

    def renamed(self, name: str) -> PlayedArm:
        """Return the same configuration under another name."""
        return replace(self, name=name)


@dataclass(slots=True, kw_only=True)
class SoakedScript(ProcessMemory):
    """The results of one process of a soak.

    Attributes:
        arm: The configuration of the process.
        failure: The error that ended the process early; None if there was none.
    """

    arm: PlayedArm
    failure: TrialError | None = None

    @property
    def name(self) -> str:
        """Name of the process in the result."""
        return self.arm.name

    @property
    def script(self) -> int:
        """Index of the recorded process's script."""
        return self.arm.number


class ApplicationSoak(RunningSoak):
    """Processes of an application that are soaked together; each plays its steps equally often.

    Args:
        application: The application, with its models opened.
        arms: The processes.
        total_s: Seconds for all processes together, which determine the length of a turn.
    """

    creates_first = True

    def __init__(self, application: Application, arms: Sequence[PlayedArm], total_s: float) -> None:
        super().__init__(application.opened, len(arms), total_s)
        self.application = application
        self.soaked: list[SoakedScript] = [SoakedScript(arm=arm) for arm in arms]
        bases = application.bases
        self._fresh = [
            [fresh_inputs(bases[feed.model].work) if feed.model in bases else () for feed in arm.script.feeds]
            for arm in arms
        ]
        self._workers: list[SoakingPlayer] = []

    @property
    def fresh(self) -> list[tuple[FreshInput, ...]]:
        """Inputs with new values in each call, as one tuple for each feed of each process."""
        return [inputs for script in self._fresh for inputs in script]

    def start(self) -> bool:
        """Start all processes; return False after a stop."""
        application, opened = self.application, self.opened
        for soaked, fresh in zip(self.soaked, self._fresh, strict=True):
            arm = soaked.arm
            request = PlaySoakRequest(
                play=application.request(arm.script, arm.variant),
                fresh=tuple(fresh) if arm.fresh else tuple(() for _ in fresh),
                seed=arm.seed,
                trim=arm.trim,
            )
            folder = opened.scratch / f"soak-{soaked.name}"
            folder.mkdir()
            worker = SoakingPlayer(application.runtime, folder, opened.scratch, self._limits)
            self._workers.append(worker)
            worker.begin((*application.variables(arm.script, arm.variant), *arm.variables), request)
        loading = list(self._workers)
        while loading:
            loading = [each for each in loading if each.live and not each.follow(Loaded, POLL_LOADING_S)]
            if opened.watch.stop():
                return False
        self._round(0)
        return True

    @property
    def all_alive(self) -> bool:
        """Whether all processes are alive; with ``goes_on``, whether the first process is."""
        return self._workers[0].live if self.goes_on else all(worker.live for worker in self._workers)

    def _round(self, repeats: int) -> float:
        """Run one turn of ``repeats`` rounds in each process; return the duration in seconds."""
        began_s = monotonic.now_s()
        for soaked, worker in zip(self.soaked, self._workers, strict=True):
            if not worker.live:
                continue
            worker.turn(repeats)
            soaked.points = worker.points
            if worker.live:
                self.opened.log.add("soak", {"arm": soaked.name, "point": worker.points[-1]})
        return monotonic.now_s() - began_s

    def close(self) -> list[SoakedScript]:
        """Let each process report, end all processes, and return the results."""
        try:
            for worker in self._workers:
                worker.conclude()
        finally:
            for worker in self._workers:
                worker.close()
        for soaked, worker in zip(self.soaked, self._workers, strict=False):
            soaked.done = worker.end if isinstance(worker.end, SoakDone) else None
            soaked.failure = worker.end if isinstance(worker.end, TrialError) else None
            shutil.rmtree(worker.folder, ignore_errors=True)
        return self.soaked


def as_is(played: ReplayPart, copies: int, seed: int) -> list[PlayedArm]:
    """Return the arms of an unchanged application, ``copies`` for each recorded process."""
    scripts = [without_times(script) for script in played.scripts]
    return [
        PlayedArm(
            name=f"as-is-{number + 1}-{copy + 1}",
            number=number,
            script=script,
            seed=seed + copies * number + copy,
        )
        for number, script in enumerate(scripts)
        for copy in range(copies)
    ]


def without_times(script: Script) -> Script:
    """Return a script without times and without the steps after its last call."""
    last = max((number for number, step in enumerate(script.steps) if step.do == "call"), default=-1)
    steps = (msgspec.structs.replace(step, at_ns=0) for step in script.steps[: last + 1])
    return replace(script, steps=tuple(steps))
