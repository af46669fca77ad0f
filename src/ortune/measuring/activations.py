"""Recognizes differences that occur because MatMulNBits rounds activations to int8."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ortune import rewrites, targets
from ortune.catalogue.facts import facts_of
from ortune.catalogue.levels import level_of
from ortune.catalogue.named import QDQ_MATMULNBITS_ACCURACY_LEVEL as ACCURACY
from ortune.catalogue.providers import CPU
from ortune.graph.model.open import OpenModel
from ortune.measuring.sides import MOST_EDITED_BYTES
from ortune.records import OutputDifference, Plan, RewriteSpec
from ortune.rewrites import accuracy_level
from ortune.rewrites.accuracy_level import FLOAT32

_UNFUSED = ("disable", "basic")
"""Optimisation levels at which MatMul multiplies weights that were dequantized to float."""
_FLOAT_LEVELS = ("0", FLOAT32)
_REWRITE = RewriteSpec(name=accuracy_level.REWRITE.name, params={"level": FLOAT32})
_SET_OPTION = f"--set {ACCURACY.name}={FLOAT32}"
_REWRITE_OPTION = f"--rewrite {_REWRITE.name}:level={FLOAT32}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreciseModel:
    """A model whose activations stay in float32.

    Attributes:
        plan: The plan that runs it.
        path: The file to run.
        options: The options that make the difference to the model with rounded activations.
    """

    plan: Plan
    path: Path
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreciseOutputs:
    """The folder of outputs with activations in float32, and the options that keep them so; () if none are needed."""

    folder: Path
    options: tuple[str, ...] = ()


def in_float32(plan: Plan, model: OpenModel, folder: Path) -> PreciseModel | None:
    """Return the model with activations in float32; None if ONNX Runtime does not round them to int8.

    Args:
        plan: The plan of the model.
        model: The model that runs, searched for blockwise weights and for MatMulNBits.
        folder: Folder for a copy with another accuracy level, which is created on demand.

    Raises:
        OSError: The copy cannot be written.
    """
    if targets.target_of(plan).name != CPU.target:
        return None
    path, options = model.path, list[str]()
    if _fuses(plan) and facts_of(model.ir).blockwise_weights:
        plan = msgspec.structs.replace(plan, settings={**plan.settings, ACCURACY.name: FLOAT32})
        options.append(_SET_OPTION)
    if rounded_by_file(model):
        path = rewrites.apply_all(model, (_REWRITE,), folder)
        plan = msgspec.structs.replace(plan, rewrites=(*plan.rewrites, _REWRITE))
        options.append(_REWRITE_OPTION)
    return PreciseModel(plan=plan, path=path, options=tuple(options)) if options else None


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
