"""Costs of pooling, normalization and softmax.

A fused operator counts as its parts: LayerNormalization as mean (1), subtract (1), square (1), mean (1), divide (1),
scale (1), bias (1) per element. Work that occurs once per row (a square root) is not counted.
"""

from __future__ import annotations

import math

from ortune.graph.cost.activations import PER_ELEMENT
from ortune.graph.cost.call import Call, Count, Formula, Uncounted, no_work, work

SOFTMAX = 5
"""Operations per element of a Softmax: maximum, subtract, exp, sum, divide (LogSoftmax: subtract the logarithm)."""
_STANDARDIZE = 5
_RMS = 3


def _window(call: Call) -> int:
    kernel = call.ints("kernel_shape")
    if not kernel:
        raise Uncounted("the attribute kernel_shape is missing")
    return math.prod(kernel)


def embed_layer_norm(call: Call) -> Count:
    """Count EmbedLayerNormalization: rows of two or three tables are added and normalized; only these rows are read."""
    elements, itemsize = call.n_out(), (call.input_bits[2] or 0) / 8
    tables = 2 + call.has(4)
    read = tables * elements * itemsize + sum(call.bytes_in(i) for i in (0, 1, 5, 6, 7))
    # The tables are added, the sum standardized, then scaled and shifted.
    return Count(flops=(tables - 1 + _STANDARDIZE + 2) * elements, read=math.ceil(read))


def _group_norm(call: Call) -> int:
    """Return the operations of a GroupNorm: standardize groups of channels, scale, bias, and SiLU if requested."""
    silu = PER_ELEMENT["Silu"] * (call.int("activation") == 1)
    return (_STANDARDIZE + 2 + silu) * call.n_in()


def roi_pool(call: Call) -> Count:
    """Count RoiAlign: four taps per sample, then the average or maximum of the samples."""
    ratio = call.int("sampling_ratio")
    if ratio < 1:
        raise Uncounted("with sampling_ratio 0 the number of samples depends on each box")
    # Four taps, each a product and a sum, and one operation to combine the samples.
    return Count(flops=(8 + 1) * ratio * ratio * call.n_out())


_POOLS = {
    "MaxPool": work(lambda c: _window(c) * c.n_out()),
    "AveragePool": work(lambda c: (_window(c) + 1) * c.n_out()),
    "GlobalMaxPool": work(lambda c: c.n_in()),
    "GlobalAveragePool": work(lambda c: c.n_in() + c.n_out()),
}
# Scale and bias (inputs 1 and 2), if present.
_NORM = work(lambda c: (_STANDARDIZE + c.has(1) + c.has(2)) * c.n_in())
_RMS_NORM = work(lambda c: (_RMS + 1) * c.n_in())
_SOFTMAX = work(lambda c: (SOFTMAX + c.has(1)) * c.n_in())  # with a bias (input 1) that is added first

FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        **_POOLS,
        "LpPool": work(lambda c: (2 * _window(c) + 1) * c.n_out()),
        "GlobalLpPool": work(lambda c: 2 * c.n_in() + c.n_out()),
        "MaxUnpool": no_work,
        "RoiAlign": roi_pool,
        # One scale and one shift for inference; in training also the statistics.
        "BatchNormalization": work(lambda c: (2 + _STANDARDIZE * (c.int("training_mode") == 1)) * c.n_in()),
        **dict.fromkeys(("InstanceNormalization", "LayerNormalization", "GroupNormalization"), _NORM),
        **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), _RMS_NORM),
        # Square (1), sum of the neighbours (``size``), scale, bias, power, divide (4), less one addition.
        "LRN": work(lambda c: (c.int("size", 1) + 4) * c.n_in()),
        "LpNormalization": work(lambda c: 3 * c.n_in()),
        "MeanVarianceNormalization": work(lambda c: _STANDARDIZE * c.n_in()),
        "Softmax": _SOFTMAX,
        "LogSoftmax": _SOFTMAX,
    },
    "com.microsoft": {
        # The skip and a bias (input 4, or 3) are added first.
        "SkipLayerNormalization": work(lambda c: (1 + c.has(4) + _STANDARDIZE + 1 + c.has(3)) * c.n_in()),
        "SkipSimplifiedLayerNormalization": work(lambda c: (1 + c.has(3) + _RMS + 1) * c.n_in()),
        "EmbedLayerNormalization": embed_layer_norm,
        "GroupNorm": work(_group_norm),
        "SkipGroupNorm": work(lambda c: _group_norm(c) + (1 + c.has(4)) * c.n_in()),
        "BiasSoftmax": _SOFTMAX,
        "NhwcMaxPool": _POOLS["MaxPool"],
    },
    "com.microsoft.nchwc": _POOLS,
    "com.ms.internal.nhwc": _POOLS,
}
