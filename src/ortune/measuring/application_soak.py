"""Soak of a recorded application: its processes repeat their steps in turn."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from ortune import monotonic
from ortune.inputs.fresh import fresh_inputs
from ortune.inputs.played import Played, Script
from ortune.measuring.application import RECORDED, Application, Variant
from ortune.measuring.soaking import Followed, long_enough, turn_limits, turn_s
from ortune.records import (
    FreshInput,
    Loaded,
    PlaySoakRequest,
    SoakDone,
    TrialError,
)
from ortune.targets.soaking import SoakingPlayer
from ortune.targets.worker import POLL_LOADING_S


@dataclass(slots=True, kw_only=True)
class SoakedScript(Followed):
    """The results of one process of a soak.

    Attributes:
        name: Name of the process in the answer.
        script: Index of the script that it plays.
        failure: The error that ended it early; None if there was none.
    """

    name: str
    script: int
    failure: TrialError | None = None


class ApplicationSoak:
    """Processes of an application that are soaked together; each plays its steps equally often.

    Args:
        application: The application, with its models opened.
        played: The part to play, without the times between steps.
        copies: Number of processes for each recorded one.
        total_s: Seconds for all processes together, which determine the length of a turn.
    """

    def __init__(self, application: Application, played: Played, copies: int, total_s: float) -> None:
        self.application, self.played = application, played
        self.soaked = [
            SoakedScript(name=f"as-is-{number + 1}-{copy + 1}", script=number)
            for number in range(len(played.scripts))
            for copy in range(copies)
        ]
        self.turn_s = turn_s(len(self.soaked), total_s)
        self.rounds = 0
        bases = application.bases
        self._fresh = [
            [fresh_inputs(bases[feed.model].work) if feed.model in bases else () for feed in script.feeds]
            for script in played.scripts
        ]
        self._limits = turn_limits(total_s)
        self._workers: list[SoakingPlayer] = []

    @property
    def fresh(self) -> list[tuple[FreshInput, ...]]:
        """Inputs with new values in each call, one tuple for each feed of a script."""
        return [inputs for script in self._fresh for inputs in script]

    def start(self) -> bool:
        """Start all processes; return False after a stop."""
        application, opened = self.application, self.application.opened
        variant = Variant(name=RECORDED)
        for number, soaked in enumerate(self.soaked):
            script = without_times(self.played.scripts[soaked.script])
            request = PlaySoakRequest(
                play=application.request(script, variant),
                fresh=tuple(self._fresh[soaked.script]),
                seed=opened.terms.feeds.seed + number,
            )
            folder = opened.scratch / f"soak-{soaked.name}"
            folder.mkdir()
            worker = SoakingPlayer(application.runtime, folder, opened.scratch, self._limits)
            self._workers.append(worker)
            worker.begin(application.variables(script, variant), request)
        loading = list(self._workers)
        while loading:
            loading = [each for each in loading if each.live and not each.follow(Loaded, POLL_LOADING_S)]
            if opened.watch.stop():
                return False
        self._round(0)
        return True

    def run(self, until_s: float, progress: Callable[[int, float], None]) -> bool:
        """Play until the budget's clock reaches a time or a process fails; return False after a stop.

        Args:
            until_s: Time on the budget's clock, in seconds.
            progress: Called with the calls of all processes, and the memory of the largest in bytes.
        """
        watch, budget = self.application.opened.watch, self.application.opened.budget.running
        rounds, most, round_s = 1, 0, 0.0
        while all(worker.live for worker in self._workers) and budget.spent_s + round_s < until_s:
            if watch.stop():
                return False
            took_s = self._round(most or rounds)
            first = not self.rounds  # in which all sessions are created
            self.rounds += most or rounds
            if not most and not first and long_enough(self.soaked, self.turn_s, took_s):
                most = rounds
            more = 1 if most or first else 2
            round_s, rounds = more * took_s, more * rounds
            last = [soaked.points[-1] for soaked in self.soaked if soaked.points]
            held = max((point.held_bytes or 0 for point in last), default=0)
            progress(sum(point.calls for point in last), float(held))
        return True

    def _round(self, rounds: int) -> float:
        """Run one turn of each process; return the duration in seconds."""
        began_s = monotonic.now_s()
        for soaked, worker in zip(self.soaked, self._workers, strict=True):
            worker.turn(rounds)
            soaked.points = worker.points
            if worker.live:
                self.application.opened.log.add("soak", {"arm": soaked.name, "point": worker.points[-1]})
        return monotonic.now_s() - began_s

    def close(self) -> list[SoakedScript]:
        """Let each process report, end all of them, and return the results."""
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


def without_times(script: Script) -> Script:
    """Return a script without times and without the steps after its last call."""
    last = max((number for number, step in enumerate(script.steps) if step.do == "call"), default=-1)
    steps = (msgspec.structs.replace(step, at_ns=0) for step in script.steps[: last + 1])
    return replace(script, steps=tuple(steps))
