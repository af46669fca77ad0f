"""Stores weights and activations in 8 bits, with scales found by running the model on inputs (QDQ).

What it is: ONNX Runtime's static quantiser. It runs the model on calibration inputs, notes between which values every
    tensor lies, and puts QuantizeLinear and DequantizeLinear around the operators; ONNX Runtime then fuses these into
    integer kernels.
Why it costs: a float32 product reads four times the bytes and does a quarter of the multiplications an instruction
    that an int8 one does on a CPU with integer dot products (VNNI, dotprod).
Evidence: the time of Conv, MatMul and Gemm in the profile; the outputs' error, the file's size and the time of the
    quantised model, side by side. Where operators between the products have no integer kernel, the conversions cost
    more than the products gain.
Fix and its safety: numerics: outputs change by about a hundredth, more where a few values are much larger than the
    others. Calibrate on inputs like those that will come; on invented ones the scales are guesses.
Example: ``--rewrite static-int8:activations=s8,leave=ends``
References: ONNX Runtime documentation, "Quantize ONNX models"; Jacob et al. 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import mend
from ortune.rewrites._quantized import (
    FAMILY,
    LEAST_BYTES,
    LEAVE,
    PRODUCTS,
    RANGE,
    megabytes,
    refuses,
    weight_bytes,
)


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, *PRODUCTS)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n_bytes = weight_bytes(model, *PRODUCTS)
    if _refuses(model) or n_bytes < LEAST_BYTES:
        return []
    return [
        ({}, f"{megabytes(n_bytes)} in products: 8 bits for weights and activations"),
        ({"operators": "products"}, "8 bits in products alone: what lies between them stays as it is"),
        ({"activations": "s8"}, "8 bits for weights and activations, both signed"),
    ]


REWRITE = Rewrite(
    name="static-int8",
    summary="weights and activations in 8 bits, calibrated on inputs",
    safety="numerics",
    stage=8,
    family=FAMILY,
    params=(
        Param(
            name="activations",
            kind="choice",
            default="u8",
            choices=("u8", "s8"),
            summary="activations unsigned (any range) or signed (symmetric about zero)",
        ),
        Param(
            name="scales",
            kind="choice",
            default="channel",
            choices=("channel", "tensor"),
            summary="a scale for each channel of a weight, or one for all",
        ),
        Param(
            name="calibration",
            kind="choice",
            default="minmax",
            choices=("minmax", "percentile", "entropy"),
            summary="how ranges are chosen from what was seen",
        ),
        Param(
            name="operators",
            kind="choice",
            default="all",
            choices=("all", "products"),
            summary="every operator that the quantiser knows, or Conv, MatMul and Gemm alone",
        ),
        RANGE,
        LEAVE,
    ),
    calibrated=True,
    task="quantize-static",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
