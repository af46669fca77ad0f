"""Quantizes the weights of matrix multiplications to 8 bits, and their inputs dynamically in each run.

What it is: ONNX Runtime's dynamic quantizer: MatMul, Gemm and LSTM become integer operators whose activation scales
    are computed at run time. No calibration is needed.
Why it costs: matrix multiplications with few rows are limited by reading the weights, which in float32 have four times
    the bytes of int8. Integer dot products also do several multiplications per instruction.
Evidence: the time of MatMul, Gemm and LSTM in the profile; the output error, size and time of the quantized model.
Fix and its safety: numerics: outputs change by about one percent. Convolutions stay in float32.
Example: ``--rewrite dynamic-int8:scales=channel``
References: ONNX Runtime documentation, "Quantize ONNX models".
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import (
    FAMILY,
    LEAST_BYTES,
    LEAVE,
    PREPARE,
    RANGE,
    RECURRENT,
    is_small_share,
    megabytes,
    refuses,
    weight_bytes,
)

_KINDS = ("MatMul", "Gemm", *RECURRENT)


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, *_KINDS)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n_bytes = weight_bytes(model, *_KINDS)
    if _refuses(model) or n_bytes < LEAST_BYTES or is_small_share(model, n_bytes):
        return []
    return [
        (
            {"scales": "channel"},
            f"{megabytes(n_bytes)} in matrix multiplications could be 8-bit, without calibration",
        )
    ]


REWRITE = Rewrite(
    name="dynamic-int8",
    summary="quantizes weights to 8 bits, and activations in each run",
    safety="numerics",
    stage=8,
    family=FAMILY,
    params=(
        Param(
            name="weights",
            kind="choice",
            default="s8",
            choices=("s8", "u8"),
            summary="signed weights, or unsigned ones, which never saturate and are slower on x86 with VNNI",
        ),
        Param(
            name="scales",
            kind="choice",
            default="tensor",
            choices=("tensor", "channel"),
            summary="one scale per weight tensor, or one per channel",
        ),
        RANGE,
        LEAVE,
    ),
    task="quantize-dynamic",
    prepare=PREPARE,
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
