"""The last look at a model in fewer bits: before it may be the answer, its outputs on every input that was held out."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from ortune.engines.quantizing.outputs import QuantizedOutputs
from ortune.engines.racing.tuning import Tuning
from ortune.errors import MeasurementError
from ortune.records import ENOUGH_INPUTS, Calibration, Plan
from ortune.search import trial_counts
from ortune.search.phases import HELD_OUT_SHARE
from ortune.verbs.quantize.precision import Model, Precision

MARGIN = 1.2
"""Of the time that the first inputs took, what the others are expected to take."""


class HeldOut:
    """Compares models that may be the answer on all held-out inputs, where slow runs left most of them out.

    Attributes:
        enough_s: A budget that holds the comparison which this one did not; 0 if it did.
    """

    def __init__(self, precision: Precision, run: Tuning) -> None:
        """Reserve time for it, if that is a small part of the budget and leaves enough for a race.

        Args:
            precision: What was compared so far.
            run: Before its race.
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
        """Seconds that one more model takes, and the float model where it was not run."""
        precision, inputs = self._precision, self._inputs
        each_ns = max(precision.baseline.pilot.input_ns, precision.reference_ns / len(inputs.checking))
        processes = 1 if self._plan_ids else 2
        return MARGIN * processes * precision.outputs_s(len(inputs.held_out), each_ns)

    def looked_at(self, model: Model) -> Model:
        """The model with its outputs on all held-out inputs; as it was where the budget holds no such comparison."""
        run, plan = self._run, model.plan
        if self._no_reference or self.has_seen(plan):
            return model
        run.pass_on()
        if not run.replay.once(f"held-out-{plan.id}", bool, self._fits):
            # Time that was kept and did not suffice: the next budget keeps twice as much.
            total_s = run.whole_budget.total_s
            least_s = 2 * total_s if self._kept_s else total_s + self._needed_s
            self.enough_s = run.budget.enough_s(max(least_s, self._needed_s / HELD_OUT_SHARE))
            return model
        run.watch.line(f"comparing the outputs of {plan.describe()} on {len(self._inputs.held_out)} inputs")
        precision = self._precision
        try:
            outputs = self._outputs.difference(plan, lambda: precision.made(plan), precision.tolerance)
        except MeasurementError as error:  # of the float model: nothing is known of the other one
            run.watch.say(f"outputs on all held-out inputs were not compared: {error.what}")
            self._no_reference, self.enough_s = True, run.budget.enough_s(2 * run.whole_budget.total_s)
            return model
        self._plan_ids.add(plan.id)
        return replace(model, outputs=outputs, error=outputs.worst_slice_l2)

    def _fits(self) -> bool:
        run, pilot = self._run, self._run.baseline.pilot
        # Time that was kept is for nothing else; of other time, a confirmation has the first right.
        confirm = 0.0 if self._kept_s else trial_counts.least_confirm_trials(run.search.race.references)
        reserved_s = 1e-9 * confirm * pilot.trial_ns + self._needed_s - self._kept_s
        return not run.watch.stop() and run.budget.reserve(reserved_s).left_ns >= 0

    def has_seen(self, plan: Plan) -> bool:
        """Return whether a plan's outputs were compared on all held-out inputs."""
        return len(self._inputs.held_out) == len(self._inputs.checking) or plan.id in self._plan_ids

    def end(self) -> None:
        """Gives the time that was kept to what follows."""
        self._run.answer_s -= self._kept_s
        self._kept_s = 0.0

    def calibration(self, winner: Plan) -> Calibration:
        """Return what the error of the winner rests on, and that of all others."""
        summary = self._inputs.summary
        if winner.id not in self._plan_ids:
            return summary
        return msgspec.structs.replace(
            summary, checked=len(self._inputs.held_out), screened=len(self._inputs.checking)
        )

    def needed(self, winner: Plan | None) -> int:
        """Held-out inputs that a final answer needs; 0 if there were as many.

        Args:
            winner: The model that is the answer; None if float is kept, which no input speaks against.
        """
        if not self._inputs.summary.source:
            return ENOUGH_INPUTS
        few = len(self._inputs.held_out) < ENOUGH_INPUTS
        return ENOUGH_INPUTS if few or (winner is not None and not self.has_seen(winner)) else 0
