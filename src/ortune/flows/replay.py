"""Going on where a session was cut off: its outcomes are played back, in order, then real trials follow.

A tuning session is a function of its seed, its options and the outcomes of its trials (their durations are its
clock), so playing the outcomes back leads to the very point where it stopped, and no trial is measured twice.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

import msgspec

from ortune.records import Measured, Outcome, OutputDifference
from ortune.store.db import Event, Store


class _TrialEvent(msgspec.Struct):
    trial: str
    arm: str
    plan_id: str = ""
    outcome: Outcome | None = None


class _DifferenceEvent(msgspec.Struct):
    key: str
    difference: OutputDifference


@dataclass(slots=True, kw_only=True)
class Replay:
    """What a stored session measured, and the clock that it makes.

    Attributes:
        outcomes: (arm, plan id, outcome) in order, not yet played.
        differences: Output comparisons by key, so that outputs long deleted need not be made again.
        played: Trials played back.
    """

    outcomes: deque[tuple[str, str, Outcome]] = field(default_factory=deque)
    differences: dict[str, OutputDifference] = field(default_factory=dict)
    played: int = 0
    _spent_ns: int = 0
    _since: int = field(default_factory=time.monotonic_ns)

    def clock(self) -> int:
        """Nanoseconds: what the played trials took, then real time."""
        return self._spent_ns + (0 if self.outcomes else time.monotonic_ns() - self._since)

    def next(self, arm: str, plan_id: str) -> Outcome | None:
        """The stored outcome of the next trial, or None when all are played or the paths part."""
        if not self.outcomes:
            return None
        if self.outcomes[0][:2] != (arm, plan_id):
            self.outcomes.clear()
        else:
            outcome = self.outcomes.popleft()[2]
            self._spent_ns += outcome.elapsed_ns
            self.played += 1
            if self.outcomes:
                return outcome
            self._since = time.monotonic_ns()
            return outcome
        self._since = time.monotonic_ns()
        return None


def stored(store: Store, session: str) -> Replay:
    """The replay of a stored session."""
    return read(store.events(session))


def read(events: list[Event]) -> Replay:
    """The replay of a session's events. A trial that was started and never ended is measured again."""
    replay = Replay()
    for event in events:
        if event.kind == "outcome":
            found = msgspec.json.decode(event.body, type=_TrialEvent)
            if found.outcome is not None:
                replay.outcomes.append((found.arm, found.plan_id, found.outcome))
        elif event.kind == "difference":
            difference = msgspec.json.decode(event.body, type=_DifferenceEvent)
            replay.differences[difference.key] = difference.difference
    return replay


def outputs_are_here(trial: Measured) -> bool:
    """Whether the outputs that a trial left are still on disk."""
    from pathlib import Path

    return bool(trial.outputs_path) and Path(trial.outputs_path).is_dir()
