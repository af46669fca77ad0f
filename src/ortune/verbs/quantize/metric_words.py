"""The metric that judges quantized models, in words."""

from __future__ import annotations

from ortune.records import OutputDifference
from ortune.verbs.quantize.result import QuantizeResult

NOTHING = "-"
AGREEMENTS = {
    "accuracy": "agreement with float",
    "boxes": "box agreement with float",
    "ctc": "text agreement with float",
}
"""What a built-in metric is called without labels: the float model's answers are then what is right."""


def name(result: QuantizeResult) -> str:
    """Return what the metric is called, of a function without its module."""
    said = result.judged_by.rpartition(":")[2]
    return said if result.calibration.labelled != 0 else AGREEMENTS.get(result.judged_by, said)


def values(result: QuantizeResult, outputs: OutputDifference) -> tuple[str, str]:
    """The metric of a model and of float; perplexity as it is usually written, which is 1 at best and larger else."""

    def shown(value: float | None) -> str:
        if not value:
            return NOTHING if value is None else "0"
        return f"{1.0 / value if result.judged_by == 'perplexity' else value:.4g}"

    return shown(outputs.metric), shown(outputs.metric_base)


def of_float(result: QuantizeResult) -> str:
    """Return the metric of the float model."""
    seen = [*(row.outputs for row in result.methods), *(row.outputs for row in result.front)]
    of_models = [outputs for outputs in seen if outputs is not None and outputs.metric is not None]
    return values(result, of_models[0])[1] if of_models else NOTHING
