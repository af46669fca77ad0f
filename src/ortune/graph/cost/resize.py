"""Costs of interpolation: each output element is a weighted sum of input elements (taps), two operations per tap."""

from __future__ import annotations

from ortune.graph.cost.call import Call, Count, Formula, work

_TAPS = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
"""Number of input elements (taps) per output element along one axis, by mode; 0 for "nearest", which only copies."""


def _taps(mode: str, axes: int) -> int:
    per_axis = _TAPS.get(mode, 2)
    return per_axis**axes if per_axis and axes else 0


def resize(call: Call) -> Count:
    """Count Resize and Upsample, with taps along the axes whose size changes."""
    source, out = call.shape(0), call.out()
    axes = sum(a != b for a, b in zip(source, out, strict=False))
    taps = _taps(call.text("mode", "nearest"), axes)
    note = "antialiasing takes more taps than counted" if taps and call.int("antialias") else ""
    return Count(flops=2 * taps * call.n_out(), note=note)


def grid_sample(call: Call) -> Count:
    """Count GridSample, with taps along all spatial axes."""
    axes = len(call.shape(0)) - 2
    return Count(flops=2 * _taps(call.text("mode", "linear"), axes) * call.n_out())


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "Resize": resize,
        "Upsample": resize,
        "GridSample": grid_sample,
        "AffineGrid": work(lambda c: 2 * (c.out()[-1] + 1) * c.n_out()),  # a small matrix times each position
    },
    "com.microsoft": {"GridSample": grid_sample},
    "com.microsoft.nchwc": {"Upsample": resize},
    "com.ms.internal.nhwc": {"Resize": resize, "GridSample": grid_sample},
}
