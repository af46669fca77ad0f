"""Activations that MatMulNBits rounds to int8, and the plan that computes them in float32."""

from __future__ import annotations

import msgspec
import onnx_ir as ir

from ortune import targets
from ortune.catalogue.facts import facts_of
from ortune.catalogue.named import GRAPH_OPTIMIZATION_LEVEL as LEVEL
from ortune.catalogue.named import QDQ_MATMULNBITS_ACCURACY_LEVEL as ACCURACY
from ortune.catalogue.providers import CPU
from ortune.records import OutputDifference, Plan

FLOAT32 = "1"
_UNFUSED = ("disable", "basic")
"""Levels at which weights are dequantized to float and multiplied by MatMul."""
_FLOAT_LEVELS = ("0", FLOAT32)


def in_float32(plan: Plan, model: ir.Model) -> Plan | None:
    """Return the plan with activations in float32, or None if ONNX Runtime does not round them to int8.

    Args:
        plan: The plan of the model.
        model: The model, searched for blockwise weights.
    """
    level = plan.settings.get(LEVEL.name, LEVEL.default)
    accuracy = plan.settings.get(ACCURACY.name, ACCURACY.default)
    if level in _UNFUSED or str(accuracy) in _FLOAT_LEVELS or targets.target_of(plan).name != CPU.target:
        return None
    if not facts_of(model).blockwise_weights:
        return None
    return msgspec.structs.replace(plan, settings={**plan.settings, ACCURACY.name: FLOAT32})


def accepted_as_rounding(difference: OutputDifference, without: OutputDifference) -> OutputDifference:
    """Return the difference, accepted with the rounding of activations as its cause if float32 removes it.

    Args:
        difference: The difference of the outputs as they are.
        without: The difference with activations in float32.
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
