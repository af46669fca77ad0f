"""Stores the weights of matrix products in 8 bits, and quantises what they are multiplied with at each run.

What it is: ONNX Runtime's dynamic quantiser: MatMul, Gemm and LSTM become integer operators whose activations get
    their scale when the model runs. No calibration is needed.
Why it costs: matrix products wait for weights: in float32 they are four times the bytes, and integer dot products do
    several multiplications at once.
Evidence: the time of MatMul, Gemm and LSTM in the profile; the outputs' error, size and time of the quantised
    model, side by side.
Fix and its safety: numerics: outputs change by about a hundredth. Convolutions stay as they are.
Example: ``--rewrite dynamic-int8:scales=channel``
References: ONNX Runtime documentation, "Quantize ONNX models".
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
    return [({"scales": "channel"}, f"{megabytes(n_bytes)} in matrix products: 8 bits, without calibration")]


REWRITE = Rewrite(
    name="dynamic-int8",
    summary="weights of matrix products in 8 bits, activations quantised at each run",
    safety="numerics",
    stage=8,
    family=FAMILY,
    params=(
        Param(
            name="weights",
            kind="choice",
            default="s8",
            choices=("s8", "u8"),
            summary="weights signed or unsigned",
        ),
        Param(
            name="scales",
            kind="choice",
            default="tensor",
            choices=("tensor", "channel"),
            summary="one scale for a weight, or one for each channel",
        ),
        RANGE,
        LEAVE,
    ),
    task="quantize-dynamic",
    refuses=_refuses,
    mends=mend,
    proposes=_proposes,
)
