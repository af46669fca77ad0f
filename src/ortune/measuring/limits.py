"""How long a trial, or another step, may take before it is called a hang."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ortune.measuring.executor import Executor
from ortune.search.phases import HANG_SHARE, LEAST_PATIENCE_S
from ortune.targets import task

HANG_TIMES = 30
"""Times a usual trial that no noise explains."""


def patience_s(trial_ns: float, left_ns: float) -> float:
    """How long one step of a session with a budget may take: never less than a sound plan on a busy machine needs."""
    # Five trials, or a quarter of the time left. Example: 1 s a trial and 60 s left: max(2, 5, 15) = 15 s.
    return max(LEAST_PATIENCE_S, 5e-9 * trial_ns, HANG_SHARE * 1e-9 * left_ns)


class Limits:
    """The limits of all further trials of an executor."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def expect(self, trial_ns: float, left_ns: float | None = None, *, least_s: float = 10.0) -> None:
        """Set the limits of later trials: many times what a trial took is a hang, not noise.

        Args:
            trial_ns: What a trial takes.
            left_ns: The time that is left for it and what comes after it; None is no matter.
            least_s: Seconds that are no hang, however short a trial is.
        """
        limit = max(least_s, 1e-9 * HANG_TIMES * trial_ns)
        self.set(limit if left_ns is None else min(limit, patience_s(trial_ns, left_ns)))

    @contextmanager
    def of_a_longer(self, trial_ns: float) -> Iterator[None]:
        """Limit that a trial of so many nanoseconds needs, for as long as it runs; never shorter than the others."""
        usual = self._executor.limits
        self._executor.limits = replace(usual, run_s=max(usual.run_s, patience_s(trial_ns, 0)))
        try:
            yield
        finally:
            self._executor.limits = usual

    def set(self, seconds: float, run_s: float | None = None) -> None:
        """Set what loading may take in later trials, and each of their turns if that is not as long."""
        self._executor.limits = task.Limits(load_s=seconds, run_s=seconds if run_s is None else run_s)
