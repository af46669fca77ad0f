"""Turns of trials that are alive together: one works while the others sleep.

Consecutive trials of a block, seconds apart, would see different states of a shared machine. Short turns of a few runs
expose all trials equally to the load of other programs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ortune.platform import SensorSnapshot
from ortune.records import Outcome


class Runner(Protocol):
    """Interface of a runner of one trial that waits for its turns: a process, or a page in a browser.

    A failing step ends the runner; further steps have no effect.
    """

    @property
    def live(self) -> bool:
        """Whether the runner has neither failed nor finished."""
        ...

    @property
    def held_bytes(self) -> int:
        """Bytes of this machine's memory that the runner uses now."""
        ...

    def start(self) -> None:
        """Begin to load the model, without waiting until it is loaded."""
        ...

    def loaded(self) -> bool:
        """Wait briefly; return whether the runner has loaded the model and sleeps, or has failed."""
        ...

    def warm(self) -> None:
        """Run each case once and warm up, then sleep."""
        ...

    def batch(self, runs: int, unmeasured: int) -> None:
        """Time a batch of runs after some untimed runs, then sleep."""
        ...

    def finish(self) -> None:
        """Report the measurements and end."""
        ...

    def close(self) -> None:
        """End all processes of the runner."""
        ...

    def outcome(self, before: SensorSnapshot, after: SensorSnapshot) -> Outcome:
        """Return the outcome of the closed runner, given the sensor readings before and after all turns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """Division of time among the trials of a group.

    Attributes:
        runs: Timed runs per turn, for each case and caller.
        unmeasured: Untimed runs before the timed runs of a turn.
        rounds: Turns per trial.
    """

    runs: int
    unmeasured: int
    rounds: int

    def describe(self) -> str:
        """Return a description, such as "6 turns of 8 runs after 2 unmeasured"."""
        first = f" after {self.unmeasured} unmeasured" if self.unmeasured else ""
        turns, runs = ("turn" if self.rounds == 1 else "turns", "run" if self.runs == 1 else "runs")
        return f"{self.rounds} {turns} of {self.runs} {runs}{first}"


ALONE = Turns(runs=0, unmeasured=0, rounds=0)
"""Turns of a trial that is only loaded and run once."""


def load(runners: Sequence[Runner], stop: Callable[[], bool]) -> bool:
    """Start a group of runners, and wait until all have loaded; return False if the session was stopped.

    All trials load at once on all CPUs, so load times are only valid for a single trial.
    """
    for runner in runners:
        runner.start()
    loading = list(runners)
    while loading:
        loading = [runner for runner in loading if not runner.loaded()]
        if stop():
            return False
    return True


def take_turns(runners: Sequence[Runner], turns: Turns, rng: random.Random, stop: Callable[[], bool]) -> bool:
    """Run the turns of a loaded group, and get its reports; return False if the session was stopped.

    One trial works at a time. The order of each round is drawn at random, so no trial always follows the same trial.
    """
    for runner in runners:
        if stop():
            return False
        runner.warm()
    for _ in range(turns.rounds):
        # A failed trial has no more turns; the others continue.
        live = [runner for runner in runners if runner.live]
        rng.shuffle(live)
        for runner in live:
            if stop():
                return False
            runner.batch(turns.runs, turns.unmeasured)
    for runner in runners:
        runner.finish()
    return True
