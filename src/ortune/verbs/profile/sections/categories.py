"""Time of a run by category; the categories sum to the whole run."""

from __future__ import annotations

from ortune.records import Envelope, ProfileResult
from ortune.show import profile_nodes
from ortune.show.document import Block, Cell, Column, Row, table
from ortune.show.stack import stack

ORDER = 20
TITLE = "Where the time goes"
NOTE = "A run under the profiler. All time belongs to exactly one category, so the shares sum to 100 %."
MEANINGS = {
    "kernels": "what the operators compute",
    "thread-wait": "the thread that runs a node distributes work to the pool, or waits for it",
    "device-copies": "values copied between devices",
    "device-wait": (
        "before and after the executor in a run with device nodes: copying inputs, waiting for the "
        "device, copying outputs"
    ),
    "casts-and-layout": "casts, transposes, reordering for blocked layouts, quantizing and dequantizing",
    "shape-arithmetic": "nodes that only compute shapes and indices",
    "control-flow": "If, Loop and Scan themselves, without the nodes of their bodies",
    "between-nodes": "inside the run but in no node: the executor, allocation, the profiler's own writing",
    "device-idle": "between the kernels on the device, which waits for the host",
    "outside-run": "around ONNX Runtime's run: the language binding, copies of inputs and outputs",
    "unexplained": "the remainder; negative where the parts sum to more than the whole",
}


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return a bar chart of all categories and a table of their times."""
    result = envelope.result
    rows = profile_nodes.category_rows(result)
    if not rows:
        return []
    *parts, (_, *total) = rows
    absent = profile_nodes.absent_categories(result)
    boxes = [(str(name), f"{text}: {float(part):.1f} %", float(part)) for name, text, _, part in parts]
    whole = sum(max(0.0, part) for *_, part in boxes)
    alt = f"A run of {total[1]}: " + "; ".join(f"{text} {float(part):.1f} %" for _, text, _, part in parts)
    cells: list[Row] = [
        [Cell(text, MEANINGS[str(name)], key=f"c-{name}"), time, part] for name, text, time, part in parts
    ]
    return [
        stack("", boxes, whole, alt),
        table(
            [Column("category", "text"), Column(profile_nodes.category_unit(result).name), Column("%")],
            [*cells, [Cell(text, tone="strong") for text in total]],
            notes=[absent] if absent else [],
        ),
    ]
