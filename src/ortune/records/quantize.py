"""The document of ``ortune quantize``."""

from __future__ import annotations

from typing import Literal

from ortune.records.answer import Answer
from ortune.records.base import Record
from ortune.records.comparison import Comparison
from ortune.records.measure import Figures, OutputDifference
from ortune.records.plan import Calibration, Plan
from ortune.records.tune import PrecisionRow

KeptReason = Literal["", "error", "no-gain", "not-quantized", "not-asked"]
"""Why a layer is in float: fewer bits cost too much error, or save no time, or the quantizer has nothing for it, or no
time was left to ask; "" for one in fewer bits."""

Saturation = Literal["", "measured", "elsewhere"]
"""Products of uint8 and int8 saturate on x86 processors without VNNI: on this one, so that the error includes it, or on
others alone; "" where the winner has none, or weights of 7 bits. Signed activations are no way out: ONNX Runtime makes
them unsigned there."""


class LayerRow(Record, frozen=True, kw_only=True):
    """One question of the sensitivity analysis: a layer, or several of equal structure or next to each other.

    Attributes:
        name: The first layer's; ``members`` are all of them.
        error: At the model's outputs where these alone are in fewer bits; None where that was not measured.
        expected_error: In its place, as layers of the same structure in another model suggest; it orders what is tried
            first, and decides nothing.
        error_ratio: Its square over the sum of the squares of all rows: the part of the error that they cause.
        time_ns: What they take in float, in a mean run under the profiler; None without a profile.
        time_ratio: Of the whole run.
        saved_ns: By fewer bits, in the two profiles; None without them.
        n_kept: How many of the members the winner keeps in float.
        reason: Why the winner keeps these in float.
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
    """One model on the way from float to fewer bits.

    Attributes:
        error: The worst slice's relative L2 over all outputs and inputs; 0 for the float model.
        ok: Its outputs keep the tolerance.
        n_float: Layers in float, of ``n_layers``.
        comparison: Against the float model: on fresh blocks (phase "confirm"), or over the blocks of the race, which
            claim nothing; None where it was not raced.
        figures: Over those blocks.
        pareto: It is confirmed, and no other confirmed row has a smaller error and less time.
        chosen: It is the winner.
        failed: Why it was not raced; "" where it was.
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
    failed: str = ""


class QuantizeResult(Answer, frozen=True, kw_only=True):
    """``result`` of ``ortune quantize --json``.

    Attributes:
        tolerance: What the outputs had to keep, as it was written.
        winner: The fastest that keeps the tolerance and is confirmed to be faster than float; else the plan that runs
            the model as it is.
        methods: The whole model by each means, tried once.
        layers: The sensitivity of one means, in the order of the graph; ``layers_of`` is the whole model by it.
        front: What was made on the way, by error; the float model is the first.
        calibration: What models were calibrated on and compared with.
        inputs_needed: Real inputs that a final answer needs, 0 where there were as many.
        no_time: What the budget did not hold, in words; ``enough_s`` is the budget that does, 0 where this one did.
        metric: The built-in metric that was chosen, where neither --tolerance nor --metric was given; "" for none.
        metric_reason: What of the outputs tells that it fits.
        saturation: Where pairs of its products exceed 16 bits, so that outputs differ from processor to processor.
        saturated: The winner's outputs as an x86 processor without VNNI computes them, emulated for a few inputs,
            against float; None where this is such a processor, or nothing saturates.
        portable: The winner with weights of 7 bits, which no sum of two exceeds: alike on all processors. It was
            compared and not timed; None where there is none.
    """

    tolerance: str
    methods: tuple[PrecisionRow, ...] = ()
    layers: tuple[LayerRow, ...] = ()
    layers_of: Plan | None = None
    front: tuple[FrontRow, ...] = ()
    calibration: Calibration
    inputs_needed: int = 0
    metric: str = ""
    metric_reason: str = ""
    saturation: Saturation = ""
    saturated: OutputDifference | None = None
    portable: PrecisionRow | None = None
    budget_s: float = 0.0
    no_time: str = ""
    enough_s: float = 0.0
