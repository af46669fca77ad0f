"""Going on where a session was cut off: its outcomes are played back, in order, then real trials follow.

A tuning session is a function of its seed, its options, the outcomes of its trials and the times at which they
ended, so playing these back leads to the very point where it stopped, and no trial is measured twice. A block that
was cut in the middle is measured again: its trials would be hours apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ortune.records import (
    BrowserPlace,
    Finding,
    Headroom,
    Outcome,
    OutputDifference,
    ProfileResult,
    RewriteSpec,
)
from ortune.search.budget import Split
from ortune.store.db import Event
from ortune.trials.clock import monotonic_s

RESUMED = "resumed"
"""Journalled when a session goes on: what is behind the last complete block was not played back."""
PROFILE = "default-profile"
"""Journalled before the race: what a page draws of the profile."""
FINDINGS = "findings"
"""Journalled before the race: a profile made again may tell other things, and so propose other plans."""
SEEN = "outputs-seen"
"""Journalled after the trial that checks the outputs of the plan to confirm: it stands in no block."""
PLACES = "places"
"""Journalled before the race: where else in a browser the model runs, as far as there was time to see."""
ROW = "row"
"""Journalled before the race: which rewrites are raced together, which a graph saved in time decides."""
PASSED = "passed"
"""Journalled with the time, after what is no trial and takes time too: rewriting, profiling, comparing outputs."""
AFTER = "after"
"""Journalled first: what is kept of the budget for the answer."""
NO_MODEL = "no-model"
"""Journalled when a rewritten model could not be made."""


class _TrialEvent(msgspec.Struct):
    arm: str
    plan_id: str = ""
    outcome: msgspec.Raw = msgspec.Raw(b"null")
    ended_ns: int = 0


_outcomes: msgspec.json.Decoder[Outcome] = msgspec.json.Decoder(Outcome)


class _DifferenceEvent(msgspec.Struct):
    key: str
    difference: OutputDifference


class _PassedEvent(msgspec.Struct):
    ended_ns: int


class _NoModelEvent(msgspec.Struct):
    key: str
    what: str


class Places(msgspec.Struct):
    """What else a browser offers, and when that was seen, in nanoseconds after the session began."""

    places: tuple[BrowserPlace, ...]
    ended_ns: int


_TOLD: dict[str, tuple[str, Any]] = {
    "headroom": ("headroom", Headroom),
    PROFILE: ("profile", ProfileResult),
    FINDINGS: ("findings", tuple[Finding, ...]),
    PLACES: ("places", Places),
    ROW: ("row", tuple[RewriteSpec, ...]),
    AFTER: ("after_s", float),
}
"""What is journalled before the race, by the kind of its event: what keeps it, and its type."""


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
        split: How the budget was divided, None for a new session.
        headroom: What the profile before the race told; ``profile`` is what a page draws of it.
        findings: What rules found then; None where they were not asked.
        places: Where else in a browser the model runs, and when that was seen; None where it was not asked.
        row: The rewrites that were raced together; None where that was not settled.
        after_s: What was kept of the budget for the answer; None for a new session.
        passed: What is no trial ended then, each with the number of trials before it.
        now_s: The monotonic clock.
        since_ns: When what is measured now began, on it; None is now.
        played: Trials played back.
        live: A trial was measured since, so that what comes now is new.
    """

    trials: deque[Played] = field(default_factory=deque)
    differences: dict[str, OutputDifference] = field(default_factory=dict)
    no_models: dict[str, str] = field(default_factory=dict)
    split: Split | None = None
    headroom: Headroom | None = None
    profile: ProfileResult | None = None
    findings: tuple[Finding, ...] | None = None
    places: Places | None = None
    row: tuple[RewriteSpec, ...] | None = None
    after_s: float | None = None
    passed: deque[tuple[int, int]] = field(default_factory=deque)
    now_s: Callable[[], float] = monotonic_s
    since_ns: int | None = None
    played: int = 0
    live: bool = False
    _passed_ns: int = 0
    _decided_ns: int = 0

    def __post_init__(self) -> None:
        if self.since_ns is None:
            self.since_ns = self._now_ns()

    def _now_ns(self) -> int:
        return int(1e9 * self.now_s())

    def clock(self) -> int:
        """Nanoseconds since the session began: the stored times while trials are played, then real time."""
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

    def pass_on(self) -> int | None:
        """What is no trial has ended: the time, to be journalled; None where it is in the journal."""
        if not self.trials:
            return self.ended()
        if self.passed:
            _, ended_ns = self.passed.popleft()
            self.reached(ended_ns)
        return None

    def decided(self) -> int:
        """When the last step ended: decisions rest on what is journalled, so that a replay takes the same ones."""
        return self._decided_ns

    def next(self, arm: str, plan_id: str) -> Outcome | None:
        """The stored outcome of the next trial, or None when all are played or the paths part."""
        if not self.trials:
            self.live = True
            return None
        if (self.trials[0].arm, self.trials[0].plan_id) != (arm, plan_id):
            self.trials.clear()
            self.live = True
            self.since_ns = self._now_ns()
            return None
        played = self.trials.popleft()
        self._passed_ns = self._decided_ns = played.ended_ns
        self.played += 1
        self.since_ns = self._now_ns()
        return _outcomes.decode(played.outcome)


def read(events: list[Event], now_s: Callable[[], float] = monotonic_s) -> Replay:
    """The replay of a session's events, up to its last complete block."""
    replay = Replay(now_s=now_s)
    whole = 0
    for event in events:
        if event.kind == "outcome":
            found = msgspec.json.decode(event.body, type=_TrialEvent)
            if bytes(found.outcome) != b"null":
                replay.trials.append(
                    Played(
                        arm=found.arm, plan_id=found.plan_id, outcome=found.outcome, ended_ns=found.ended_ns
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
        elif event.kind == "split":
            replay.split = msgspec.json.decode(event.body, type=Split)
            whole = len(replay.trials)  # before the first block stand the pilot's trials, each on its own
        elif event.kind in _TOLD:
            name, kind = _TOLD[event.kind]
            setattr(replay, name, msgspec.json.decode(event.body, type=kind))
        elif event.kind == RESUMED:
            _cut(replay, whole)
    _cut(replay, whole)
    return replay


def _cut(replay: Replay, whole: int) -> None:
    """Leaves out a block that was cut in the middle: it was, or will be, measured again."""
    while whole and len(replay.trials) > whole:
        replay.trials.pop()
    # What came after the last trial that is played back comes anew.
    while replay.passed and replay.passed[-1][0] >= len(replay.trials):
        replay.passed.pop()
