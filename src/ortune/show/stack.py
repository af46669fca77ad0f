"""A bar chart of a run's categories as adjacent boxes."""

from __future__ import annotations

from collections.abc import Sequence

from ortune.show.chart import Axis, Box, Chart

HEIGHT_PX = 30


def stack(title: str, parts: Sequence[tuple[str, str, float]], whole: float, alt: str) -> Chart:
    """Return a chart with one box per category; a negative category has no width.

    Args:
        title: Title above the bar.
        parts: Name, description and size of each category.
        whole: Size that corresponds to the full width; boxes beyond the full width are cut off.
        alt: The chart in words.
    """
    marks, at = [], 0.0
    for name, about, size in parts:
        end = at + max(0.0, size)
        marks.append(Box(x0=at, x1=end, hue=f"c-{name}", about=about))
        at = end
    return Chart(title=title, alt=alt, marks=tuple(marks), height_px=HEIGHT_PX, x=Axis(high=whole or 1.0))
