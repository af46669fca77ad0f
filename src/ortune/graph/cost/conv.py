"""Costs of convolutions: the number of multiply-adds is the output size times the weights per output element."""

from __future__ import annotations

import math

from ortune.graph.cost.activations import activation
from ortune.graph.cost.call import Call, Count, Formula, Uncounted, products

REQUANTIZE = 3
"""Requantizing operations per element: scale, round, add the zero point."""


def _per_output(call: Call, weight: int) -> int:
    """Return the number of weights per output element: all weight axes but the first, in any layout."""
    shape = call.shape(weight)
    if len(shape) < 3:
        raise Uncounted(f"the weight has {len(shape)} dimensions, a convolution needs 3 or more")
    return math.prod(shape[1:])


def _transposed(bias: int) -> Formula:
    """Return the formula of a transposed convolution, which multiplies each input element with its output window."""

    def formula(call: Call) -> Count:
        macs = call.n_in() * _per_output(call, 1)
        return Count(flops=2 * macs + (call.n_out() if call.has(bias) else 0), macs=macs)

    return formula


def deform_conv(call: Call) -> Count:
    """Count a DeformConv: interpolation with 4 taps at shifted positions, an optional mask, then a convolution."""
    out = call.out()
    macs = math.prod(out) * _per_output(call, 1)
    samples = out[0] * call.dim(0, 1) * math.prod(call.shape(1)[2:]) * math.prod(out[2:])
    # Four taps of a product and a sum are 8 operations; the mask is one more product.
    flops = 2 * macs + call.has(3) * math.prod(out) + (8 + call.has(4)) * samples
    return Count(flops=flops, macs=macs)


# With a bias, a fused addend (input 3) and a fused activation.
_CONV = products(
    lambda c: _per_output(c, 1), lambda c: c.has(2) + c.has(3) + activation(c.text("activation"))
)
_QLINEAR_CONV = products(lambda c: _per_output(c, 3), lambda c: c.has(8) + REQUANTIZE)

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "Conv": _CONV,
        "ConvTranspose": _transposed(2),
        # Zero points are folded into the weights' sums and not counted.
        "ConvInteger": products(lambda c: _per_output(c, 1)),
        "QLinearConv": _QLINEAR_CONV,
        "DeformConv": deform_conv,
    },
    "com.microsoft": {
        **dict.fromkeys(("FusedConv", "NhwcFusedConv", "NhwcConv"), _CONV),
        "QLinearConv": _QLINEAR_CONV,
        "ConvTransposeWithDynamicPads": _transposed(3),  # after the pads
    },
    "com.microsoft.nchwc": {"Conv": _CONV},
    "com.ms.internal.nhwc": {"Conv": _CONV, "QLinearConv": _QLINEAR_CONV},
}
