"""The plays of a search: each in a journal, so that a session that was cut off goes on without repeating them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from ortune.errors import MeasurementError
from ortune.inputs.played import Played
from ortune.measuring.application import Application, Variant
from ortune.measuring.opening import Experiment
from ortune.measuring.replay import PLAYED
from ortune.records import AppPlay, AppPlayed, TrialError
from ortune.verbs._app_tune.part import long_enough

PILOT_NS = 1_000_000_000
LAST_PLAYS = 6


class Stopped(Exception):
    """The user stopped the search."""


class Plays:
    """Plays one recording.

    Attributes:
        played: What is played of it.
        used_cpus: CPUs that other programs used, of each play.
        took_s: Seconds of each play, its start included.
        play_s: Seconds that a play takes now.
        n_plays: Number of plays.
    """

    def __init__(self, opened: Experiment, application: Application, where: Path) -> None:
        self.opened, self.application, self.where = opened, application, where
        self.rng = random.Random(opened.terms.feeds.seed)
        self.played: Played = long_enough(application, PILOT_NS)
        self.used_cpus: list[float] = []
        self.took_s: list[float] = []
        self.play_s = 0.0
        self.n_plays = 0

    def blocks(self, arms: Mapping[str, Variant], n: int) -> dict[str, list[AppPlay] | str]:
        """Play blocks of all arms, each in an order of its own; a failed arm has why."""
        plays: dict[str, list[AppPlay] | str] = {name: [] for name in arms}
        for _ in range(n):
            for name in self.rng.sample(sorted(arms), len(arms)):
                own = plays[name]
                if isinstance(own, str):
                    continue
                play = self.play(arms[name])
                if name == "kept":
                    own.append(self.required(play))
                elif isinstance(play, TrialError):
                    plays[name] = play.what
                else:
                    own.append(play)
            self.mark()
        return plays

    def play(self, variant: Variant, outputs: Path | None = None) -> AppPlay | TrialError:
        """Play it once, or take the play of the session that is resumed."""
        replay, before_s = self.opened.replay, self.opened.budget.spent_s
        played = replay.next_play(variant.key)
        if played is None:
            machine = self.opened.machine
            before = machine.sensors()
            trial = self.application.play(self.played, variant, outputs)
            if trial is None:
                raise Stopped
            used = machine.taken_cpus(before)
            if isinstance(trial, TrialError):
                played = AppPlayed(error=trial, used_cpus=used)
            else:
                played = AppPlayed(play=trial.play, used_cpus=used)
            self.opened.log.add(PLAYED, {"arm": variant.key, "outcome": played, "ended_ns": replay.ended()})
        if played.used_cpus is not None:
            self.used_cpus.append(played.used_cpus)
        self.n_plays += 1
        # As long as the plays of the last block did, whose arms differ.
        self.took_s.append(self.opened.budget.spent_s - before_s)
        self.play_s = float(np.mean(self.took_s[-LAST_PLAYS:]))
        return played.play or cast("TrialError", played.error)

    def required(self, play: AppPlay | TrialError) -> AppPlay:
        """Return the play.

        Raises:
            MeasurementError: It failed.
        """
        if isinstance(play, TrialError):
            raise MeasurementError(
                f"the recorded calls cannot be played: {play.what}", where=str(self.where), code=play.reason
            )
        return play

    def mark(self) -> None:
        """Journal the end of a block: a session that is resumed plays a block that was cut off again."""
        if self.opened.replay.live:
            self.opened.replay.whole()
