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
"""Names of built-in metrics used without labels, which then measure agreement with the float model's predictions."""


def name(result: QuantizeResult) -> str:
    """Return the display name of the metric; for a function, its name without the module."""
    said = result.judged_by.rpartition(":")[2]
    return said if result.calibration.labelled != 0 else AGREEMENTS.get(result.judged_by, said)


def values(result: QuantizeResult, outputs: OutputDifference) -> tuple[str, str]:
    """Return the metric of a model and of the float model as text; perplexity is inverted to its usual form (>= 1)."""

    def shown(value: float | None) -> str:
        if not value:
            return NOTHING if value is None else "0"
        return f"{1.0 / value if result.judged_by == 'perplexity' else value:.4g}"

    return shown(outputs.metric), shown(outputs.metric_base)


def of_float(result: QuantizeResult) -> str:
    """Return the metric of the float model as text; "-" if no metric was measured."""
    seen = [*(row.outputs for row in result.methods), *(row.outputs for row in result.front)]
    of_models = [outputs for outputs in seen if outputs is not None and outputs.metric is not None]
    return values(result, of_models[0])[1] if of_models else NOTHING
