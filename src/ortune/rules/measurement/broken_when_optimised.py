"""ONNX Runtime's graph optimisation breaks the model.

What it is: the model does not load, or fails in a run, at the requested optimisation level (usually the default), and
    runs with the same inputs at a lower one. The model and its inputs are valid.
Why it costs: the model cannot be used at that level. Below it, fusions are missing.
Evidence: the error of ONNX Runtime at the lowest level that fails, the node that fails, and the nodes of the model that
    it was made from.
Fix and its safety: advice: use the highest level at which the model runs, until a newer ONNX Runtime fixes the bug.
Example: a Reshape whose result is the shape of another Reshape (onnxruntime 1.32)
References: ONNX Runtime documentation, "Graph Optimizations".
"""

from __future__ import annotations

from collections.abc import Iterator

from ortune.records import DEFAULT_BROKEN, BrokenLevel, Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = DEFAULT_BROKEN


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding if the model failed at its optimization level and ran at a lower level."""
    broken = facts.broken_level
    if broken is None:
        return
    build = f"ONNX Runtime {facts.ort_version}".rstrip()
    above = "level all" if broken.level == "all" else f"level {broken.level} and above"
    yield Finding(
        code=CODE,
        severity="error",
        what=f"{build}'s optimiser breaks this model at {above}{_node(broken)}; it runs at level {broken.right}",
        where=broken.made_from or ((broken.node,) if broken.node else ()),
        evidence=broken.what,
        fix=f"use --set level={broken.right}",
    )


def _joined(names: tuple[str, ...]) -> str:
    return " and ".join(names) if len(names) == 2 else listed(names, most=3)


def _node(broken: BrokenLevel) -> str:
    if not broken.node:
        return ""
    made = broken.made_from
    origin = f", made from {_joined(made)}" if made and made != (broken.node,) else ""
    return f" (node {broken.node}{origin})"
