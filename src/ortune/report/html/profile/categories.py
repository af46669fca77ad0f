"""Where the time of a run goes: the closed set of categories, which sum to the run."""

from __future__ import annotations

from markupsafe import Markup

from ortune.report import profile_words as words
from ortune.report.html import svg
from ortune.report.html.profile import Given

ORDER = 20
TITLE = "Where the time goes"
NOTE = (
    "The mean steady run, while profiling. Every nanosecond is in one category, so the shares sum to 100 %."
)
MEANINGS = {
    "kernels": "what the operators compute",
    "thread-wait": "the thread that runs a node waits for the pool's others, or shares out their work",
    "device-copies": "values copied between devices",
    "device-wait": "before and after the executor, in a run with nodes on a device: inputs on their way there, waiting "
    "until it is done, outputs on their way back",
    "casts-and-layout": "casts, transposes, reordering for blocked layouts, quantizing and dequantizing",
    "shape-arithmetic": "nodes that only compute shapes and indices",
    "control-flow": "If, Loop and Scan themselves, without the nodes of their bodies",
    "between-nodes": "inside the run and in no node: the executor, allocation, the profiler's own writing",
    "device-idle": "between the kernels on the device, which waits for the host",
    "outside-run": "around ONNX Runtime's run: the language binding, copies of inputs and outputs",
    "unexplained": "what is left; negative where the parts add up to more than the whole",
}
HEIGHT = 34


def content(given: Given) -> dict[str, object] | None:
    """One bar of all categories, and the table."""
    result = given.result
    rows = words.category_rows(result)
    if not rows:
        return None
    *parts, total = rows
    return {
        "bar": bar([(str(name), text, time, float(part)) for name, text, time, part in parts], total[2]),
        "rows": [(name, text, MEANINGS[str(name)], time, part) for name, text, time, part in parts],
        "total": total,
        "unit": words.category_unit(result).name,
        "absent": words.absent_categories(result),
    }


def bar(parts: list[tuple[str, str, str, float]], total: str) -> Markup:
    """The categories side by side; one that is negative has no width."""
    whole = sum(max(0.0, part) for *_, part in parts) or 1.0
    marks, at = [], 0.0
    for name, text, _, part in parts:
        width = max(0.0, part) / whole
        title = svg.tag("title", f"{text}: {part:.1f} %")
        marks.append(
            svg.tag(
                "rect",
                title,
                x=svg.share(at),
                width=svg.share(width),
                y="0",
                height="100%",
                class_=f"part c-{name}",
            )
        )
        at += width
    alt = f"A run of {total}: " + "; ".join(f"{text} {part:.1f} %" for _, text, _, part in parts)
    return svg.picture(alt, marks, height=HEIGHT, kind="stack")
