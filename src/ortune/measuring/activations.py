"""Recognizes differences that occur because MatMulNBits rounds activations to int8."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.facts import facts_of
from ortune.catalogue.levels import level_of
from ortune.catalogue.named import QDQ_MATMULNBITS_ACCURACY_LEVEL as ACCURACY
from ortune.catalogue.providers import CPU
from ortune.graph.model.open import OpenModel
from ortune.measuring.executor import Arm, Executor
from ortune.measuring.sides import MOST_EDITED_BYTES
from ortune.records import Measured, OutputDifference, Plan, RewriteSpec
from ortune.rewrites import accuracy_level
from ortune.rewrites.accuracy_level import FLOAT32

_UNFUSED = ("disable", "basic")
"""Optimisation levels at which MatMul multiplies weights that were dequantized to float."""
_FLOAT_LEVELS = ("0", FLOAT32)
_REWRITE = RewriteSpec(name=accuracy_level.REWRITE.name, params={"level": FLOAT32})
_SET_OPTION = f"--set {ACCURACY.name}={FLOAT32}"
_REWRITE_OPTION = f"--rewrite {_REWRITE.name}:level={FLOAT32}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreciseOutputs:
    """The folder of outputs with activations in float32, and the options that keep them so; () if none are needed."""

    folder: Path
    options: tuple[str, ...] = ()


def run_in_float32(executor: Executor, arm: Arm, model: OpenModel, copies: Path) -> PreciseOutputs | None:
    """Run an arm once with activations in float32; return None if they are not rounded to int8, or the run fails.

    Args:
        executor: Executor of the run.
        arm: The arm.
        model: The model that the arm runs.
        copies: Scratch folder for a copy of the model with another accuracy level; it is removed.

    Raises:
        OSError: The copy cannot be written.
    """
    plan, path, options = arm.plan, arm.model, list[str]()
    if targets.target_of(plan).name != CPU.target:
        return None
    if _fuses(plan) and facts_of(model.ir).blockwise_weights:
        plan = msgspec.structs.replace(plan, settings={**plan.settings, ACCURACY.name: FLOAT32})
        options.append(_SET_OPTION)
    if rounded_by_file(model):
        plan = msgspec.structs.replace(plan, rewrites=(*plan.rewrites, _REWRITE))
        path = rewrites.apply_all(model, (_REWRITE,), copies)
        options.append(_REWRITE_OPTION)
    if not options:
        return None
    outcome = executor.untimed(
        replace(arm, name=f"{arm.name}-precise", plan=plan, model=path, wait_ratio=0.0)
    )
    shutil.rmtree(copies, ignore_errors=True)
    if not isinstance(outcome, Measured):
        return None
    return PreciseOutputs(folder=Path(outcome.outputs_path), options=tuple(options))


def _fuses(plan: Plan) -> bool:
    """Return whether ONNX Runtime makes MatMulNBits with int8 activations from dequantized weights."""
    accuracy = plan.settings.get(ACCURACY.name, ACCURACY.default)
    return level_of(plan) not in _UNFUSED and str(accuracy) not in _FLOAT_LEVELS


def rounded_by_file(model: OpenModel) -> bool:
    """Return whether nodes of a model request int8 activations at every optimisation level, and a copy can differ."""
    if model.in_ort_format or model.size_bytes > MOST_EDITED_BYTES:
        return False
    return any(map(accuracy_level.in_int8, accuracy_level.products(model.ir)))


def accepted_as_rounding(
    difference: OutputDifference, without: OutputDifference, options: Iterable[str]
) -> OutputDifference:
    """Return the difference, accepted and with the rounding of activations as its cause if float32 removes it.

    Args:
        difference: The difference of the outputs.
        without: The difference of the outputs with activations in float32.
        options: The options that keep the activations in float32.
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
        without_cause_by=tuple(dict.fromkeys(options)),
    )
