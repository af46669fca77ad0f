"""Keeps the outputs that are asked for, and takes out the others with all that only they needed.

What it is: of a model with several outputs, those that are named stay, under their names and in their order; the
    others are no outputs any more, and the nodes and weights that served them alone go. Inputs stay, since they are
    fed by name.
Why it costs: a session computes every output of its model unless the program names those that it wants at each call,
    and then too it holds their weights. Heads of training, hidden states and boxes before the last step are such.
Evidence: the program does not read them: nothing in the model tells that, so this is never proposed.
Fix and its safety: behaviour: a program that asks for one of the others is refused. What stays is what it was.
Example: ``--rewrite kept-outputs:logits=keep``
References: ONNX Runtime documentation, "InferenceSession.run"; ONNX documentation, "onnx.utils.extract_model".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import onnx_ir as ir

from ortune.errors import UsageError
from ortune.records import Workload
from ortune.rewrites._base import ANY_NAME, Param, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites.dead_nodes import counted, remove

_KEEP = "keep"


def _leaves_out(names: Iterable[str], params: Mapping[str, str]) -> frozenset[str]:
    """Lists the outputs that a model loses; empty if none were named to keep."""
    return frozenset(names) - params.keys() if params else frozenset()


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    names = [str(value.name) for value in model.graph.outputs]
    there = f"there are: {', '.join(names)}" if len(names) > 1 else f"there is one: {names[0]}"
    unknown = sorted(params.keys() - set(names))
    if unknown:
        raise UsageError(
            f"the model has no output {unknown[0]!r}",
            where="--rewrite kept-outputs",
            do=f"name others; {there}",
        )
    left_out = _leaves_out(names, params)
    if not left_out:
        none = "there are no outputs besides" if params else f"no outputs were named as kept; {there}"
        return unchanged(none)
    kept = [value for value in model.graph.outputs if value.name not in left_out]
    # Deleting them would leave onnx-ir's mark of an output on those that go.
    model.graph.outputs.clear()
    model.graph.outputs.extend(kept)
    nodes, weights, reasons = remove(model)
    gone = [name for name in names if name in left_out]
    with_them = f", and with {'them' if len(gone) > 1 else 'it'} {counted(nodes, weights)}"
    what = f"Left out {', '.join(gone)}{with_them if nodes or weights else ''}."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    return []


REWRITE = Rewrite(
    name="kept-outputs",
    summary="outputs that are not asked for go, with what only they needed",
    safety="behaviour",
    stage=-1,
    params=(
        Param(name=ANY_NAME, kind="choice", choices=(_KEEP,), summary="an output that stays, by its name"),
    ),
    leaves_out=_leaves_out,
    change=_change,
    proposes=_proposes,
)
