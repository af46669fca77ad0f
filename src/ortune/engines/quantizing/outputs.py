"""Compares the outputs of low-precision models with the float model's, on held-out inputs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from ortune.errors import OrtuneError
from ortune.measuring import output_check
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.measuring.replay import Replay
from ortune.outputs.tolerance import Tolerance
from ortune.records import FeedRef, Measured, Outcome, OutputDifference, Plan
from ortune.targets.task import Limits
from ortune.targets.tool import ToolProcess

MOST_EMULATED = 2
"""Maximum number of inputs for the emulation of a processor without VNNI, which NumPy computes slowly."""

Model = Callable[[], tuple[Path | None, str]]
"""Function that returns a plan's model, which is created if needed, and ""; or None and the error."""


class QuantizedOutputs:
    """Computes the outputs of the float model, and the differences of other plans' outputs from these.

    Each comparison is journalled, so a resumed session does not repeat it.

    Attributes:
        reference_ns: Duration of the float model's process, including its start; 0 before it ran.
    """

    def __init__(
        self,
        baseline: Measuring,
        replay: Replay,
        refs: tuple[FeedRef, ...],
        name: str = "bits",
        source: Path | None = None,
    ) -> None:
        """Store the arguments; nothing is run.

        Args:
            baseline: The float model.
            replay: Replay of the session.
            refs: The inputs.
            name: Name of these inputs in the journal.
            source: File of the float model; None if the baseline runs it.
        """
        self._source = source
        self._baseline, self._replay, self._refs, self._name = baseline, replay, refs, name
        self._reference: Path | None = None
        self.reference_ns = 0

    @property
    def reference(self) -> Path:
        """The folder of the float model's outputs, which are computed on first use."""
        if self._reference is None:
            baseline = self._baseline
            # The baseline itself may be a quantized model, if a memory limit requires it.
            plan = msgspec.structs.replace(baseline.side.plan, rewrites=()) if self._source else None
            base = baseline.arm(f"{self._name}-base", plan=plan, model=self._source, refs=self._refs)
            measured = baseline.require_measured(base, self._run(base))
            self._reference, self.reference_ns = Path(measured.outputs_path), measured.elapsed_ns
        return self._reference

    def difference(self, plan: Plan, model: Model, tolerance: Tolerance | None) -> OutputDifference:
        """Return the largest difference of a plan's outputs over all inputs."""
        return self._once(f"{self._name}-{plan.id}", lambda: self._ran(plan, model, tolerance))

    def without_vnni(
        self, plan: Plan, model: Model, tolerance: Tolerance | None, limit_s: float
    ) -> OutputDifference:
        """Return the difference of a plan's outputs on an emulated processor with saturating 16-bit sums."""
        return self._once(f"no-vnni-{plan.id}", lambda: self._emulated(plan, model, tolerance, limit_s))

    def _once(self, key: str, make: Callable[[], OutputDifference]) -> OutputDifference:
        differences = self._baseline.check.known_differences
        if key not in differences:
            differences[key] = difference = make()
            self._baseline.log.add("difference", {"key": key, "difference": difference})
            self._replay.record_other_work()
        return differences[key]

    def _ran(self, plan: Plan, model: Model, tolerance: Tolerance | None) -> OutputDifference:
        path, failed = model()
        if path is None:
            return _none(failed)
        baseline, reference = self._baseline, self.reference
        arm = baseline.arm(f"{self._name}-{plan.id}-outputs", plan=plan, model=path, refs=self._refs)
        outcome = self._run(arm)
        if not isinstance(outcome, Measured):
            return _none(outcome.what)
        place, left_out = Path(outcome.outputs_path), output_check.removed_outputs(baseline, plan.rewrites)
        difference = baseline.comparer.difference(reference, place, self._refs, tolerance, left_out)
        shutil.rmtree(place, ignore_errors=True)
        return difference

    def _run(self, arm: Arm) -> Outcome:
        """Run each input once, with a time limit that is extended for many inputs."""
        baseline, n_inputs = self._baseline, len(self._refs)
        pilot = baseline.pilot
        each_ns = max(pilot.input_ns, self.reference_ns / n_inputs)
        with baseline.limits.extended_to(pilot.start_ns + n_inputs * each_ns):
            return baseline.executor.untimed(arm)

    def _emulated(
        self, plan: Plan, model: Model, tolerance: Tolerance | None, limit_s: float
    ) -> OutputDifference:
        baseline, refs = self._baseline, self._refs[:MOST_EMULATED]
        path, failed = model()
        if path is None:
            return _none(failed)
        place = baseline.scratch / f"no-vnni-{plan.id}"
        tool = ToolProcess(
            runtime=baseline.side.runtime,
            folder=baseline.scratch,
            custom_ops=tuple(baseline.options.custom_ops),
            feeds=refs,
            limits=Limits(load_s=limit_s),
        )
        try:
            tool("saturated", path, place, {})
        except OrtuneError as error:
            return _none(error.what)
        else:
            left_out = output_check.removed_outputs(baseline, plan.rewrites)
            return baseline.comparer.difference(self.reference, place, refs, tolerance, left_out)
        finally:
            shutil.rmtree(place, ignore_errors=True)


def _none(why: str) -> OutputDifference:
    return OutputDifference(ok=False, comparable=False, what=why)
