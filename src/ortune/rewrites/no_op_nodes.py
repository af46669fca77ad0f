"""Removes nodes that return their input unchanged.

What it is: Identity, Dropout at inference, a Cast to the existing type, and a Transpose that keeps the order. Also
    Reshape, Expand, Tile, Pad, Slice and Split that change no size, and Concat, Sum, Max, Min and Mean of one
    tensor. Finally Add and Sub of zero, and Mul, Div and Pow by one.
Why it costs: ONNX Runtime removes many of these nodes itself, at every start. It keeps Transpose, Tile, Pad, Pow,
    Sum, Max, Min, Mean, Concat and Split, which copy the tensor in every run, and Reshape, which costs the overhead of
    a node. In the file, such nodes also hide patterns from other rewrites.
Evidence: types and sizes inferred from the inputs, before and after the node.
Fix and its safety: exact: all values are equal (the sign of zeros may change).
Example: ``--rewrite no-op-nodes``
References: ONNX operators; ONNX Runtime documentation, "Graph Optimizations", on redundant nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import has_parameters, int_of, ints_of, is_parameter
from ortune.graph.constants import constant
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import input_of, is_op, scopes_of
from ortune.graph.shapes.known import Values, known_values
from ortune.printable import amount
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor, name_conflict

_LEAST_OPSET = 7  # before it, arithmetic broadcasts differently and Dropout has a mode
_TRAINING_IS_INPUT = 12  # first opset in which the training mode of Dropout is an input


class _Look:
    """Inferred types and sizes, by which a node is recognized as a no-op."""

    def __init__(self, values: Values, opset: int) -> None:
        self.values, self.opset = values, opset

    def same_sizes(self, node: ir.Node) -> bool:
        """Return whether a node's first input and output certainly have the same sizes, as numbers or symbols."""
        before, after = self.values.inferred(node.inputs[0]).dims, self.values.inferred(node.outputs[0]).dims
        if before is None or after is None or len(before) != len(after):
            return False
        return all(a is not None and a == b for a, b in zip(before, after, strict=True))

    def reshapes_to_itself(self, node: ir.Node) -> bool:
        """Return whether a Reshape keeps every size: by equal numbers, zeros, or one -1."""
        before = self.values.inferred(node.inputs[0]).dims
        sizes = constant(node.inputs[1]) if len(node.inputs) > 1 else None
        zeros = is_parameter(node, "allowzero") or int_of(node, "allowzero", 0)
        if before is None or sizes is None or zeros:
            return self.same_sizes(node)
        asked = [int(size) for size in sizes.reshape(-1)]
        if len(asked) != len(before):
            return False
        free = [size for size, size_before in zip(asked, before, strict=True) if size not in (0, size_before)]
        # If all other sizes are kept, so is the inferred one.
        return free in ([], [-1])


def _dropout(node: ir.Node, look: _Look) -> bool:
    if any(v.uses() or v.is_graph_output() for v in node.outputs[1:]):
        return False
    if look.opset < _TRAINING_IS_INPUT or len(node.inputs) < 3 or node.inputs[2] is None:
        return True
    training = constant(node.inputs[2])
    return training is not None and not training.any()


def _cast(node: ir.Node, look: _Look) -> bool:
    return look.values.inferred(node.inputs[0]).dtype == int_of(node, "to", 0)


def _transpose(node: ir.Node, look: _Look) -> bool:
    perm = ints_of(node, "perm")
    if perm is not None:
        return perm == list(range(len(perm)))
    dims = look.values.inferred(node.inputs[0]).dims
    return dims is not None and len(dims) < 2


def _other_input(node: ir.Node, look: _Look, number: float, places: tuple[int, ...]) -> ir.Value | None:
    """Return the other input of a node with the constant `number` at one of the positions `places`; None for others."""
    for place in places:
        x, numbers = node.inputs[1 - place], constant(node.inputs[place])
        dims = look.values.inferred(x).dims
        if x is None or numbers is None or dims is None or numbers.size != 1 or numbers.ndim > len(dims):
            continue
        if numbers.dtype.kind in "fiu" and numbers.reshape(-1)[0] == number:
            return x
    return None


def _pad(node: ir.Node, look: _Look) -> bool:
    listed = ints_of(node, "pads")
    if listed is not None:
        return not any(listed)
    pads = constant(input_of(node, 1))
    return pads is not None and not pads.any()


