"""What every measuring verb stands on: a side that runs, what its trials cost, and whether outputs are right."""

from __future__ import annotations

from functools import cached_property

from ortune.measuring.field import Field
from ortune.measuring.output_check import OutputCheck
from ortune.measuring.pilot import Pilot
from ortune.search.phases import LEAST_LOAD_S


class Baseline(Field):
    """A field with the check of its outputs, and the pilot of its trials."""

    @cached_property
    def check(self) -> OutputCheck:
        """The check of its outputs."""
        return OutputCheck(self)

    @cached_property
    def pilot(self) -> Pilot:
        """The pilot of its trials."""
        return Pilot(self, self.check)

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
