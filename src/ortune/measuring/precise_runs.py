"""Runs sides once more with activations in float32, if ONNX Runtime rounds them to int8 by default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ortune.graph.model.open import open_model
from ortune.measuring import activations
from ortune.measuring.activations import PreciseOutputs
from ortune.measuring.executor import Arm
from ortune.measuring.measuring import Measuring
from ortune.outputs import pairing
from ortune.search.blocks import BASE


def outputs_in_float32(
    measuring: Measuring, arm: Arm | None, ran: Path, reference: Path
) -> tuple[PreciseOutputs, PreciseOutputs] | None:
    """Return the outputs of the base and of an arm with activations in float32; None if neither rounds these.

    Base and arm are each run at most once.

    Args:
        measuring: The measurement, whose processes run the arms.
        arm: The arm; None for the base.
        ran: Folder with the outputs of the arm.
        reference: Folder with the outputs of the base, or with the right outputs that replace these.
    """
    base, renames = measuring.arm(BASE), measuring.check.renames
    own = _precise_outputs(measuring, base, {})
    other = _precise_outputs(measuring, arm or base, renames.get((arm or base).name, {}))
    if own is None and other is None:
        return None
    return own or PreciseOutputs(folder=reference), other or PreciseOutputs(folder=ran)


def _precise_outputs(measuring: Measuring, arm: Arm, renames: Mapping[str, str]) -> PreciseOutputs | None:
    """Return the outputs of an arm with activations in float32; None if none are rounded or the run fails."""
    known, key = measuring.check.precise, f"{arm.plan.id} {arm.model} {arm.runtime.build}"
    if key not in known:
        known[key] = _run(measuring, arm, renames)
    return known[key]


def _run(measuring: Measuring, arm: Arm, renames: Mapping[str, str]) -> PreciseOutputs | None:
    if arm.runtime.source is not None:  # a framework runs it, and there is no ONNX model
        return None
    side = measuring.side
    model = side.model if arm.model == side.model.path else open_model(arm.model)
    precise = activations.run_in_float32(measuring.executor, arm, model, measuring.scratch / "float32")
    if precise is not None:
        for case in measuring.work.cases:
            pairing.rename_outputs(precise.folder / case.name, renames)
    return precise
