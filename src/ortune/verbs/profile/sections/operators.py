"""Time by operator and execution provider."""

from __future__ import annotations

from dataclasses import replace

from ortune.records import Envelope, ProfileResult
from ortune.show import profile_nodes
from ortune.show.document import Block

ORDER = 40
TITLE = "Operators"
NOTE = "Self time of all nodes of an operator; nodes in bodies are not counted twice."
MOST = 24


def blocks(envelope: Envelope[ProfileResult]) -> list[Block]:
    """Return a bar chart with one bar for each operator."""
    table = profile_nodes.operators(envelope.result, MOST)
    times = [o.time_ns for o in profile_nodes.run_operators(envelope.result)]
    bars = [*times[:MOST], *([sum(times[MOST:])] if len(times) > MOST else [])]
    largest = max(bars, default=0.0) or 1.0
    return [replace(table, title="", bars=tuple(ns / largest for ns in bars))]
