"""Quantizes weights and activations to 8 bits, with scales calibrated on inputs (QDQ).

What it is: ONNX Runtime's static quantizer. It runs the model on calibration inputs, records the range of every
    tensor, and inserts QuantizeLinear and DequantizeLinear around the operators, which ONNX Runtime fuses into
    integer kernels.
Why it costs: on a CPU with integer dot products (VNNI, dotprod), float32 reads four times the bytes of int8 and
    performs a quarter of the multiplications per instruction.
Evidence: the time of Conv, MatMul and Gemm in the profile; the output error, file size and time of the quantized
    model. Where operators in between have no integer kernel, the conversions can cost more than quantization saves.
Fix and its safety: numerics: outputs change by about one percent, more where a few values are much larger than the
    others. Calibrate on representative inputs; with synthetic inputs the scales are guesses.
Example: ``ortune tune model.onnx --data samples --rewrite static-int8:activations=s8,leave=ends``
References: ONNX Runtime documentation, "Quantize ONNX models"; Jacob et al. 2018.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._affine import PRODUCTS
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import (
    FAMILY,
    LEAST_BYTES,
    LEAVE,
    PREPARE,
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
        ({}, f"{megabytes(n_bytes)}: weights and activations could be 8-bit"),
        ({"operators": "products"}, "only Conv, MatMul and Gemm in 8 bits; other operators stay in float32"),
        ({"activations": "s8"}, "weights and activations in 8 bits, both signed"),
    ]


REWRITE = Rewrite(
    name="static-int8",
    summary="quantizes weights and activations to 8 bits, calibrated on inputs",
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
            summary="one scale per channel of a weight, or one per tensor",
        ),
        Param(
            name="calibration",
            kind="choice",
            default="minmax",
            choices=("minmax", "percentile", "entropy"),
            summary="how ranges are chosen from the observed values",
        ),
        Param(
            name="operators",
            kind="choice",
            default="all",
            choices=("all", "products"),
            summary="all operators that the quantizer supports, or only Conv, MatMul and Gemm",
        ),
        Param(
            name="bias",
            kind="choice",
            default="kept",
            choices=("kept", "corrected"),
            summary="corrected: each layer's mean output on the calibration inputs matches float",
        ),
        RANGE,
        LEAVE,
    ),
    calibrated=True,
    task="quantize-static",
    prepare=PREPARE,
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
