"""Final check of a quantized model before it may be the winner: its outputs on every held-out input."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ortune.engines.quantizing.outputs import QuantizedOutputs
from ortune.engines.racing.tuning import Tuning
from ortune.errors import MeasurementError
from ortune.records import ENOUGH_INPUTS, Calibration, Plan
from ortune.search import trial_counts
from ortune.search.phases import HELD_OUT_SHARE
from ortune.verbs.quantize import steps_words
from ortune.verbs.quantize.precision import Precision, QuantizedModel

MARGIN = 1.2
"""Safety factor on the expected duration of a comparison, because later inputs may be slower than the first inputs."""


class HeldOut:
    """Compares possible winners on all held-out inputs, if slow runs allowed only some of the inputs so far.

    Attributes:
        enough_s: Budget, in seconds, in which the comparison fits if it did not fit in this budget; otherwise 0.
    """

    def __init__(self, precision: Precision, run: Tuning) -> None:
        """Reserve time for one comparison, if that takes a small part of the budget and leaves enough for a race.

        Args:
            precision: Creates and compares the models of the session.
            run: The tuning, before its race. Its `answer_s` grows by the reserved time.
        """
        self._precision, self._run, self.enough_s = precision, run, 0
        inputs = precision.inputs
        self._inputs, self._plan_ids = inputs, set[str]()
        self._outputs = QuantizedOutputs(precision.baseline, precision.replay, inputs.held_out, "held-out")
        self._kept_s, self._no_reference = 0.0, False
        if len(inputs.held_out) > len(inputs.checking):
            self._kept_s = precision.replay.once("held-out", float, self._worth_keeping)
            run.answer_s += self._kept_s

    def _worth_keeping(self) -> float:
        run, needed_s = self._run, self._needed_s
        small = needed_s <= HELD_OUT_SHARE * run.whole_budget.total_s
        rest = run.budget.reserve(needed_s)
        fits = rest.holds(run.needed_trials(1), run.baseline.pilot.least_trial_ns)
        return needed_s if small and fits else 0.0

    @property
    def _needed_s(self) -> float:
        """Seconds for comparing one more model, including the run of the float model if that has not been run yet."""
        precision, inputs = self._precision, self._inputs
        each_ns = max(precision.baseline.pilot.input_ns, precision.reference_ns / len(inputs.checking))
        processes = 1 if self._plan_ids else 2
        return MARGIN * processes * precision.outputs_s(len(inputs.held_out), each_ns)

    def compared_on_all(self, model: QuantizedModel) -> QuantizedModel:
        """Compare a model on all held-out inputs and return it with the new difference; unchanged without time."""
        run, plan = self._run, model.plan
        if self._no_reference or self.is_compared_on_all(plan):
            return model
        run.record_other_work()
        if not run.replay.once(f"held-out-{plan.id}", bool, self._fits):
            # The reserved time was too short, so the suggested budget is twice as long.
            total_s = run.whole_budget.total_s
            least_s = 2 * total_s if self._kept_s else total_s + self._needed_s
            self.enough_s = run.budget.enough_s(max(least_s, self._needed_s / HELD_OUT_SHARE))
            return model
        run.watch.line(steps_words.comparing_held_out(plan.describe(), len(self._inputs.held_out)))
        precision = self._precision
        try:
            outputs = self._outputs.difference(plan, lambda: precision.made(plan), precision.tolerance)
        except MeasurementError as error:  # The float model failed, so no model can be compared.
            run.watch.say(steps_words.held_out_not_compared(error.what))
            self._no_reference, self.enough_s = True, run.budget.enough_s(2 * run.whole_budget.total_s)
            return model
        self._plan_ids.add(plan.id)
        return replace(model, outputs=outputs, error=outputs.worst_slice_l2)

    def _fits(self) -> bool:
        run, pilot = self._run, self._run.baseline.pilot
        # Reserved time is only for this comparison. Other time is needed for a confirmation first.
        confirm = 0.0 if self._kept_s else trial_counts.least_confirm_trials(run.search.race.references)
        reserved_s = 1e-9 * confirm * pilot.trial_ns + self._needed_s - self._kept_s
        return not run.watch.stop() and run.budget.reserve(reserved_s).left_ns >= 0

    def is_compared_on_all(self, plan: Plan) -> bool:
        """Return whether a plan's outputs were compared on all held-out inputs."""
        return len(self._inputs.held_out) == len(self._inputs.checking) or plan.id in self._plan_ids

    def end(self) -> None:
        """Release the reserved time for later steps."""
        self._run.answer_s -= self._kept_s
        self._kept_s = 0.0

    def calibration(self, winner: Plan) -> Calibration:
        """Return the summary of the inputs, with the numbers used for the winner's error and for the other models'."""
        summary = self._inputs.summary
        if winner.id not in self._plan_ids:
            return summary
        return msgspec.structs.replace(
            summary, checked=len(self._inputs.held_out), screened=len(self._inputs.checking)
        )

    def needed(self, winner: Plan | None) -> int:
        """Return the number of held-out inputs that a final result needs; 0 if that many were compared.

        Args:
            winner: Plan of the winner; None if the float model is kept, which needs no comparison.
        """
        if not self._inputs.summary.source:
            return ENOUGH_INPUTS
        few = len(self._inputs.held_out) < ENOUGH_INPUTS
        return ENOUGH_INPUTS if few or (winner is not None and not self.is_compared_on_all(winner)) else 0
