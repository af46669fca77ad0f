"""Reasons for which ``ortune tune`` does not try a plan, as printed text."""

from __future__ import annotations

UNASSIGNABLE = "onnxruntime cannot assign nodes by name alongside a plug-in that compiles parts of the graph"
"""Session creation fails with ONNX Runtime 1.32.0 and the plug-ins of OpenVINO 1.8.1 and QNN 2.7.0."""
AMBIGUOUS = "the nodes before and after them cannot be assigned to the CPU by name"


def does_not_run(plan: str, reason: str, error: str) -> str:
    """Return the reason of a plan whose execution provider does not run the model."""
    return f"{plan} does not run this model ({reason}: {error})"


def beyond_tolerance(plan: str, what: str) -> str:
    """Return the reason of a number type whose outputs are beyond the tolerance."""
    return f"{plan} is beyond the tolerance: {what}"


def emulated(plan: str) -> str:
    """Return the reason of a plan that is not timed because its device is emulated."""
    return f"{plan} runs on an emulated device here, so its times mean nothing"


def lacks_feature(rewrite: str, feature: str) -> str:
    """Return the reason of a rewrite whose operators need a feature that the browser's GPU does not have."""
    return f"rewrite {rewrite}: the browser's GPU has no {feature}"
