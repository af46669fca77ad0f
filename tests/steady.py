"""A machine whose noise is known: real workers, real outputs and faults, drawn latencies.

Where a test is about what a session does once its controls hold, a busy machine may never let it get there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from ortune import platform
from ortune.measuring import opening
from ortune.records import Measured, Outcome, Sensors
from ortune.records.protocol import CaseTimes
from ortune.targets.machine import Machine
from ortune.targets.runner import run
from ortune.targets.task import TrialTask

RUN_NS = 50_000
PROCESS, NOISE = 0.02, 0.005
"""Standard deviations of a process and of a run: controls hold, and two equal plans stay undecided for long."""


class Steady(Machine):
    """This machine, with noise of a known size and without neighbours."""

    def __init__(self, *how: Any, **more: Any) -> None:
        super().__init__(*how, **more)
        self.trials = self._run
        self._draw = random.Random(0)

    def taken_cpus(self, since: platform.SensorSnapshot) -> float | None:
        """None are taken."""
        return 0.0

    def _run(self, tasks: Sequence[TrialTask], *how: Any) -> tuple[Outcome, ...] | None:
        outcomes = run(tasks, Machine(), *how)
        return outcomes and tuple(
            self._steady(outcome) if isinstance(outcome, Measured) else outcome for outcome in outcomes
        )

    def _steady(self, outcome: Measured) -> Measured:
        process_ns = RUN_NS * self._draw.gauss(1.0, PROCESS)
        cases = tuple(self._times(case, process_ns) for case in outcome.done.cases)
        done = msgspec.structs.replace(outcome.done, cases=cases)
        return msgspec.structs.replace(outcome, done=done, sensors=Sensors())

    def _times(self, case: CaseTimes, process_ns: float) -> CaseTimes:
        # A positive control's runs hold a wait of known length, which stays in them.
        waits = case.waits_ns or (0,) * len(case.latency_ns)
        drawn = tuple(round(process_ns * self._draw.gauss(1.0, NOISE)) + wait for wait in waits)
        return msgspec.structs.replace(case, latency_ns=drawn, steady=True)


def use() -> None:
    """From here on, this process measures on such a machine."""
    opening.Machine = Steady  # type: ignore[misc]
