"""Going on where a session was cut off: its outcomes are played back, in order, then real trials follow.

A tuning session is a function of its seed, its options, the outcomes of its trials and the times at which they
ended, so playing these back leads to the very point where it stopped, and no trial is measured twice. A block that
was cut in the middle is measured again: its trials would be hours apart.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from ortune.records import Outcome, OutputDifference
from ortune.store.db import Event, Store


class _TrialEvent(msgspec.Struct):
    arm: str
    plan_id: str = ""
    outcome: Outcome | None = None


class _DifferenceEvent(msgspec.Struct):
    key: str
    difference: OutputDifference


class _SplitEvent(msgspec.Struct):
    plans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A stored trial: arm, plan id, outcome, and when it ended (nanoseconds after the session began)."""

    arm: str
    plan_id: str
    outcome: Outcome
    ended_ns: int


@dataclass(slots=True, kw_only=True)
class Replay:
    """What a stored session measured, and the clock that it makes.

    Attributes:
        trials: Not yet played, in order.
        differences: Output comparisons by key, so that outputs long deleted need not be made again.
        plans: How many plans the screening was decided to hold, None for a new session.
        played: Trials played back.
    """

    trials: deque[Played] = field(default_factory=deque)
    differences: dict[str, OutputDifference] = field(default_factory=dict)
    plans: int | None = None
    played: int = 0
    _passed_ns: int = 0
    _since: int = field(default_factory=time.monotonic_ns)

    def clock(self) -> int:
        """Nanoseconds since the session began: the stored times while trials are played, then real time."""
        return self._passed_ns + (0 if self.trials else time.monotonic_ns() - self._since)

    def next(self, arm: str, plan_id: str) -> Outcome | None:
        """The stored outcome of the next trial, or None when all are played or the paths part."""
        if not self.trials:
            return None
        if (self.trials[0].arm, self.trials[0].plan_id) != (arm, plan_id):
            self.trials.clear()
            self._since = time.monotonic_ns()
            return None
        played = self.trials.popleft()
        self._passed_ns = played.ended_ns
        self.played += 1
        self._since = time.monotonic_ns()
        return played.outcome


def stored(store: Store, session: str) -> Replay:
    """The replay of a stored session."""
    return read(store.events(session))


def read(events: list[Event]) -> Replay:
    """The replay of a session's events, up to its last complete block."""
    replay = Replay()
    began = datetime.fromisoformat(events[0].at) if events else None
    whole = 0
    for event in events:
        if event.kind == "outcome":
            found = msgspec.json.decode(event.body, type=_TrialEvent)
            if found.outcome is not None and began is not None:
                ended = (datetime.fromisoformat(event.at) - began).total_seconds()
                replay.trials.append(
                    Played(
                        arm=found.arm, plan_id=found.plan_id, outcome=found.outcome, ended_ns=int(ended * 1e9)
                    )
                )
        elif event.kind == "block":
            whole = len(replay.trials)
        elif event.kind == "difference":
            difference = msgspec.json.decode(event.body, type=_DifferenceEvent)
            replay.differences[difference.key] = difference.difference
        elif event.kind == "split":
            replay.plans = msgspec.json.decode(event.body, type=_SplitEvent).plans
    # Before the first block stand the pilot's trials, each on its own.
    while whole and len(replay.trials) > whole:
        replay.trials.pop()
    return replay
