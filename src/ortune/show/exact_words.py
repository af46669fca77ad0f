"""The comparison of outputs with ONNX's reference evaluator in float64, in words."""

from __future__ import annotations

from ortune.records import ExactCheck, NotEvaluated
from ortune.show.numbers import difference, waiting

EVALUATOR = "ONNX's reference evaluator"
_WHY: dict[NotEvaluated, str] = {
    "operators": "it does not know all operators of this model",
    "random": "the model draws random numbers",
    "format": "the model is in ORT format",
    "work-unknown": "the work of this model is unknown or too large",
    "failed": "it cannot evaluate this model",
    "empty": "they have no elements",
    "unsure": "its float32 and float64 results differ",
}


def not_checked(exact: ExactCheck, limit_s: float, name: str = "") -> str:
    """Return a sentence on why the outputs were not compared with the float64 evaluation.

    ``limit_s`` is the time limit of this evaluation in seconds.
    """
    if exact.not_evaluated == "time":
        why = f"about {waiting(exact.needed_s)}, and at most {waiting(limit_s)} may be used for this"
    else:
        why = _WHY[exact.not_evaluated]
    return f"{f'{name}: ' if name else ''}outputs were not compared with {EVALUATOR} ({why})"


def cell(exact: ExactCheck | None) -> str:
    """Return whether the outputs are correct, as "yes", "NO" or "not checked"."""
    if exact is None or exact.right is None:
        return "not checked"
    return "yes" if exact.right else "NO"


def checked(exact: ExactCheck) -> str:
    """Return a phrase on how close the outputs are to the float64 outputs.

    The outputs must have been compared.
    """
    assert exact.outputs is not None
    return f"outputs are {difference(exact.outputs.relative_l2)} to {EVALUATOR} in float64"
