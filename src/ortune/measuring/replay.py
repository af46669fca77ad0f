"""Resumes an interrupted session: its stored outcomes are replayed in order, then trials run again.

A tuning session is a function of its seed, its options, and the outcomes and end times of its trials. Replaying these
leads to the point of the interruption, without repeating a trial. An interrupted block is measured again, since its
trials would otherwise be hours apart.
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
"""Journal entry of a resumed session: trials after the last complete block were not replayed."""
WHOLE = "whole"
"""Journal entry before the first block, which marks the trials so far as belonging to no block."""
SEEN = "outputs-seen"
"""Journal entry after the trial that checks the outputs of the plan to confirm, which belongs to no block."""
PASSED = "passed"
"""Journal entry with the end time of work other than trials: rewriting, profiling, comparing outputs."""
PLAYED = "played"
"""Journal entry of a search with the result of playing a recorded application once."""
NO_MODEL = "no-model"
"""Journal entry for a rewritten model that could not be created."""


_OF_NO_DECISION = ("trial", "untimed", "untimed-outcome", "result", "document", FAILED)


class StoredTrial(msgspec.Struct):
    """A stored trial: arm, plan id, outcome, and end time in nanoseconds since the session began.

    The outcome is decoded on demand, since all outcomes of a fast model may take gigabytes.
    """

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
    """Other available browsers, and the time at which they were found, in nanoseconds since the session began."""

    places: tuple[BrowserPlace, ...]
    ended_ns: int


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Replay:
    """The stored measurements of a session, and its clock.

    Attributes:
        trials: Trials that were not replayed yet, in order.
        differences: Output comparisons by key, for which deleted outputs need not be computed again.
        no_models: Errors of rewritten models that could not be created, by key; their creation is not tried again.
        decisions: The latest result of each kind that another run could make differently, encoded as JSON.
        log: The journal; None to store nothing.
        passed: (number of trials before, end time in nanoseconds) of work other than trials.
        since_ns: Start of the current measurement on the monotonic clock; None for now.
        played: Number of replayed trials.
        live: Whether a trial was measured after the replayed trials, so that results are new.
    """

    trials: deque[StoredTrial] = field(default_factory=deque)
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
        """Return the journalled value of a kind; if there is none, make the value and journal it.

        Args:
            kind: Kind of the journal entry, unique in a session.
            type_: Type of the value for msgspec.
            make: Makes the value, which another run could make differently, such as a profile or a budget split.
        """
        body = self.decisions.get(kind)
        if body is not None:
            # A damaged value is made again; the stored trials remain valid.
            with contextlib.suppress(msgspec.MsgspecError):
                kept: T = msgspec.json.decode(body, type=type_)
                return kept
        value = make()
        self.decisions[kind] = msgspec.json.encode(value)
        if self.log is not None:
            self.log.add(kind, value)
        return value

    def mark_no_block(self) -> None:
        """Mark in the journal, before the first block, the trials so far as belonging to no block."""
        if self.log is not None:
            self.log.add(WHOLE, {})

    def block(self, block: Block) -> None:
        """Journal a block, if it is new."""
        if self.live and self.log is not None:
            order = [trial.arm for trial in block.trials]
            self.log.add("block", {"index": block.index, "phase": block.phase, "order": order})

    def clock(self) -> int:
        """Return the time since the session began in nanoseconds: by stored times during replay, then by real time."""
        # During replay the clock is the end of the last replayed trial. Afterwards it runs on from there, so the time
        # between two invocations does not count.
        return self._passed_ns + (0 if self.trials else self._now_ns() - (self.since_ns or 0))

    def record_end(self) -> int:
        """Return the end time of a measured trial, to store with the trial, and use it as the time for decisions."""
        self._decided_ns = self.clock()
        return self._decided_ns

    def set_clock(self, ended_ns: int) -> None:
        """Advance the clock to the journalled end of work other than a trial."""
        self._decided_ns = max(self._decided_ns, ended_ns)
        if self.trials:
            self._passed_ns = max(self._passed_ns, ended_ns)
        elif ended_ns > self.clock():  # after the last trial that was played back
            self._passed_ns, self.since_ns = ended_ns, self._now_ns()

    def record_other_work(self) -> None:
        """Journal the end of work other than a trial; during replay, take the end time from the journal."""
        if self.trials:
            # A step without an entry this time (its result is stored by now) must not delay the entries of later ones.
            while self.passed and self.passed[0][0] <= self.played:
                n_before, ended_ns = self.passed.popleft()
                self.set_clock(ended_ns)
                if n_before == self.played:
                    break
            return
        ended_ns = self.record_end()
        if self.log is not None:
            self.log.add(PASSED, {"ended_ns": ended_ns})

    def decision_time_ns(self) -> int:
        """Return the end time of the last journalled step in nanoseconds, on which all decisions are based."""
        return self._decided_ns

    def next(self, arm: str, plan_id: str) -> Outcome | None:
        """Return the stored outcome of the next trial; None if all are replayed or the stored trial is different."""
        stored = self._next(arm, plan_id)
        return None if stored is None else _outcomes.decode(stored)

    def next_play(self, arm: str) -> AppPlayed | None:
        """Return the next stored play of an application; None in the cases in which ``next`` returns None."""
        stored = self._next(arm, "")
        return None if stored is None else _plays.decode(stored)

    def _next(self, arm: str, plan_id: str) -> msgspec.Raw | None:
        if not self.trials:
            self.live = True
            return None
        if (self.trials[0].arm, self.trials[0].plan_id) != (arm, plan_id):
            # A different trial than the stored one: the rest of the journal does not apply.
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
    """Return whether a session has a complete result, unlike a session that was stopped early."""
    answers = [event.body for event in events if event.kind == "result"]
    return bool(answers) and msgspec.json.decode(answers[-1], type=_ResultEvent).status != "interrupted"


def read(events: list[Event]) -> Replay:
    """Return the replay of a session's events up to the last complete block."""
    replay = Replay()
    whole = 0
    for event in events:
        if event.kind in ("outcome", PLAYED):
            trial = msgspec.json.decode(event.body, type=StoredTrial)
            if bytes(trial.outcome) != b"null":
                replay.trials.append(trial)
        elif event.kind in ("block", SEEN, WHOLE):
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
        # The interrupted block was then measured again; its first trials must not be replayed too.
        elif event.kind == RESUMED:
            _cut(replay, whole)
        elif event.kind not in _OF_NO_DECISION:
            replay.decisions[event.kind] = event.body
    _cut(replay, whole)
    return replay


def _cut(replay: Replay, whole: int) -> None:
    """Remove the trials of an interrupted block, which is measured again."""
    # Without any mark (``whole`` is 0) no block was begun, so all trials count.
    while whole and len(replay.trials) > whole:
        replay.trials.pop()
    # Work after the last replayed trial is repeated.
    while replay.passed and replay.passed[-1][0] >= len(replay.trials):
        replay.passed.pop()
