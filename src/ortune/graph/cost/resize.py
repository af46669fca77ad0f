"""Interpolation: each output is a weighted sum of some inputs, two operations a tap."""

from __future__ import annotations

from ortune.graph.cost.call import Call, Count, Formula, work

_TAPS = {"nearest": 0, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}
"""Inputs per output along one axis; nearest only copies."""


def _taps(mode: str, axes: int) -> int:
    per_axis = _TAPS.get(mode, 2)
    return per_axis**axes if per_axis and axes else 0


def resize(call: Call) -> Count:
    """Resize and Upsample: taps along the axes whose size changes."""
    source, out = call.shape(0), call.out()
    axes = sum(a != b for a, b in zip(source, out, strict=False))
    taps = _taps(call.text("mode", "nearest"), axes)
    note = "antialiasing takes more taps than counted" if taps and call.int("antialias") else ""
    return Count(flops=2 * taps * call.n_out(), note=note)


def grid_sample(call: Call) -> Count:
    """Return samples at places that are given, in all spatial axes."""
    axes = len(call.shape(0)) - 2
    return Count(flops=2 * _taps(call.text("mode", "linear"), axes) * call.n_out())


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {
        "Resize": resize,
        "Upsample": resize,
        "GridSample": grid_sample,
        "AffineGrid": work(lambda c: 2 * (c.out()[-1] + 1) * c.n_out()),  # a small matrix times each place
    },
    "com.microsoft": {"GridSample": grid_sample},
    "com.microsoft.nchwc": {"Upsample": resize},
    "com.ms.internal.nhwc": {"Resize": resize, "GridSample": grid_sample},
}
