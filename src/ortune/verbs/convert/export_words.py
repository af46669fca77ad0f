"""Sentences about an export: its steps, and advice for a better model."""

from __future__ import annotations

LOCATING = "locating the first wrong node"


def opening(source: str, framework: str) -> str:
    """Return the name of the step that opens a source."""
    return f"opening {source} with {framework}"


def exporting(exporter: str) -> str:
    """Return the name of the step that exports a model."""
    return f"exporting with {exporter}"


def exporter_failed(exporter: str, why: str) -> str:
    """Return the sentence that an exporter failed."""
    return f"{exporter} failed: {why}"


def comparing_outputs(name: str, source: str) -> str:
    """Return the name of the step that compares the outputs of a model with those of its source."""
    return f"comparing the outputs of {name} with those of {source}"


def racing(one: str, other: str) -> str:
    """Return the name of the step that compares the models of two exporters."""
    return f"comparing {one} with {other}"


def not_raced(why: str) -> str:
    """Return the sentence that the models of two exporters were not compared."""
    return f"the two exporters' models were not compared: {why}"


def export_again(command: str) -> str:
    """Return the fix that exports a model again, with another opset."""
    return f"export it again: {command}"


def call_function(name: str | None) -> str:
    """Return the advice to call a PyTorch function instead of writing out its steps."""
    return f"call torch.nn.functional.{name} in the model: it is exported as one operator"


def all_fixed(name: str, sizes: str, command: str) -> str:
    """Return the note that all sizes are fixed, with the first input and the command that keeps the batch dynamic."""
    return (
        f"all sizes are fixed, {name} at {sizes}, because --dynamic was not passed; "
        f"to keep the batch dynamic: {command}"
    )
