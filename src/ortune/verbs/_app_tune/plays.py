"""The plays of a search, journaled so that an interrupted session resumes without repeating them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from ortune.inputs.played import ReplayPart
from ortune.measuring.application import Application, Variant
from ortune.measuring.opening import Experiment
from ortune.measuring.replay import PLAYED
from ortune.records import AppPlay, AppPlayed, TrialError
from ortune.verbs._app_bench.run import required
from ortune.verbs._app_tune.part import long_enough

PILOT_NS = 1_000_000_000
LEAST_NS = 200_000_000
LAST_PLAYS = 6


class SearchStopped(Exception):
    """The user stopped the search."""


class Plays:
    """Plays one recording repeatedly and journals each play.

    Attributes:
        played: The part of the recording that is played.
        used_cpus: CPUs that other programs used during each play, if known.
        late_shares: Delays by the generator in each play of calls at given times, as fractions of the latency.
        took_s: Seconds of each play, including its start.
        start_s: Seconds that the pilot play spent outside the played part, such as process start.
        play_s: Expected duration of a play, in seconds: the mean of the last plays.
        n_plays: Number of plays so far, including journaled plays.
        n_blocks: Number of blocks so far; the plays of a block have equal start times of calls.
    """

    def __init__(self, opened: Experiment, application: Application, where: Path) -> None:
        self.opened, self.application, self.where = opened, application, where
        self.rng = random.Random(opened.terms.feeds.seed)
        self.played: ReplayPart = long_enough(application, PILOT_NS)
        self.used_cpus: list[float] = []
        self.late_shares: list[float] = []
        self.took_s: list[float] = []
        self.start_s = self.play_s = 0.0
        self.n_plays = self.n_blocks = 0

    def take_part(self, play_s: float) -> None:
        """Choose the part to play from now on: a play, including its start, should take `play_s` seconds."""
        recorded_s = self.start_s + self.played.span_ns / 1e9
        slower = max(0.1, self.play_s / recorded_s)  # the last plays, than this machine at first
        self.played = long_enough(self.application, max(LEAST_NS, 1e9 * (play_s / slower - self.start_s)))
        self.play_s = slower * (self.start_s + self.played.span_ns / 1e9)
        self.took_s.clear()  # These were of another part.

    def blocks(self, arms: Mapping[str, Variant], n: int) -> dict[str, list[AppPlay] | str]:
        """Play `n` blocks of all arms in random order and return each arm's plays, or its error text if a play failed.

        A failed arm is not played again.

        Raises:
            MeasurementError: The arm "kept" failed.
        """
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
        """Play the recording once, or return the journaled play of the resumed session.

        Raises:
            SearchStopped: The user stopped the search.
        """
        replay, before_s = self.opened.replay, self.opened.budget.spent_s
        played = replay.next_play(variant.key)
        if played is None:
            machine = self.opened.machine
            before = machine.sensors()
            played_part = self.application.timed(self.played, self.n_blocks)
            trial = self.application.play(played_part, variant, outputs)
            if trial is None:
                raise SearchStopped
            used = machine.taken_cpus(before)
            if isinstance(trial, TrialError):
                played = AppPlayed(error=trial, used_cpus=used)
            else:
                played = AppPlayed(play=trial.play, used_cpus=used)
            self.opened.log.add(
                PLAYED, {"arm": variant.key, "outcome": played, "ended_ns": replay.record_end()}
            )
        if played.used_cpus is not None:
            self.used_cpus.append(played.used_cpus)
        if played.play is not None and played.play.late_share is not None:
            self.late_shares.append(played.play.late_share)
        self.n_plays += 1
        # The mean over the last plays, because arms take different times.
        self.took_s.append(self.opened.budget.spent_s - before_s)
        self.play_s = float(np.mean(self.took_s[-LAST_PLAYS:]))
        return played.play or cast("TrialError", played.error)

    def required(self, play: AppPlay | TrialError) -> AppPlay:
        """Return `play` if it succeeded.

        Raises:
            MeasurementError: The play failed.
        """
        return required(play, str(self.where))

    def mark(self) -> None:
        """Count and journal the end of a block, so that a resumed session repeats only an interrupted block."""
        self.n_blocks += 1
        if self.opened.replay.live:
            self.opened.replay.mark_no_block()
