"""Taking turns: trials alive together, of which one works while the others sleep.

One after another, seconds apart, the trials of a block meet different moods of a shared machine. Handing the turn
round every few runs lets a neighbour's phase hit all of them alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ortune.platform import Snapshot
from ortune.records import Outcome


class Runner(Protocol):
    """Whatever runs one trial and can wait for its turn: a process, later a page in a browser.

    A step that fails ends the runner; further steps do nothing.
    """

    @property
    def live(self) -> bool:
        """Whether the runner has neither failed nor finished."""
        ...

    @property
    def held_bytes(self) -> int:
        """Memory of this machine that it holds now."""
        ...

    def start(self) -> None:
        """Begin to load the model, without waiting for it."""
        ...

    def loaded(self) -> bool:
        """Wait a moment; returns whether it has loaded the model, or failed to, and sleeps."""
        ...

    def warm(self) -> None:
        """Runs once and warms up, then sleeps."""
        ...

    def batch(self, runs: int, unmeasured: int) -> None:
        """Time a batch of runs after some that are not timed, then sleeps."""
        ...

    def finish(self) -> None:
        """Reports and ends."""
        ...

    def close(self) -> None:
        """Make sure that nothing of it is left alive."""
        ...

    def outcome(self, before: Snapshot, after: Snapshot) -> Outcome:
        """Return what became of it, once it is closed; the sensors as they were before its first turn, and now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How the trials of a group share the time.

    Attributes:
        runs: Timed runs of a turn, each case and caller.
        unmeasured: Runs before them.
        rounds: Turns that each trial has.
    """

    runs: int
    unmeasured: int
    rounds: int

    def describe(self) -> str:
        """Describe the turns: "6 turns of 8 runs after 2 unmeasured ones"."""
        first = f" after {self.unmeasured} unmeasured" if self.unmeasured else ""
        turns, runs = ("turn" if self.rounds == 1 else "turns", "run" if self.runs == 1 else "runs")
        return f"{self.rounds} {turns} of {self.runs} {runs}{first}"


ALONE = Turns(runs=0, unmeasured=0, rounds=0)
"""Loaded and run once."""


def load(runners: Sequence[Runner], stop: Callable[[], bool]) -> bool:
    """Start a group; False if the session was stopped.

    All load at once, on all of the CPUs: how long that takes is known only of a trial alone.
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
    """Run a loaded group up to its reports; False if the session was stopped.

    One works at a time. The order of each round is drawn afresh, so that no trial always follows the same one.
    """
    for runner in runners:
        if stop():
            return False
        runner.warm()
    for _ in range(turns.rounds):
        # One that failed has no more turns; the others go on without it.
        live = [runner for runner in runners if runner.live]
        rng.shuffle(live)
        for runner in live:
            if stop():
                return False
            runner.batch(turns.runs, turns.unmeasured)
    for runner in runners:
        runner.finish()
    return True