def _slice(node: ir.Node, look: _Look) -> bool:
    steps = constant(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else np.ones(1)
    if steps is None or (steps != 1).any():
        return False
    if look.same_sizes(node):
        return True
    starts, ends = (ints_of(node, name) for name in ("starts", "ends"))
    low = np.asarray(starts) if starts is not None else constant(input_of(node, 1))
    high = np.asarray(ends) if ends is not None else constant(input_of(node, 2))
    # An end beyond any tensor.
    return low is not None and high is not None and not low.any() and bool((high >= 2**31 - 1).all())


def _expand(node: ir.Node, look: _Look) -> bool:
    sizes, dims = constant((*node.inputs, None)[1]), look.values.inferred(node.inputs[0]).dims
    if sizes is None or dims is None or sizes.size > len(dims):
        return False
    asked = [int(size) for size in sizes.reshape(-1)]
    # An empty target shape changes nothing.
    return all(a in (1, b) for a, b in zip(asked, dims[len(dims) - len(asked) :], strict=True))


def _tile(node: ir.Node, look: _Look) -> bool:
    repeats = constant((*node.inputs, None)[1])
    return repeats is not None and bool((repeats == 1).all())


def _one_input(node: ir.Node, look: _Look) -> bool:
    return len(node.inputs) == 1


def _one_output(node: ir.Node, look: _Look) -> bool:
    return len(node.outputs) == 1 and look.same_sizes(node)


_JUDGES: dict[str, Callable[[ir.Node, _Look], bool]] = {
    "Identity": lambda node, look: True,
    "Dropout": _dropout,
    "Cast": _cast,
    "Transpose": _transpose,
    "Reshape": lambda node, look: look.reshapes_to_itself(node),
    "Flatten": lambda node, look: look.same_sizes(node),
    "Expand": _expand,
    "Tile": _tile,
    "Pad": _pad,
    "Slice": _slice,
    "Split": _one_output,
    "Concat": _one_input,
    "Sum": _one_input,
    "Max": _one_input,
    "Min": _one_input,
    "Mean": _one_input,
}
_NUMBERS = {"Add": (0, (0, 1)), "Sub": (0, (1,)), "Mul": (1, (0, 1)), "Div": (1, (1,)), "Pow": (1, (1,))}
"""Maps each operator to its neutral number and the input positions at which that number has no effect."""


def _returned_input(node: ir.Node, look: _Look) -> ir.Value | None:
    """Return the input that a no-op node returns; None if the node is not a no-op."""
    if not is_op(node, *_JUDGES, *_NUMBERS) or has_parameters(node):
        return None
    if not node.inputs or node.inputs[0] is None:
        return None
    if node.op_type in _NUMBERS:
        return _other_input(node, look, *_NUMBERS[node.op_type])
    return node.inputs[0] if _JUDGES[node.op_type](node, look) else None


_LEFT = op_set("Transpose Reshape Flatten Pow Concat Tile Pad Sum Max Min Mean Split")
"""Operators whose no-op nodes remain in the optimized graph of ONNX Runtime 1.31."""


def _remove(model: ir.Model) -> tuple[Counter[str], list[str]]:
    """Remove no-op nodes; return (removed nodes per operator, reasons that other no-op nodes stay)."""
    editor, counts, before = Editor(model), Counter[str](), -1
    reasons: dict[str, None] = {}
    while before != counts.total():
        before = counts.total()
        values = known_values(model)
        for scope, opset in scopes_of(model):
            look = _Look(values, opset)
            for node in list(scope) if opset >= _LEAST_OPSET else ():
                source = _returned_input(node, look) if node.graph is scope else None
                result = node.outputs[0] if node.outputs else None
                if source is None or result is None:
                    continue
                if result.is_graph_output() and not editor.takes_name(source, result):
                    reasons[name_conflict(node)] = None
                    continue
                editor.replace(result, source)
                counts[node.op_type] += 1
    return counts, list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    counts, reasons = _remove(model)
    count = counts.total()
    if not count:
        return unchanged(*(reasons or ("no node returns its input unchanged",)))
    what = f"Removed {amount(count, 'node')} that had no effect."
    return RewriteResult(modified=True, what=what, reasons=tuple(reasons))


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    values = known_values(model)
    looks = [(scope, _Look(values, opset)) for scope, opset in scopes_of(model) if opset >= _LEAST_OPSET]
    if all(_returned_input(node, look) is None for scope, look in looks for node in scope):
        return []  # avoids a copy of the model
    counts, _ = _remove(model.clone())
    count = sum(counts[name] for name in _LEFT)
    nodes = amount(count, "node returns its", "nodes return their")
    return [({}, f"{nodes} input unchanged")] if count else []


REWRITE = Rewrite(
    name="no-op-nodes",
    summary="removes nodes that return their input unchanged",
    safety="exact",
    stage=CLEAN_UP,
    change=_change,
    proposes=_proposes,
)
