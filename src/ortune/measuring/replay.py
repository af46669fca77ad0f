"""Going on where a session was cut off: its outcomes are played back, in order, then real trials follow.

A tuning session is a function of its seed, its options, the outcomes of its trials and the times at which they
ended, so playing these back leads to the very point where it stopped, and no trial is measured twice. A block that
was cut in the middle is measured again: its trials would be hours apart.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from ortune import monotonic
from ortune.records import AppPlayed, Block, BrowserPlace, Outcome, OutputDifference
from ortune.store.db import Event, SessionLog
from ortune.store.reading import FAILED

RESUMED = "resumed"
"""Journalled when a session goes on: what is behind the last complete block was not played back."""
WHOLE = "whole"
"""Journalled before the first block: the trials so far stand in none, each on its own."""
SEEN = "outputs-seen"
"""Journal entry after the trial that checks the outputs of the plan to confirm, which belongs to no block."""
PASSED = "passed"
"""Journalled with the time, after what is no trial and takes time too: rewriting, profiling, comparing outputs."""
PLAYED = "played"
"""Journal entry of a search: a recorded application was played once."""
NO_MODEL = "no-model"
"""Journalled when a rewritten model could not be made."""


_OF_NO_DECISION = ("trial", "untimed", "untimed-outcome", "result", "document", FAILED)


class _TrialEvent(msgspec.Struct):
    arm: str
    plan_id: str = ""
    outcome: msgspec.Raw = msgspec.Raw(b"null")
    ended_ns: int = 0


_outcomes: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)
_plays = msgspec.json.Decoder(AppPlayed)


class _DifferenceEvent(msgspec.Struct):
    key: str
    difference: OutputDifference


class _PassedEvent(msgspec.Struct):
    ended_ns: int


class _NoModelEvent(msgspec.Struct):
    key: str
    what: str


class _ResultEvent(msgspec.Struct):
    status: str = ""


class Places(msgspec.Struct):
    """What else a browser offers, and when that was seen, in nanoseconds after the session began."""

    places: tuple[BrowserPlace, ...]
    ended_ns: int


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A stored trial: arm, plan id, outcome, and when it ended (nanoseconds after the session began).

    The outcome is read when its turn comes: all at once, those of a fast model fill gigabytes.
    """

    arm: str
    plan_id: str
    outcome: msgspec.Raw
    ended_ns: int


