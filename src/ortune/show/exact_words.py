"""The comparison of outputs with ONNX's reference evaluator in float64, in words."""

from __future__ import annotations

from ortune.records import ExactCheck

EVALUATOR = "ONNX's reference evaluator"


def cell(exact: ExactCheck | None) -> str:
    """Return whether the outputs are correct, as "yes", "NO" or "not checked"."""
    if exact is None or exact.right is None:
        return "not checked"
    return "yes" if exact.right else "NO"
