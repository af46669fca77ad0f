"""Matrix products in float: multiply-adds are outputs times the inner dimension."""

from __future__ import annotations

from ortune.analysis.cost.activations import activation
from ortune.analysis.cost.call import Call, Count, Formula


def matmul(call: Call) -> Count:
    """Plain product; batches are in the output already."""
    macs = call.n_out() * call.dim(0, -1)
    return Count(flops=2 * macs, macs=macs)


def fused_matmul(call: Call) -> Count:
    """A product of perhaps transposed operands, scaled by ``alpha``."""
    # transBatchA moves the first axis behind the batches; with transA that first axis is the inner one.
    vector = len(call.shape(0)) < 2
    axis = -1 if vector or not call.int("transA") else (0 if call.int("transBatchA") else -2)
    outputs = call.n_out()
    macs = outputs * call.dim(0, axis)
    extra = (call.float("alpha", 1.0) != 1.0) + activation(call.text("activation"))
    return Count(flops=2 * macs + extra * outputs, macs=macs)


def gemm(call: Call) -> Count:
    """``alpha A B + beta C``, with a fused activation."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, 0 if call.int("transA") else 1)
    beta = call.float("beta", 1.0)
    extra = (call.float("alpha", 1.0) != 1.0) + activation(call.text("activation"))
    if call.has(2) and beta != 0:
        extra += 1 + (beta != 1.0)
    return Count(flops=2 * macs + extra * outputs, macs=macs)


def gemm_fast_gelu(call: Call) -> Count:
    """A product, a bias and FastGelu."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, -1)
    return Count(flops=2 * macs + (call.has(2) + activation("FastGelu")) * outputs, macs=macs)


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {"MatMul": matmul, "Gemm": gemm},
    "com.microsoft": {
        "FusedMatMul": fused_matmul,
        "FusedMatMulActivation": fused_matmul,
        "TransposeMatMul": fused_matmul,
        "FusedGemm": gemm,
        "GemmFastGelu": gemm_fast_gelu,
        "GemmFloat8": gemm,
    },
}
