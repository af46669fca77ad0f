"""Time limits after which a trial or another step counts as a hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ortune.measuring.executor import Executor
from ortune.search.phases import HANG_SHARE, LEAST_PATIENCE_S
from ortune.targets import task

HANG_TIMES = 30
"""Multiple of a trial's usual time that noise cannot explain."""


def patience_s(trial_ns: float, left_ns: float) -> float:
    """Return the maximum seconds of one step within a budget, enough for a plan without faults on a busy machine."""
    # Five trials, or a quarter of the time left. Example: 1 s a trial and 60 s left: max(2, 5, 15) = 15 s.
    return max(LEAST_PATIENCE_S, 5e-9 * trial_ns, HANG_SHARE * 1e-9 * left_ns)


class TrialTimeouts:
    """The time limits of an executor's later trials."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def expect(self, trial_ns: float, left_ns: float | None = None, *, least_s: float = 10.0) -> None:
        """Set the limits of later trials to a multiple of a trial's time that noise cannot explain.

        Args:
            trial_ns: Expected duration of a trial.
            left_ns: Time left for the trial and later steps; None if unlimited.
            least_s: Minimum limit in seconds, for short trials.
        """
        limit = max(least_s, 1e-9 * HANG_TIMES * trial_ns)
        self.set(limit if left_ns is None else min(limit, patience_s(trial_ns, left_ns)))

    @contextmanager
    def extended_to(self, trial_ns: float) -> Iterator[None]:
        """Extend the run limit within a ``with`` block for a trial that takes ``trial_ns``; it is never shortened."""
        usual = self._executor.limits
        self._executor.limits = replace(usual, run_s=max(usual.run_s, patience_s(trial_ns, 0)))
        try:
            yield
        finally:
            self._executor.limits = usual

    def set(self, seconds: float, run_s: float | None = None) -> None:
        """Set the maximum seconds for loading in later trials, and with ``run_s`` for each turn."""
        self._executor.limits = task.Limits(load_s=seconds, run_s=seconds if run_s is None else run_s)
