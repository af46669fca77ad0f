"""Costs of quantization and of quantized matrix products; integer operations count like floating-point operations."""

from __future__ import annotations

import math

from ortune.graph.cost.call import Call, Count, Formula, Uncounted, products, work

QUANTIZE = 3
"""Quantizing operations per element: divide by the scale, round, add the zero point. Requantizing costs the same."""
DEQUANTIZE = 2
"""Dequantizing operations per element: subtract the zero point, multiply by the scale."""
RANGE = 2
"""Operations per element to find the range of a tensor: compare with the minimum and the maximum so far."""


def _row(call: Call) -> int:
    """Return the inner dimension of a matrix product; zero points are folded into weight sums and not counted."""
    return call.dim(0, -1)


def dynamic_quantize_matmul(call: Call) -> Count:
    """Count DynamicQuantizeMatMul: quantization of the first operand, matrix product, scaling, and a bias (input 4)."""
    count = products(_row, lambda c: 1 + c.has(4))(call)
    return Count(flops=count.flops + (RANGE + QUANTIZE) * call.n_in(), macs=count.macs)


def matmul_nbits(call: Call) -> Count:
    """Count MatMulNBits, a matrix product with weights of a few bits; unpacking the weights is not counted."""
    inner, outer = call.int("K"), call.int("N")
    if inner < 1 or outer < 1:
        raise Uncounted("the attributes K and N are missing")
    rows = call.n_in() // inner
    macs = rows * inner * outer
    return Count(flops=2 * macs + call.has(5) * rows * outer, macs=macs)


def _window(call: Call) -> int:
    return math.prod(call.ints("kernel_shape") or [1])


_QUANTIZE_LINEAR = work(lambda c: QUANTIZE * c.n_in())
_DEQUANTIZE_LINEAR = work(lambda c: DEQUANTIZE * c.n_in())
# Both operands are dequantized, combined and requantized.
_BINARY = work(lambda c: (2 * DEQUANTIZE + 1 + QUANTIZE) * c.n_out())
# One lookup in a table of 256 values per element.
_LOOKUP = work(lambda c: c.n_out())
# Sum over the input, divided and requantized.
_OVER_ALL = work(lambda c: c.n_in() + (1 + QUANTIZE) * c.n_out())
# Each element is rescaled to the output's scale.
_CONCAT = work(lambda c: (DEQUANTIZE + QUANTIZE) * c.n_out())

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "QuantizeLinear": _QUANTIZE_LINEAR,
        "DequantizeLinear": _DEQUANTIZE_LINEAR,
        "DynamicQuantizeLinear": work(lambda c: (RANGE + QUANTIZE) * c.n_in()),
        "MatMulInteger": products(_row),
        "QLinearMatMul": products(_row, lambda c: QUANTIZE),
    },
    "com.microsoft": {
        "QuantizeLinear": _QUANTIZE_LINEAR,
        "DequantizeLinear": _DEQUANTIZE_LINEAR,
        "MatMulInteger16": products(_row),
        # With a bias; scaled to float, or requantized if an output scale is given.
        "QGemm": products(
            lambda c: c.dim(0, 0 if c.int("transA") else 1),
            lambda c: c.has(6) + (QUANTIZE if c.has(7) else 1),
        ),
        "MatMulIntegerToFloat": products(_row, lambda c: 1 + c.has(6)),  # scaled to float, with a bias
        "DynamicQuantizeMatMul": dynamic_quantize_matmul,
        "MatMulNBits": matmul_nbits,
        "MatMulFpQ4": products(_row),
        "MatMulBnb4": matmul_nbits,
        "QLinearAdd": _BINARY,
        "QLinearMul": _BINARY,
        "QLinearSigmoid": _LOOKUP,
        "QLinearLeakyRelu": _LOOKUP,
        "QLinearAveragePool": work(lambda c: (_window(c) + 1 + QUANTIZE) * c.n_out()),
        "QLinearGlobalAveragePool": _OVER_ALL,
        "QLinearReduceMean": _OVER_ALL,
        "QLinearSoftmax": work(lambda c: (5 + QUANTIZE) * c.n_in()),  # by table
        "QLinearConcat": _CONCAT,
        "QLinearWhere": _CONCAT,
    },
}
