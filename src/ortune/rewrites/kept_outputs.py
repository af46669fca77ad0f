"""Keeps only the named outputs, and removes everything that only other outputs need.

What it is: the named outputs of a model stay, with their names and order. The others are removed, together with the
    nodes and weights that only they needed. Inputs stay, because they are fed by name.
Why it costs: a session computes every output unless the program selects some in each run, and even then it keeps all
    weights in memory. Typical examples are training heads, hidden states and raw boxes.
Evidence: the program does not read the other outputs. The model itself does not show this, so the rewrite is never
    proposed.
Fix and its safety: behaviour: a program that requests a removed output fails. The remaining outputs are unchanged.
Example: ``--rewrite kept-outputs:logits=keep``
References: ONNX Runtime documentation, "InferenceSession.run"; ONNX documentation, "onnx.utils.extract_model".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from ortune.errors import UsageError
from ortune.printable import amounts
from ortune.records import Workload
from ortune.rewrites._base import ANY_NAME, Param, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites.dead_nodes import remove

_KEEP = "keep"


def _leaves_out(names: Iterable[str], params: Mapping[str, str]) -> frozenset[str]:
    """Return the outputs to remove: all outputs that ``params`` does not name, or none if ``params`` is empty."""
    return frozenset(names) - params.keys() if params else frozenset()


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    names = [str(value.name) for value in model.graph.outputs]
    there = f"available outputs: {', '.join(names)}" if len(names) > 1 else f"the only output is {names[0]}"
    unknown = sorted(params.keys() - set(names))
    if unknown:
        raise UsageError(
            f"the model has no output {unknown[0]!r}",
            where="--rewrite kept-outputs",
            do=f"choose among the model's outputs; {there}",
        )
    left_out = _leaves_out(names, params)
    if not left_out:
        none = "no other outputs exist" if params else f"no output was named; {there}"
        return unchanged(none)
    kept = [value for value in model.graph.outputs if value.name not in left_out]
    # Clear and extend, since deleting items would leave onnx-ir's output flag on them.
    model.graph.outputs.clear()
    model.graph.outputs.extend(kept)
    nodes, weights, reasons = remove(model)
    gone = [name for name in names if name in left_out]
    with_them = f", with {amounts((nodes, 'node'), (weights, 'weight'))}"
    what = f"Removed {', '.join(gone)}{with_them if nodes or weights else ''}."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    return []


REWRITE = Rewrite(
    name="kept-outputs",
    summary="removes all outputs that are not named, and the nodes that only they need",
    safety="behaviour",
    stage=-1,
    params=(Param(name=ANY_NAME, kind="choice", choices=(_KEEP,), summary="name of an output to keep"),),
    leaves_out=_leaves_out,
    change=_change,
    proposes=_proposes,
)
