"""Costs of floating-point matrix products: the number of multiply-adds is the output size times the inner dimension."""

from __future__ import annotations

from ortune.graph.cost.activations import activation
from ortune.graph.cost.call import Call, Formula, products


def _inner(call: Call) -> int:
    """Return the inner dimension of a matrix product with possibly transposed operands."""
    # transBatchA moves the first axis after the batch axes; with transA, that first axis is the inner one.
    vector = len(call.shape(0)) < 2
    return call.dim(0, -1 if vector or not call.int("transA") else (0 if call.int("transBatchA") else -2))


def _behind(call: Call) -> int:
    """Return the operations per output element for scaling by ``alpha`` and a fused activation."""
    return (call.float("alpha", 1.0) != 1.0) + activation(call.text("activation"))


def _gemm_behind(call: Call) -> int:
    beta = call.float("beta", 1.0)
    return _behind(call) + (1 + (beta != 1.0) if call.has(2) and beta != 0 else 0)


_GEMM = products(lambda c: c.dim(0, 0 if c.int("transA") else 1), _gemm_behind)

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {"MatMul": products(lambda c: c.dim(0, -1)), "Gemm": _GEMM},
    "com.microsoft": {
        **dict.fromkeys(
            ("FusedMatMul", "FusedMatMulActivation", "TransposeMatMul"), products(_inner, _behind)
        ),
        "FusedGemm": _GEMM,
        "GemmFastGelu": products(lambda c: c.dim(0, -1), lambda c: c.has(2) + activation("FastGelu")),
        "GemmFloat8": _GEMM,
    },
}
