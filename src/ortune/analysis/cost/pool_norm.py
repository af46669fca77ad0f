"""Pooling, normalization and softmax.

A fused operator counts what its parts would: LayerNormalization as mean (1), subtract (1), square (1), mean (1), divide
(1), scale (1), bias (1) for each element. What is done once per row (a square root) is not counted.
"""

from __future__ import annotations

import math

from ortune.analysis.cost.activations import PER_ELEMENT
from ortune.analysis.cost.call import Call, Count, Formula, Uncounted

SOFTMAX = 5
"""Per element: find the largest, subtract, exp, sum, divide (LogSoftmax: subtract the logarithm)."""
_STANDARDIZE = 5
_RMS = 3


def _window(call: Call) -> int:
    kernel = call.ints("kernel_shape")
    if not kernel:
        raise Uncounted("the attribute kernel_shape is missing")
    return math.prod(kernel)


def max_pool(call: Call) -> Count:
    """One comparison for each place of each window."""
    return Count(flops=_window(call) * call.n_out())


def average_pool(call: Call) -> Count:
    """Sum of each window, one division."""
    return Count(flops=(_window(call) + 1) * call.n_out())


def lp_pool(call: Call) -> Count:
    """Powers and sum of each window, one root."""
    return Count(flops=(2 * _window(call) + 1) * call.n_out())


def global_max_pool(call: Call) -> Count:
    """One comparison for each input element."""
    return Count(flops=call.n_in())


def global_average_pool(call: Call) -> Count:
    """One addition for each input element, one division for each output."""
    return Count(flops=call.n_in() + call.n_out())


def global_lp_pool(call: Call) -> Count:
    """Powers and sum over the input, one root for each output."""
    return Count(flops=2 * call.n_in() + call.n_out())


def unpool(call: Call) -> Count:
    """Values are put back into their places."""
    return Count()


def batch_norm(call: Call) -> Count:
    """At inference one scale and one shift; while training also the statistics."""
    training = call.int("training_mode") == 1
    return Count(flops=(2 + _STANDARDIZE * training) * call.n_in())


def standardize(call: Call) -> Count:
    """Mean and variance to 0 and 1, then scale and, where there is one, bias (input 2)."""
    return Count(flops=(_STANDARDIZE + call.has(1) + call.has(2)) * call.n_in())


def rms_norm(call: Call) -> Count:
    """Divide by the root of the mean square, then scale."""
    return Count(flops=(_RMS + 1) * call.n_in())


def skip_layer_norm(call: Call) -> Count:
    """Add the skip and a bias (input 4), then LayerNormalization."""
    return Count(flops=(1 + call.has(4) + _STANDARDIZE + 1 + call.has(3)) * call.n_in())


def skip_rms_norm(call: Call) -> Count:
    """Add the skip and a bias (input 3), then RMSNormalization."""
    return Count(flops=(1 + call.has(3) + _RMS + 1) * call.n_in())


def embed_layer_norm(call: Call) -> Count:
    """Rows of two or three tables are added and normalized; only the rows taken are read."""
    elements, itemsize = call.n_out(), (call.input_bits[2] or 0) / 8
    tables = 2 + call.has(4)
    read = tables * elements * itemsize + sum(call.bytes_in(i) for i in (0, 1, 5, 6, 7))
    return Count(flops=(tables - 1 + _STANDARDIZE + 2) * elements, read=math.ceil(read))


def group_norm(call: Call) -> Count:
    """Standardize groups of channels, scale, bias, SiLU where asked for."""
    silu = PER_ELEMENT["Silu"] * (call.int("activation") == 1)
    return Count(flops=(_STANDARDIZE + 2 + silu) * call.n_in())


def skip_group_norm(call: Call) -> Count:
    """Add the skip (input 3) and a bias (input 4), then GroupNorm."""
    return Count(flops=group_norm(call).flops + (1 + call.has(4)) * call.n_in())


def lrn(call: Call) -> Count:
    """Square (1), sum of the neighbours (``size``), scale, bias, power, divide (4), less one addition."""
    return Count(flops=(call.int("size", 1) + 4) * call.n_in())


def lp_norm(call: Call) -> Count:
    """Power, sum, divide."""
    return Count(flops=3 * call.n_in())


def mean_variance(call: Call) -> Count:
    """Standardize without scale and bias."""
    return Count(flops=_STANDARDIZE * call.n_in())


def softmax(call: Call) -> Count:
    """Softmax or LogSoftmax; with a bias (input 1) that is added first."""
    return Count(flops=(SOFTMAX + call.has(1)) * call.n_in())


def roi_pool(call: Call) -> Count:
    """RoiAlign: four taps for each sample, then the average or the largest of the samples."""
    ratio = call.int("sampling_ratio")
    if ratio < 1:
        raise Uncounted("sampling_ratio 0 takes as many samples as each box asks for")
    return Count(flops=(8 + 1) * ratio * ratio * call.n_out())


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "LpPool": lp_pool,
        "GlobalMaxPool": global_max_pool,
        "GlobalAveragePool": global_average_pool,
        "GlobalLpPool": global_lp_pool,
        "MaxUnpool": unpool,
        "RoiAlign": roi_pool,
        "BatchNormalization": batch_norm,
        "InstanceNormalization": standardize,
        "LayerNormalization": standardize,
        "GroupNormalization": standardize,
        "RMSNormalization": rms_norm,
        "SimplifiedLayerNormalization": rms_norm,
        "LRN": lrn,
        "LpNormalization": lp_norm,
        "MeanVarianceNormalization": mean_variance,
        "Softmax": softmax,
        "LogSoftmax": softmax,
    },
    "com.microsoft": {
        "SkipLayerNormalization": skip_layer_norm,
        "SkipSimplifiedLayerNormalization": skip_rms_norm,
        "EmbedLayerNormalization": embed_layer_norm,
        "GroupNorm": group_norm,
        "SkipGroupNorm": skip_group_norm,
        "BiasSoftmax": softmax,
        "NhwcMaxPool": max_pool,
    },
    "com.microsoft.nchwc": {
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "GlobalMaxPool": global_max_pool,
        "GlobalAveragePool": global_average_pool,
    },
    "com.ms.internal.nhwc": {
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "GlobalMaxPool": global_max_pool,
        "GlobalAveragePool": global_average_pool,
    },
}
