"""Built-in metrics of ``--metric``, one file each with a constant ``METRIC``; quality is from 0 (none correct) to 1."""

from __future__ import annotations

from ortune.outputs.metrics import accuracy, boxes, ctc, perplexity, ranks

METRICS = {
    "accuracy": accuracy.METRIC,
    "boxes": boxes.METRIC,
    "ctc": ctc.METRIC,
    "ranks": ranks.METRIC,
    "perplexity": perplexity.METRIC,
}
"""Metrics by name, in the order of the help text."""
