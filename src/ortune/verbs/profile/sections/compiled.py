"""The layers inside the part that an execution provider compiled, with the number type of each."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import Envelope, ProfileResult
from ortune.show.document import Block, Line
from ortune.verbs.profile import compiled_words

ORDER = 55
TITLE = "Layers inside the execution provider"
NOTE = (
    "For ONNX Runtime, the compiled part is one node. These layers, their number types and times are those of the "
    "provider's own counters. Names are mostly those of your nodes. Click a column header to sort."
)
MOST = 200


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return the fraction of time in each number type, and a table of at most ``MOST`` layers."""
    graph = envelope.result.compiled
    if graph is None or not graph.layers:
        return []
    rest = len(graph.layers) - MOST
    notes = (f"{rest} more are in the JSON document.",) if rest > 0 else ()
    table = replace(compiled_words.layers(graph, MOST), title="", sortable=True, notes=notes)
    return [Line(compiled_words.by_type(graph)), table]
