"""Takes out casts to a smaller type that go straight back.

What it is: Cast to float16 or bfloat16 and Cast back to float32 (or from float64 to a smaller type and back); nodes
    that only move numbers about (Transpose, Reshape, Slice and others) may stand between, and then work on what was
    before the first.
Why it costs: two passes over the tensor that only round it, and what stands on either side is not fused.
Evidence: Casts that follow each other.
Fix and its safety: numerics: outputs move by what the rounding took away, and what was beyond 65504 is not infinite.
Example: ``--rewrite cast-round-trips``
References: microsoft/onnxruntime#25824, #12880.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortune.graph.attributes import cast_to
from ortune.graph.nodes import is_op, only_user, scopes_of
from ortune.model.graphs import nodes, op_set
from ortune.records import Workload
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult
from ortune.rewrites._editor import Editor, takes_name, why_no_name
from ortune.rewrites._known import Known, known_values

_SMALLER = {
    ir.DataType.FLOAT: (ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
    ir.DataType.DOUBLE: (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16),
}
_MOVES = op_set("Transpose Reshape Flatten Squeeze Unsqueeze Slice Expand Identity")
"""What only moves its first input about, one tensor to one."""


def _way(back: ir.Node) -> list[ir.Node]:
    """The nodes from a Cast down to the Cast back, both of them included; empty where there is no such way."""
    way, value = [back], back.inputs[0]
    while value is not None and (node := value.producer()) is not None:
        way.append(node)
        if is_op(node, "Cast"):
            return way[::-1]
        if not is_op(node, *_MOVES) or only_user(value) is not way[-2]:
            return []
        value = node.inputs[0]
    return []


def _walk(model: ir.Model) -> tuple[int, list[str]]:
    """Takes them out: how many, and why others stay."""
    editor, count = Editor(model), 0
    reasons: dict[str, None] = {}
    known = known_values(model)
    for scope, _ in scopes_of(model):
        for back in [node for node in scope if cast_to(node)]:
            way = _way(back) if back.graph is scope else []
            if len(way) < 2 or way[0].inputs[0] is None:
                continue
            down, source = way[0], way[0].inputs[0]
            dtype = known.get(source, Known()).dtype
            if dtype is None or dtype != cast_to(back) or cast_to(down) not in _SMALLER.get(dtype, ()):
                continue
            if way[1] is back:
                if back.outputs[0].is_graph_output() and not takes_name(source, back.outputs[0]):
                    reasons[why_no_name(back)] = None
                    continue
                editor.replace(back.outputs[0], source)
            else:
                way[1].replace_input_with(0, source)
                for value in (node.outputs[0] for node in way[1:-1]):
                    value.type = ir.TensorType(dtype)
                    known[value] = Known(dtype=dtype, dims=known.get(value, Known()).dims)
                editor.replace(back.outputs[0], way[-2].outputs[0])
                editor.drop(down.outputs[0])
            count += 1
    return count, list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    count, reasons = _walk(model)
    if not count:
        why = tuple(reasons) or ("no value is cast to a smaller type and straight back",)
        return RewriteResult(modified=False, what="Nothing was changed.", reasons=why)
    what = f"Took {count} cast{'s' if count > 1 else ''} to a smaller type and back out."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    small = {dtype for smaller in _SMALLER.values() for dtype in smaller}
    if not any(cast_to(node) in small for node in nodes(model)):
        return []
    count, _ = _walk(model.clone())
    values = "1 value is" if count == 1 else f"{count} values are"
    return [({}, f"{values} cast to a smaller type and straight back")] if count else []


REWRITE = Rewrite(
    name="cast-round-trips",
    summary="casts to a smaller type and straight back go",
    safety="numerics",
    stage=1,
    change=_change,
    proposes=_proposes,
)
