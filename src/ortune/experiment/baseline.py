"""What every measuring verb stands on: a side that runs, what its trials cost, and whether outputs are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ortune.experiment.field import Field
from ortune.experiment.output_check import OutputCheck
from ortune.experiment.pilot import Pilot
from ortune.records import Workload
from ortune.search.phases import LEAST_LOAD_S
from ortune.store.db import SessionLog
from ortune.targets.machine import Machine
from ortune.trials.input_options import InputOptions
from ortune.trials.sides import Resolved


class Baseline(Field):
    """A field with the check of its outputs, and the pilot of its trials.

    Attributes:
        check: Of outputs.
        pilot: Of what trials cost.
    """

    def __init__(
        self,
        side: Resolved,
        options: InputOptions,
        scratch: Path,
        log: SessionLog,
        say: Callable[[str], None],
        machine: Machine,
        load: Callable[[Workload], Workload] = lambda work: work,
    ) -> None:
        super().__init__(side, options, scratch, log, say, machine, load)
        self.check = OutputCheck(self)
        self.pilot = Pilot(self, self.check)

    def settle(self, limit_s: float) -> None:
        """Finds inputs that run, and keeps what the side gives for them.

        Args:
            limit_s: What the first run may take; never less than loading a model may.

        Raises:
            InputError, ModelError, RuntimeNotFound, MeasurementError: As the first run fails.
        """
        self.limits.set(max(LEAST_LOAD_S, limit_s))
        self.settle_inputs()
        self.check.begin()
