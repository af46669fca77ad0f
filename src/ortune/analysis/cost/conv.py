"""Convolutions: multiply-adds are outputs times the weights that each output sees."""

from __future__ import annotations

import math

from ortune.analysis.cost.activations import activation
from ortune.analysis.cost.call import Call, Count, Formula, Uncounted

REQUANTIZE = 3
"""Per element: scale, round, add the zero point."""


def _per_output(call: Call, weight: int) -> int:
    """Weights behind one output element: all but the first axis, in any layout of the rest."""
    shape = call.shape(weight)
    if len(shape) < 3:
        raise Uncounted(f"the weight has {len(shape)} dimensions, a convolution needs 3 or more")
    return math.prod(shape[1:])


def conv(call: Call) -> Count:
    """Convolution, with its bias, fused addend (input 3) and fused activation."""
    outputs = call.n_out()
    macs = outputs * _per_output(call, 1)
    extra = call.has(2) + call.has(3) + activation(call.text("activation"))
    return Count(flops=2 * macs + extra * outputs, macs=macs)


def conv_transpose(call: Call) -> Count:
    """Each input element is multiplied into its window of the output."""
    macs = call.n_in() * _per_output(call, 1)
    return Count(flops=2 * macs + call.has(2) * call.n_out(), macs=macs)


def conv_integer(call: Call) -> Count:
    """Integer products summed in 32 bits; zero points are folded into the weights' sums and not counted."""
    macs = call.n_out() * _per_output(call, 1)
    return Count(flops=2 * macs, macs=macs)


def qlinear_conv(call: Call) -> Count:
    """As ConvInteger, with bias, then requantized."""
    outputs = call.n_out()
    macs = outputs * _per_output(call, 3)
    return Count(flops=2 * macs + (call.has(8) + REQUANTIZE) * outputs, macs=macs)


def deform_conv(call: Call) -> Count:
    """A convolution over values that are first interpolated (4 taps) at shifted places, and masked."""
    out = call.out()
    macs = math.prod(out) * _per_output(call, 1)
    samples = out[0] * call.dim(0, 1) * math.prod(call.shape(1)[2:]) * math.prod(out[2:])
    flops = 2 * macs + call.has(3) * math.prod(out) + (8 + call.has(4)) * samples
    return Count(flops=flops, macs=macs)


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "Conv": conv,
        "ConvTranspose": conv_transpose,
        "ConvInteger": conv_integer,
        "QLinearConv": qlinear_conv,
        "DeformConv": deform_conv,
    },
    "com.microsoft": {
        "FusedConv": conv,
        "NhwcFusedConv": conv,
        "NhwcConv": conv,
        "QLinearConv": qlinear_conv,
        "ConvTransposeWithDynamicPads": conv_transpose,
    },
    "com.microsoft.nchwc": {"Conv": conv},
    "com.ms.internal.nhwc": {"Conv": conv, "QLinearConv": qlinear_conv},
}
