"""Every run of the profiled process, in order: the warm-up runs, and the variation of the steady runs."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult, RunVariance
from ortune.show import profile_nodes
from ortune.show.chart import Box, Chart, Mark, order_axis, ordered_dots, value_axis
from ortune.show.document import Block, Column, Line, table
from ortune.show.numbers import duration, percent
from ortune.verbs.profile import words as profile_words

ORDER = 90
TITLE = "Run by run"
NOTE = (
    "One dot per run, in order, by ONNX Runtime's own clock. Shaded: possible warm-up runs at the start, which "
    "are excluded everywhere else on this page."
)
HEIGHT_PX = 150
MOST = 1200
COLUMNS = (Column("owner", "name"), Column("more"), Column("of all"))


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the chart of runs, and the nodes that make slow runs slow."""
    result = envelope.result
    variance = result.variance
    if variance is None or len(variance.runs_ns) < 2:
        return []
    names = profile_nodes.names(result)
    owners = [
        [
            profile_nodes.owner_name(owner.name, owner.op_type, names),
            f"+{duration(owner.extra_ns)}",
            percent(owner.share_ratio, 0),
        ]
        for owner in variance.owners
    ]
    slow = "What makes the slowest tenth slower than the median"
    return [_chart(variance), Line(profile_words.variance(result)), table(COLUMNS, owners, title=slow)]


def _chart(variance: RunVariance) -> Chart:
    times = variance.runs_ns
    axis = value_axis(times, duration)
    every = 1 + len(times) // MOST
    # Each mark shows the slowest of its neighbouring runs: the chart has to show single slow runs.
    slowest = [max(times[i : i + every]) for i in range(0, len(times), every)]
    marks: list[Mark] = []
    if n := variance.left_out_runs:
        end = n / len(times) * len(slowest)
        marks.append(Box(x0=0.0, x1=end, y0=axis.low, y1=axis.high, hue="warm", about=f"{n} left out"))
    alt = (
        f"{len(times)} runs, the first {variance.left_out_runs} left out; "
        f"{duration(min(times))} to {duration(max(times))}"
    )
    return Chart(
        title=f"Each dot is the slowest of {every} runs" if every > 1 else "",
        alt=alt,
        marks=(*marks, *ordered_dots(slowest, "default")),
        height_px=HEIGHT_PX,
        x=order_axis(len(slowest), "first run", f"last of {len(times)}"),
        y=axis,
    )
