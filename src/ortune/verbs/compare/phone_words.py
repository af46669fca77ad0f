"""Sentences about a comparison that was measured by a bench on a phone."""

from __future__ import annotations

HOT = "the phone was too hot"


def measured_on(device: str, ort_version: str) -> str:
    """Return the sentence on the phone and its ONNX Runtime."""
    return f"measured on {device} with onnxruntime {ort_version}"


def how_measured(device: str) -> str:
    """Return the note on how a phone measures."""
    return f"measured on {device}, in one process with alternating sessions"


def excluded(hot: int, blocks: int) -> str:
    """Return the note that blocks were excluded because the phone was too hot."""
    were = "was" if hot == 1 else "were"
    return f"{hot} of {blocks} blocks {were} excluded: {HOT}"


def did_not_run(name: str, error: str) -> str:
    """Return the note that a file did not run."""
    return f"{name} did not run: {error}"


def not_included(text: str) -> str:
    """Return the note on a file that the set does not include."""
    return f"not included: {text}"
