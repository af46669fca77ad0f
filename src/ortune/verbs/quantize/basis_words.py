"""Sentences about the basis of a quantization result: the inputs, the metric that judged it, and the processor."""

from __future__ import annotations

from ortune.durations import as_option
from ortune.show.precision_words import model
from ortune.verbs.quantize.result import QuantizeResult

NOT_FINAL = "NOT FINAL"


def not_final(result: QuantizeResult) -> str:
    """Return the reason that the result is not final; "" if it was measured on enough real inputs."""
    checked = result.calibration.checked
    if not result.calibration.source:
        return f"{NOT_FINAL} (synthetic inputs)"
    if not result.checked_needed:
        return ""
    return (
        f"{NOT_FINAL} (error measured on {_sets(checked, 'held-out ')}, {result.checked_needed} are needed)"
    )


def rests_on(result: QuantizeResult) -> str:
    """Return a sentence on the inputs for calibration and error, and on the number that a final result needs."""
    calibration, needed = result.calibration, result.inputs_needed
    if not calibration.source:
        return f"calibrated and compared on synthetic inputs; pass at least {needed} real ones with --data FOLDER"
    text = (
        f"calibrated on {_sets(calibration.inputs)} of {calibration.source}, "
        f"error measured on {_sets(calibration.checked, 'held-out ')}"
    )
    if calibration.screened:
        text += f" (other models: on {calibration.screened})"
    if needed:
        return (
            f"{text}; with {needed} inputs, the held-out ones show with 95 % confidence "
            "that at most 5 % exceed the tolerance"
        )
    if result.checked_needed:
        return (
            f"{text}, because runs are slow; --budget {as_option(result.enough_s)} is enough "
            f"for {result.checked_needed}"
        )
    return text


def by_metric(result: QuantizeResult) -> str:
    """Return a sentence on the automatically chosen metric and the reason for it; "" if no metric was chosen so."""
    if not result.metric:
        return ""
    return (
        f"accepted by --metric {result.metric} --tolerance '{result.tolerance}', because {result.metric_reason}; "
        "pass --tolerance 0.01 to accept by distance"
    )


def saturation(result: QuantizeResult) -> str:
    """Return a sentence on outputs that differ between processors because 8-bit sums saturate; "" if none do."""
    if result.saturation == "measured":
        return (
            "this processor has no VNNI, so sums of 8-bit products saturate; the error includes that and is "
            "smaller elsewhere"
        )
    if result.saturation != "elsewhere":
        return ""
    there, portable = result.saturated, result.portable
    text = "on x86 processors without VNNI, sums of 8-bit products saturate and outputs differ"
    if there is not None and there.outputs:
        kept = "within the tolerance" if there.ok else "beyond the tolerance"
        text = (
            "on x86 processors without VNNI, sums of 8-bit products saturate: "
            f"error {error_text(there.worst_slice_l2)} there (emulated), {kept}"
        )
    elif there is not None:
        text += f" (not emulated: {there.what})"
    if portable is None or portable.outputs is None:
        return f"{text}; for these use 7-bit weights (range=7)"
    error = error_text(portable.outputs.worst_slice_l2)
    return f"{text}; {model(portable.plan)} has an error of {error} on all processors"


def _sets(count: int, kind: str = "") -> str:
    return f"1 {kind}input" if count == 1 else f"{count} {kind}inputs"


def error_text(error: float) -> str:
    """Return a relative error in percent, as text."""
    return f"{100 * error:.0f} %" if 100 * error >= 10 else f"{100 * error:.2g} %"
