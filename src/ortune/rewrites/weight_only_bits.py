"""Quantizes MatMul weights to 8 or 4 bits; inputs and outputs of each node stay in float32.

What it is: ONNX Runtime's weight-only quantizer: a MatMul with constant weights becomes MatMulNBits, with weights in
    blocks that have one scale each.
Why it costs: multiplying one row by a large matrix is limited by memory bandwidth, and with 4 bits the matrix has an
    eighth of the bytes.
Evidence: MatMul with few rows and large weights; the output error, size and time.
Fix and its safety: numerics: 8 bits change outputs by about 0.1 %, 4 bits by several percent.
Example: ``--rewrite weight-only-bits:bits=4,block=64``
References: ONNX Runtime documentation, "Quantize ONNX models", 4 bits; com.microsoft.MatMulNBits.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.records import Workload
from ortune.rewrites._base import Param, Proposed, Rewrite
from ortune.rewrites._marks import repair_saved
from ortune.rewrites._quantized import FAMILY, LEAVE, is_small_share, megabytes, refuses, weight_bytes

_LEAST_BYTES = 1 << 20  # minimum bytes of weights; smaller ones stay in the caches


def _refuses(model: ir.Model) -> tuple[str, ...]:
    return refuses(model, "MatMul")


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    n_bytes = weight_bytes(model, "MatMul")
    if _refuses(model) or n_bytes < _LEAST_BYTES or is_small_share(model, n_bytes):
        return []
    return [
        ({"bits": bits}, f"{megabytes(n_bytes)} in MatMul could be stored in {bits} bits")
        for bits in ("8", "4")
    ]


REWRITE = Rewrite(
    name="weight-only-bits",
    summary="quantizes MatMul weights to 8 or 4 bits, with a scale per block",
    safety="numerics",
    stage=8,
    family=FAMILY,
    params=(
        Param(name="bits", kind="choice", default="8", choices=("8", "4"), summary="bits per weight"),
        Param(
            name="block",
            kind="choice",
            default="32",
            choices=("16", "32", "64", "128", "256"),
            summary="weights per scale",
        ),
        Param(
            name="products",
            kind="choice",
            default="int8",
            choices=("int8", "float32"),
            summary="`int8` quantizes the input to 8 bits before multiplying, `float32` dequantizes the weights",
        ),
        LEAVE,
    ),
    task="quantize-weights",
    refuses=_refuses,
    mends=repair_saved,
    proposes=_proposes,
)
