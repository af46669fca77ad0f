"""Quantizing, and matrix products of quantized operands. Integer operations count like floating-point ones."""

from __future__ import annotations

import math

from ortune.analysis.cost.call import Call, Count, Formula, Uncounted

QUANTIZE = 3
"""Per element: divide by the scale, round, add the zero point. Requantizing is the same."""
DEQUANTIZE = 2
"""Per element: subtract the zero point, multiply by the scale."""
RANGE = 2
"""Per element, to find the range of a tensor: compare with the smallest and the largest so far."""


def quantize_linear(call: Call) -> Count:
    """Float to integer."""
    return Count(flops=QUANTIZE * call.n_in())


def dequantize_linear(call: Call) -> Count:
    """Integer to float."""
    return Count(flops=DEQUANTIZE * call.n_in())


def dynamic_quantize_linear(call: Call) -> Count:
    """Find the range, then quantize."""
    return Count(flops=(RANGE + QUANTIZE) * call.n_in())


def matmul_integer(call: Call) -> Count:
    """Integer products summed in 32 bits; zero points are folded into the weights' sums and not counted."""
    macs = call.n_out() * call.dim(0, -1)
    return Count(flops=2 * macs, macs=macs)


def qlinear_matmul(call: Call) -> Count:
    """As MatMulInteger, then requantized."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, -1)
    return Count(flops=2 * macs + QUANTIZE * outputs, macs=macs)


def qgemm(call: Call) -> Count:
    """Integer Gemm with a bias; the output is scaled to float, or requantized where an output scale is given."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, 0 if call.int("transA") else 1)
    scale = QUANTIZE if call.has(7) else 1
    return Count(flops=2 * macs + (call.has(6) + scale) * outputs, macs=macs)


def matmul_integer_to_float(call: Call) -> Count:
    """As MatMulInteger, scaled to float, with a bias (input 6)."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, -1)
    return Count(flops=2 * macs + (1 + call.has(6)) * outputs, macs=macs)


def dynamic_quantize_matmul(call: Call) -> Count:
    """The first operand is quantized on the fly; then as MatMulIntegerToFloat, with a bias (input 4)."""
    outputs = call.n_out()
    macs = outputs * call.dim(0, -1)
    flops = 2 * macs + (1 + call.has(4)) * outputs + (RANGE + QUANTIZE) * call.n_in()
    return Count(flops=flops, macs=macs)


def matmul_nbits(call: Call) -> Count:
    """Product with weights of few bits in blocks; unpacking the weights is not counted, as in a folded model."""
    inner, outer = call.int("K"), call.int("N")
    if inner < 1 or outer < 1:
        raise Uncounted("the attributes K and N are missing")
    rows = call.n_in() // inner
    macs = rows * inner * outer
    return Count(flops=2 * macs + call.has(5) * rows * outer, macs=macs)


def binary(call: Call) -> Count:
    """Both operands are dequantized, combined and requantized (QLinearAdd, QLinearMul)."""
    return Count(flops=(2 * DEQUANTIZE + 1 + QUANTIZE) * call.n_out())


def lookup(call: Call) -> Count:
    """One look-up in a table of 256 values for each element (QLinearSigmoid, QLinearLeakyRelu)."""
    return Count(flops=call.n_out())


def average_pool(call: Call) -> Count:
    """Sum of each window, divided and requantized."""
    window = math.prod(call.ints("kernel_shape") or [1])
    return Count(flops=(window + 1 + QUANTIZE) * call.n_out())


def over_all(call: Call) -> Count:
    """Sum over the input, divided and requantized (QLinearGlobalAveragePool, QLinearReduceMean)."""
    return Count(flops=call.n_in() + (1 + QUANTIZE) * call.n_out())


def softmax(call: Call) -> Count:
    """Softmax by table, requantized."""
    return Count(flops=(5 + QUANTIZE) * call.n_in())


def concat(call: Call) -> Count:
    """Each element is brought to the scale of the result."""
    return Count(flops=(DEQUANTIZE + QUANTIZE) * call.n_out())


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "QuantizeLinear": quantize_linear,
        "DequantizeLinear": dequantize_linear,
        "DynamicQuantizeLinear": dynamic_quantize_linear,
        "MatMulInteger": matmul_integer,
        "QLinearMatMul": qlinear_matmul,
    },
    "com.microsoft": {
        "QuantizeLinear": quantize_linear,
        "DequantizeLinear": dequantize_linear,
        "MatMulInteger16": matmul_integer,
        "QGemm": qgemm,
        "MatMulIntegerToFloat": matmul_integer_to_float,
        "DynamicQuantizeMatMul": dynamic_quantize_matmul,
        "MatMulNBits": matmul_nbits,
        "MatMulFpQ4": matmul_integer,
        "MatMulBnb4": matmul_nbits,
        "QLinearAdd": binary,
        "QLinearMul": binary,
        "QLinearSigmoid": lookup,
        "QLinearLeakyRelu": lookup,
        "QLinearAveragePool": average_pool,
        "QLinearGlobalAveragePool": over_all,
        "QLinearReduceMean": over_all,
        "QLinearSoftmax": softmax,
        "QLinearConcat": concat,
        "QLinearWhere": concat,
    },
}
