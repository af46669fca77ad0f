"""The categories of a run side by side, from zero."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.show.chart import Axis, Box, Chart

HEIGHT_PX = 30


def stack(title: str, parts: Sequence[tuple[str, str, float]], whole: float, alt: str) -> Chart:
    """Return boxes next to each other, a negative one without width.

    Args:
        title: The title above the bar.
        parts: A category, its description, and its size.
        whole: The size that fills the width; parts beyond are cut.
        alt: The chart in words.
    """
    marks, at = [], 0.0
    for name, about, size in parts:
        end = at + max(0.0, size)
        marks.append(Box(x0=at, x1=end, hue=f"c-{name}", about=about))
        at = end
    return Chart(title=title, alt=alt, marks=tuple(marks), height_px=HEIGHT_PX, x=Axis(high=whole or 1.0))
