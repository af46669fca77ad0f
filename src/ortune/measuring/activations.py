"""Recognizes differences that occur because MatMulNBits rounds activations to int8."""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from ortune import targets
from ortune.catalogue.facts import facts_of
from ortune.catalogue.levels import level_of
from ortune.catalogue.named import QDQ_MATMULNBITS_ACCURACY_LEVEL as ACCURACY
from ortune.catalogue.providers import CPU
from ortune.records import OutputDifference, Plan

FLOAT32 = "1"
_UNFUSED = ("disable", "basic")
"""Optimisation levels at which MatMul multiplies weights that were dequantized to float."""
_FLOAT_LEVELS = ("0", FLOAT32)


def in_float32(plan: Plan, model: ir.Model) -> Plan | None:
    """Return the plan with activations in float32; None if ONNX Runtime does not round them to int8.

    Args:
        plan: The plan of the model.
        model: The model, searched for blockwise weights.
    """
    accuracy = plan.settings.get(ACCURACY.name, ACCURACY.default)
    if (
        level_of(plan) in _UNFUSED
        or str(accuracy) in _FLOAT_LEVELS
        or targets.target_of(plan).name != CPU.target
    ):
        return None
    if not facts_of(model).blockwise_weights:
        return None
    return msgspec.structs.replace(plan, settings={**plan.settings, ACCURACY.name: FLOAT32})


def accepted_as_rounding(difference: OutputDifference, without: OutputDifference) -> OutputDifference:
    """Return the difference, accepted and with the rounding of activations as its cause if float32 removes it.

    Args:
        difference: The difference of the outputs.
        without: The difference of the outputs with activations in float32.
    """
    if not without.ok:
        return difference
    return msgspec.structs.replace(
        difference,
        ok=True,
        what="",
        accepting_tolerance=None,
        cause="int8-activations",
        without_cause_l2=without.relative_l2,
    )