@dataclass(slots=True, kw_only=True)
class Replay:
    """What a stored session measured, and the clock that it makes.

    Attributes:
        trials: Not yet played, in order.
        differences: Output comparisons by key, so that outputs long deleted need not be made again.
        no_models: Why a rewritten model could not be made, by its key: one that was cut off must not appear now.
        decisions: What was decided or seen once, and would not come out the same again: the newest of each kind.
        log: Where it is journalled; None keeps nothing.
        passed: What is no trial ended then, each with the number of trials before it.
        since_ns: When what is measured now began, on the monotonic clock; None is now.
        played: Trials played back.
        live: A trial was measured since, so that what comes now is new.
    """

    trials: deque[Played] = field(default_factory=deque)
    differences: dict[str, OutputDifference] = field(default_factory=dict)
    no_models: dict[str, str] = field(default_factory=dict)
    decisions: dict[str, bytes] = field(default_factory=dict)
    log: SessionLog | None = None
    passed: deque[tuple[int, int]] = field(default_factory=deque)
    since_ns: int | None = None
    played: int = 0
    live: bool = False
    _passed_ns: int = 0
    _decided_ns: int = 0

    def __post_init__(self) -> None:
        if self.since_ns is None:
            self.since_ns = self._now_ns()

    def _now_ns(self) -> int:
        return int(1e9 * monotonic.now_s())

    def once(self, kind: str, type_: Any, make: Callable[[], T]) -> T:
        """Return what the journal has of this kind; where it has nothing, what is made now, which it then keeps.

        Args:
            kind: Of the event; one of each in a session.
            type_: Of what is kept, as msgspec reads it.
            make: Makes it: what a profile told, how a budget was divided, whatever another run would tell otherwise.
        """
        body = self.decisions.get(kind)
        if body is not None:
            # One that is damaged is made anew: what was measured is there all the same.
            with contextlib.suppress(msgspec.MsgspecError):
                kept: T = msgspec.json.decode(body, type=type_)
                return kept
        value = make()
        self.decisions[kind] = msgspec.json.encode(value)
        if self.log is not None:
            self.log.add(kind, value)
        return value

    def whole(self) -> None:
        """Journal, before the first block, that the trials so far stand in none, and are played back one by one."""
        if self.log is not None:
            self.log.add(WHOLE, {})

    def block(self, block: Block) -> None:
        """Journal a block that is new."""
        if self.live and self.log is not None:
            order = [trial.arm for trial in block.trials]
            self.log.add("block", {"index": block.index, "phase": block.phase, "order": order})

    def clock(self) -> int:
        """Return nanoseconds since the session began: the stored times while trials are played, then real time."""
        # While stored trials are played back the clock stands at the end of the last one. Afterwards it runs
        # on from there, so that the hours between two invocations are no part of the session.
        return self._passed_ns + (0 if self.trials else self._now_ns() - (self.since_ns or 0))

    def ended(self) -> int:
        """A trial was measured: the time of its end, which is stored with it."""
        self._decided_ns = self.clock()
        return self._decided_ns

    def reached(self, ended_ns: int) -> None:
        """What is no trial has ended then, as the journal says."""
        self._decided_ns = max(self._decided_ns, ended_ns)
        if self.trials:
            self._passed_ns = max(self._passed_ns, ended_ns)
        elif ended_ns > self.clock():  # after the last trial that was played back
            self._passed_ns, self.since_ns = ended_ns, self._now_ns()

    def pass_on(self) -> None:
        """What is no trial has ended: the time is journalled, or taken from the journal."""
        if self.trials:
            # A step that left no trace this time (what it asked is kept by now) must not put off those after it.
            while self.passed and self.passed[0][0] <= self.played:
                n_before, ended_ns = self.passed.popleft()
                self.reached(ended_ns)
                if n_before == self.played:
                    break
            return
        ended_ns = self.ended()
        if self.log is not None:
            self.log.add(PASSED, {"ended_ns": ended_ns})

    def decided(self) -> int:
        """When the last step ended: decisions rest on what is journalled, so that a replay takes the same ones."""
        return self._decided_ns

    def next(self, arm: str, plan_id: str) -> Outcome | None:
        """Return the stored outcome of the next trial, or None when all are played or the paths part."""
        stored = self._next(arm, plan_id)
        return None if stored is None else _outcomes.decode(stored)

    def next_play(self, arm: str) -> AppPlayed | None:
        """Return the stored play of an application that comes next, or None as ``next`` does."""
        stored = self._next(arm, "")
        return None if stored is None else _plays.decode(stored)

    def _next(self, arm: str, plan_id: str) -> msgspec.Raw | None:
        if not self.trials:
            self.live = True
            return None
        if (self.trials[0].arm, self.trials[0].plan_id) != (arm, plan_id):
            # Another trial than the stored one: what follows in the journal answers other questions.
            self.trials.clear()
            self.live = True
            self.since_ns = self._now_ns()
            return None
        played = self.trials.popleft()
        self._passed_ns = self._decided_ns = played.ended_ns
        self.played += 1
        self.since_ns = self._now_ns()
        return played.outcome


def complete(events: list[Event]) -> bool:
    """Return whether a session has its whole answer; one that was stopped early has a partial one."""
    answers = [event.body for event in events if event.kind == "result"]
    return bool(answers) and msgspec.json.decode(answers[-1], type=_ResultEvent).status != "interrupted"


def read(events: list[Event]) -> Replay:
    """Return the replay of a session's events, up to its last complete block."""
    replay = Replay()
    whole = 0
    for event in events:
        if event.kind in ("outcome", PLAYED):
            trial = msgspec.json.decode(event.body, type=_TrialEvent)
            if bytes(trial.outcome) != b"null":
                replay.trials.append(
                    Played(
                        arm=trial.arm, plan_id=trial.plan_id, outcome=trial.outcome, ended_ns=trial.ended_ns
                    )
                )
        elif event.kind in ("block", SEEN):
            whole = len(replay.trials)
        elif event.kind == "difference":
            difference = msgspec.json.decode(event.body, type=_DifferenceEvent)
            replay.differences[difference.key] = difference.difference
        elif event.kind == PASSED:
            passed = msgspec.json.decode(event.body, type=_PassedEvent)
            replay.passed.append((len(replay.trials), passed.ended_ns))
        elif event.kind == NO_MODEL:
            failed = msgspec.json.decode(event.body, type=_NoModelEvent)
            replay.no_models[failed.key] = failed.what
        elif event.kind == WHOLE:
            whole = len(replay.trials)
        # The block that was cut off then was measured again; its first trials must not be played besides.
        elif event.kind == RESUMED:
            _cut(replay, whole)
        elif event.kind not in _OF_NO_DECISION:
            replay.decisions[event.kind] = event.body
    _cut(replay, whole)
    return replay


def _cut(replay: Replay, whole: int) -> None:
    """Leave out a block that was cut in the middle: it was, or will be, measured again."""
    # Without any mark (``whole`` is 0) no block was begun: the trials stand on their own, and all of them
    # count.
    while whole and len(replay.trials) > whole:
        replay.trials.pop()
    # What came after the last trial that is played back comes anew.
    while replay.passed and replay.passed[-1][0] >= len(replay.trials):
        replay.passed.pop()
