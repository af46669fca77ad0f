"""Sides run once more with activations in float32, where ONNX Runtime rounds them to int8 by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ortune.graph.model.open import open_model
from ortune.measuring import activations
from ortune.measuring.executor import Arm
from ortune.measuring.field import Field
from ortune.outputs import pairing
from ortune.records import Measured
from ortune.search.blocks import BASE


class PreciseRuns:
    """Outputs of a field's base and of other arms without the rounding of activations, each run at most once.

    Args:
        field: Whose processes run them.
    """

    def __init__(self, field: Field) -> None:
        self._field = field
        self._known: dict[str, Path | None] = {}

    def outputs(
        self, arm: Arm | None, ran: Path, reference: Path, renames: Mapping[str, Mapping[str, str]]
    ) -> tuple[Path, Path] | None:
        """Returns the outputs of the base and of an arm with activations in float32; None if neither rounds them.

        Args:
            arm: The arm; None for the base itself.
            ran: What it gave.
            reference: What the base gave, or what is held to be right in its place.
            renames: By arm, the names of its outputs as the base calls them.
        """
        base = self._field.arm(BASE)
        own = self._of(base, {})
        other = self._of(arm or base, renames.get((arm or base).name, {}))
        return None if own is None and other is None else (own or reference, other or ran)

    def _of(self, arm: Arm, renames: Mapping[str, str]) -> Path | None:
        """The outputs of an arm with activations in float32; None if it does not round them, or does not run so."""
        key = f"{arm.plan.id} {arm.model} {arm.runtime.build}"
        if key not in self._known:
            self._known[key] = self._run(arm, renames)
        return self._known[key]

    def _run(self, arm: Arm, renames: Mapping[str, str]) -> Path | None:
        if arm.runtime.source is not None:  # a framework runs it, and there is no ONNX model
            return None
        side = self._field.side
        model = side.model if arm.model == side.model.path else open_model(arm.model)
        plan = activations.in_float32(arm.plan, model.ir)
        if plan is None:
            return None
        precise = replace(arm, name=f"{arm.name}-precise", plan=plan, wait_ratio=0.0)
        outcome = self._field.executor.trial(precise, runs=0, keep_outputs=True, fresh=True)
        if not isinstance(outcome, Measured):
            return None
        folder = Path(outcome.outputs_path)
        for case in self._field.work.cases:
            pairing.rename_outputs(folder / case.name, renames)
        return folder
