"""Result of ``ortune quantize``: sensitivity of layers, tried models, and the winner."""

from __future__ import annotations

from typing import Literal

from ortune.records import (
    Adoption,
    Calibration,
    Comparison,
    Figures,
    OtherPrograms,
    OutputDifference,
    Plan,
    PrecisionRow,
    ShippedAnswer,
)
from ortune.records.base import Record

KeptReason = Literal["", "error", "no-gain", "not-quantized"]
"""Reason that a layer is in float: its error is too large, quantization saves no time, or the quantizer does not
support the layer; "" for a quantized layer."""


Saturation = Literal["", "measured", "elsewhere"]
"""Where sums of uint8 times int8 products saturate: on this x86 processor without VNNI ("measured", included in the
error), or only on others ("elsewhere"); "" if the winner has no such products or has 7-bit weights. Signed activations
do not avoid saturation, since ONNX Runtime converts them to unsigned there."""


class LayerRow(Record, frozen=True, kw_only=True):
    """One layer of the sensitivity analysis, or several that are equal or adjacent.

    Attributes:
        name: The first layer; ``members`` are all of them.
        error: Error of the model's outputs if only these layers are quantized; None if it was not measured.
        expected_error: The error expected from equal layers of another model, if ``error`` was not measured. It only
            determines the order of measurements.
        error_ratio: Square of the error divided by the sum over all rows: the part of the error that the layers cause.
        time_ns: Time of the layers in float, in a mean run under the profiler; None without a profile.
        time_ratio: Fraction of the time of all layers.
        saved_ns: Time saved by quantization, from the two profiles; None without them.
        n_kept: Number of members that the winner keeps in float.
        reason: Reason that the winner keeps the layers in float.
    """

    name: str
    op_type: str
    members: tuple[str, ...]
    error: float | None = None
    expected_error: float | None = None
    error_ratio: float | None = None
    time_ns: float | None = None
    time_ratio: float | None = None
    saved_ns: float | None = None
    n_kept: int = 0
    reason: KeptReason = ""


class FrontRow(Record, frozen=True, kw_only=True):
    """One model between float and fully quantized.

    Attributes:
        error: Relative L2 error of the worst slice over all outputs and inputs; 0 for the float model.
        ok: Whether its outputs keep the tolerance.
        n_float: Layers in float, of ``n_layers``.
        comparison: Comparison with the float model: on fresh blocks (phase "confirm"), or over the exploratory blocks,
            which are not a claim; None if the model was not timed.
        figures: Statistics over the blocks of the comparison.
        pareto: Whether it is confirmed and no other confirmed row has a smaller error and less time; float counts as
            confirmed if another row is.
        chosen: Whether the model is the winner; false in all rows if no model was confirmed.
        small_gain: Whether it is confirmed to be faster than float, but not by as much as justifies outputs that differ
            by more than rounding.
        adoption: Requirements for running the model; None in the user's own runtime.
        failed: Reason that the model was not timed; "" if it was timed.
    """

    plan: Plan
    error: float
    ok: bool
    n_float: int
    n_layers: int
    size_bytes: int | None = None
    outputs: OutputDifference | None = None
    figures: Figures | None = None
    comparison: Comparison | None = None
    pareto: bool = False
    chosen: bool = False
    small_gain: bool = False
    adoption: Adoption | None = None
    failed: str = ""


class PlannedTarget(Record, frozen=True, kw_only=True):
    """A requested target that cannot be measured here, and the configurations to try on a machine that has the target.

    Attributes:
        why: Reason that the target does not run here.
        plans: The configurations, in the order in which they are tried.
    """

    target: str
    why: str
    plans: tuple[Plan, ...]


class QuantizeResult(ShippedAnswer, frozen=True, kw_only=True):
    """``result`` of ``ortune quantize --json``.

    Attributes:
        tolerance: The tolerance as given.
        winner: The fastest model within the tolerance that is confirmed to be faster than float; otherwise the
            unchanged model.
        methods: The whole model quantized with each method, tried once.
        layers: The sensitivity of one method, in graph order; ``layers_of`` is the whole model with it.
        front: The models that were created, by error; the float model is first.
        calibration: The inputs for calibration and comparison.
        inputs_needed: Real inputs needed for a final result; 0 if there were enough.
        checked_needed: Held-out inputs on which the winner's error must be measured for a final result; 0 if the error
            was measured on that many.
        all_float: Whether no layer can be quantized with a gain and within the tolerance.
        no_time: The steps for which the budget was too small, in words.
        all_methods_s: A sufficient budget for the methods without time left; 0 if there were none.
        enough_s: A sufficient budget for the race and for measuring the error on all held-out inputs; 0 if the budget
            was sufficient.
        metric: The built-in metric that was chosen without --tolerance and --metric; "" for none.
        metric_reason: Reason that ``metric`` fits the outputs.
        judged_by: The metric that decided which models are within the tolerance, chosen or given; "" if a distance did.
        saturation: Whether pairs of the winner's products exceed 16 bits, so that outputs differ between processors.
        saturated: The winner's outputs on an emulated x86 processor without VNNI, for a few inputs, compared with
            float; None on such a processor, and if nothing saturates.
        elsewhere: The fastest model within the tolerance on a provider of another package, if it is confirmed to be
            faster than the winner by more than ``WORTH_ADOPTING``; None if there is none, or it may be the winner.
        elsewhere_needs: Requirements for running ``elsewhere``; None if it needs no package.
        adoption: Requirements for running the winner; None if it runs in the user's own runtime.
        planned: Requested targets that cannot be measured here.
        others: Other programs that used CPUs, if no model was compared on fresh blocks; None on a quiet machine.
        portable: The winner with 7-bit weights, which give equal outputs on all processors. It was compared and not
            timed; None if there is none.
    """

    tolerance: str
    methods: tuple[PrecisionRow, ...] = ()
    layers: tuple[LayerRow, ...] = ()
    layers_of: Plan | None = None
    front: tuple[FrontRow, ...] = ()
    calibration: Calibration
    inputs_needed: int = 0
    checked_needed: int = 0
    metric: str = ""
    metric_reason: str = ""
    judged_by: str = ""
    saturation: Saturation = ""
    saturated: OutputDifference | None = None
    portable: PrecisionRow | None = None
    elsewhere: FrontRow | None = None
    elsewhere_needs: Adoption | None = None
    adoption: Adoption | None = None
    planned: tuple[PlannedTarget, ...] = ()
    others: OtherPrograms | None = None
    budget_s: float = 0.0
    all_float: bool = False
    no_time: str = ""
    all_methods_s: float = 0.0
    enough_s: float = 0.0
