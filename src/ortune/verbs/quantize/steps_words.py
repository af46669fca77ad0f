"""Names of the steps of a quantization, and why steps were skipped."""

from __future__ import annotations

WORSE_EARLIER = "worse in an earlier model with the same kinds of layers"
EMULATING = "emulating a processor without VNNI"
PROFILING = "profiling the float and the quantized model"


def testing(method: str) -> str:
    """Return the name of the step that tests a method on the whole model."""
    return f"testing the whole model: {method}"


def layer(number: int, total: int, name: str) -> str:
    """Return the name of the step that measures the sensitivity of layers, with the first of them."""
    return f"sensitivity {number} of {total}: {name}"


def measuring(kept: int, total: int) -> str:
    """Return the name of the step that measures a model with some layers in float."""
    return f"measuring with {kept} of {total} layers in float"


def comparing_held_out(plan: str, inputs: int) -> str:
    """Return the name of the step that compares a model on all held-out inputs."""
    return f"comparing the outputs of {plan} on {inputs} inputs"


def held_out_not_compared(why: str) -> str:
    """Return the sentence that no model was compared on all held-out inputs."""
    return f"outputs on all held-out inputs were not compared: {why}"


def slower_than_float(method: str) -> str:
    """Return the reason that a method is not tested: a method of the same speed is slower than float."""
    return f"{method} is slower than float"


def no_layer_times(why: str) -> str:
    """Return the note that the times of layers are unknown."""
    return f"layer times are unknown: {why}"
