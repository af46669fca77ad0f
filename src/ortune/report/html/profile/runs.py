"""Every run of the profiled process, in order: which ones warm up, and how much the others differ."""

from __future__ import annotations

from markupsafe import Markup

from ortune.records import RunVariance
from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given
from ortune.report.numbers import duration, percent

ORDER = 90
TITLE = "Run by run"
NOTE = (
    "One dot a run, in order, by ONNX Runtime's own clock. Shaded: runs at the start that are left out, as they may be "
    "warming up; they count nowhere else on this page."
)
HEIGHT = 150
MOST = 1200


def content(given: Given) -> dict[str, object] | None:
    """The dots, and who makes the slow runs slow."""
    found = given.result.variance
    if found is None or len(found.runs_ns) < 2:
        return None
    called = words.names(given.result)
    return {
        "figure": _figure(found),
        "n_runs": len(found.runs_ns),
        "sentence": words.variance(given.result),
        "owners": [
            (
                words.owner_name(o.name, o.op_type, called),
                f"+{duration(o.extra_ns)}",
                percent(o.share_ratio, 0),
            )
            for o in found.owners
        ],
    }


def _figure(found: RunVariance) -> dict[str, Markup | str]:
    times = found.runs_ns
    scale = svg.value_scale(times)
    marks = [svg.level(scale, t, "grid") for t in scale.ticks]
    if found.left_out_runs:
        width = svg.share(found.left_out_runs / len(times))
        title = svg.tag("title", f"{found.left_out_runs} left out")
        marks.append(svg.tag("rect", title, x="0", y="0", width=width, height="100%", class_="warm"))
    every = 1 + len(times) // MOST
    # The slowest of neighbours stays: single slow runs are what this drawing is for.
    kept = [max(times[i : i + every]) for i in range(0, len(times), every)]
    marks += svg.series(scale, kept, "default", joined=False)
    alt = (
        f"{len(times)} runs, the first {found.left_out_runs} left out; "
        f"{duration(min(times))} to {duration(max(times))}"
    )
    return {
        "side": svg.side_labels(scale, [duration(t) for t in scale.ticks], height=HEIGHT),
        "plot": svg.picture(alt, marks, height=HEIGHT),
        "every": f"each dot is the slowest of {every} runs" if every > 1 else "",
    }
