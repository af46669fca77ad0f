"""Code for the user's program that loads the winner, with the command that installs its runtime."""

from __future__ import annotations

from pathlib import Path

from ortune.bundle.languages.javascript import node_lines
from ortune.bundle.snippet import python_lines
from ortune.bundle.web import javascript_lines
from ortune.measuring.measuring import Measuring
from ortune.records import Plan
from ortune.runtimes import made


def loading_lines(baseline: Measuring, plan: Plan, rewritten: Path | None) -> str:
    """Return the lines of code that load a plan's model without a bundle.

    Args:
        baseline: Baseline of the model.
        plan: The shipped plan.
        rewritten: The rewritten model, or the model itself if its rewrites changed nothing; None without rewrites.
    """
    model = baseline.side.model.path
    if rewritten in (None, model):
        return _lines(baseline, plan, model.name)
    # Not the name of an existing file: these lines must not load the original model.
    return rewritten_loading_lines(baseline, plan, f"{model.stem}-rewritten.onnx")


def rewritten_loading_lines(baseline: Measuring, plan: Plan, model: str) -> str:
    """Return the lines of code that load a rewritten model from a path, with a comment that names the rewrites."""
    names = ", ".join(spec.name for spec in plan.rewrites)
    lines = _lines(baseline, plan, model)
    if plan.is_web or plan.is_node:
        return f"// load the rewritten model of the bundle ({names})\n{lines}"
    return f"# the rewritten model ({names}); a bundle contains it\n{lines}"


def _lines(baseline: Measuring, plan: Plan, model: str) -> str:
    """Return the lines of code that load the winner, in the programming language of its runtime."""
    if plan.is_web:
        return javascript_lines(plan, model)
    if plan.is_node:
        return node_lines(plan, model)
    side, runtime = baseline.side, baseline.side.runtime_of(plan)
    code = python_lines(
        plan, model, baseline.machine.allocators, tuple(baseline.work.custom_ops), runtime.plugins
    )
    adoption = made.adoption(runtime, side.runtime) if runtime != side.runtime else None
    if adoption is None:
        return code
    place = f"  (instead of {adoption.instead_of})" if adoption.instead_of else ""
    return f"# pip install {' '.join(adoption.requirements)}{place}\n{code}"
