"""Precomputes values that are the same in every run: constants, known sizes, and branches that are always taken.

What it is: a node with only constant inputs becomes its result. Shape and Size of a value with known sizes, and a
    single known size selected from others (Gather or Slice of a Shape), become constants. An If with a known
    condition becomes the branch that is taken.
Why it costs: ONNX Runtime folds constants itself, but at every start, and uses the sizes of a tensor only if all are
    known. Computations from one known size among unknown ones run every time, in many tiny nodes, and so does every
    If that depends on them. Unfolded nodes also hide patterns from other rewrites.
Evidence: operators in the file with only constant inputs; Shape of values with known sizes; If.
Fix and its safety: exact: the results are the same. A result may exceed its inputs by at most ``limit`` KiB, which
    keeps the file small. Dequantized weights and random numbers are not folded.
Example: ``--rewrite constant-folding``
References: ONNX operators; ONNX Runtime documentation, "Graph Optimizations", on constant folding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import graph_of, has_parameters, optional_int
from ortune.graph.constants import constant, is_constant
from ortune.graph.evaluation import COMPUTED, Array, evaluate
from ortune.graph.model.graphs import nodes
from ortune.graph.nodes import holds, is_op, scopes_of
from ortune.graph.shapes.known import Dims, InferredShape, known_values
from ortune.printable import amounts
from ortune.records import Workload
from ortune.rewrites._base import CLEAN_UP, Param, Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor
from ortune.rewrites._inline import Inlined, can_be_inlined

_LEAST_OPSET = 8  # before it, arithmetic broadcasts differently
_MOST_NUMBERS = 1 << 26  # maximum elements of a constant
_LIMIT = Param(
    name="limit",
    kind="int",
    default="64",
    summary="how much larger than its inputs the result of a node may be, in KiB",
)


class _Folding:
    """Folds constants in passes until nothing changes."""

    def __init__(self, model: ir.Model, limit_bytes: int, *, as_ort: bool = False) -> None:
        self.model, self.limit_bytes, self.as_ort = model, limit_bytes, as_ort
        self.editor = Editor(model)
        self.folded = self.sizes = self.branches = 0
        self.reasons: dict[str, None] = {}
        self.values: dict[ir.Value, InferredShape] = {}

    def run(self) -> None:
        """Run passes until nothing changes."""
        before = -1
        while before != self.folded + self.branches:
            before = self.folded + self.branches
            # Folded values may reveal sizes, and sizes may reveal a condition.
            self.values = known_values(self.model)
            for scope, opset in scopes_of(self.model):
                for node in list(scope) if opset >= _LEAST_OPSET else ():
                    if node.graph is scope and not any(v.is_graph_output() for v in node.outputs):
                        self._node(node, opset)
                    elif node.graph is scope and is_op(node, "If"):
                        self._branch(node)

    def _node(self, node: ir.Node, opset: int) -> None:
        if is_op(node, "If"):
            self._branch(node)
            return
        results = self._sizes(node, opset) if is_op(node, "Shape", "Size", "Gather", "Slice") else None
        self.sizes += results is not None and is_op(node, "Gather", "Slice")
        if results is None and is_op(node, *COMPUTED):
            results = self._computed(node, opset)
        if results is None:
            return
        for value, array in zip(list(node.outputs), results, strict=True):
            self.editor.replace(value, self.editor.constant(node, f"{value.name}_folded", array))
        self.folded += 1

    def _branch(self, node: ir.Node) -> None:
        condition = constant(node.inputs[0])
        if condition is None or condition.size != 1 or self.as_ort:
            return
        taken = _branch_taken(node, condition)
        if taken is None or not can_be_inlined(taken):
            return
        results = Inlined(self.editor, node, taken).write()
        for old, new in zip(list(node.outputs), results, strict=True):
            self.editor.replace(old, new)
        self.branches += 1

    def _sizes(self, node: ir.Node, opset: int) -> list[np.ndarray] | None:
        """Compute a Shape, a Size, or a Gather or Slice of a Shape; return None if a size that it reads is unknown."""
        if self.as_ort and not (is_op(node, "Shape") and _whole(self._dims(node.inputs[0]))):
            return None  # ONNX Runtime needs all sizes of a tensor, and folds only Shape
        if is_op(node, "Size"):
            dims = self._dims(node.inputs[0])
            return [np.array(np.prod(dims, dtype=np.int64))] if _whole(dims) else None
        if is_op(node, "Shape"):
            dims = self._shape(node)
            return [np.array(dims, np.int64)] if _whole(dims) else None
        shape = node.inputs[0].producer() if node.inputs[0] is not None else None
        dims = self._shape(shape) if shape is not None and is_op(shape, "Shape") else None
        if dims is None or has_parameters(node):
            return None
        # Computed on the indices of the sizes, so the node's arithmetic need not be repeated here.
        places = self._computed(node, opset, np.arange(len(dims)))
        if places is None:
            return None
        chosen = tuple(dims[place] for place in places[0].reshape(-1))
        return [np.array(chosen, np.int64).reshape(places[0].shape)] if _whole(chosen) else None

    def _dims(self, value: ir.Value | None) -> Dims | None:
        shape = self.values.get(value) if value is not None else None
        return shape.dims if shape is not None else None

    def _shape(self, node: ir.Node) -> Dims | None:
        dims = self._dims(node.inputs[0])
        if dims is None or has_parameters(node):
            return None
        return dims[optional_int(node, "start") : optional_int(node, "end")]

    def _computed(  # noqa: PLR0911  (one a reason not to)
        self, node: ir.Node, opset: int, first: np.ndarray | None = None
    ) -> list[np.ndarray] | None:
        """Compute a node with constant inputs, or return None; ``first`` replaces the first input."""
        if has_parameters(node) or not all(v.name for v in node.outputs):
            return None
        arrays: list[Array | None] = []
        input_bytes = 0
        for place, value in enumerate(node.inputs):
            if place == 0 and first is not None:
                arrays.append(first)
                continue
            array = None if value is None else self._constant(value)
            if value is not None and array is None:
                return None
            arrays.append(array)
            input_bytes += 0 if array is None else array.nbytes
        if all(array is None for array in arrays):  # the node was in a branch that has been removed
            return None
        size = self._size(node)
        if size is not None and size > input_bytes + self.limit_bytes:
            self._too_large(node, size)
            return None
        results = evaluate(node, opset, arrays)
        if results is None:
            return None
        size = sum(array.nbytes for array in results)
        if first is None and size > input_bytes + self.limit_bytes:
            self._too_large(node, size)
            return None
        return results

    def _constant(self, value: ir.Value) -> Array | None:
        """Return the array of a constant; None for other values, strings and arrays with too many elements."""
        stored = value.const_value
        if stored is not None and (stored.size > _MOST_NUMBERS or stored.dtype == ir.DataType.STRING):
            return None
        return constant(value)

    def _size(self, node: ir.Node) -> int | None:
        """Return the total bytes of a node's outputs, so that large results are never computed; None if unknown."""
        total = 0
        for value in node.outputs:
            inferred = self.values.get(value, InferredShape())
            dims = inferred.dims
            if inferred.dtype is None or not _whole(dims):
                return None
            total += int(np.prod(dims, dtype=np.int64)) * inferred.dtype.bitwidth // 8
        return total

    def _too_large(self, node: ir.Node, size: int) -> None:
        text = (
            f"the result of {node.op_type} {node.name!r} would take {size >> 10} KiB, which exceeds the limit"
        )
        self.reasons[text] = None


def _whole(dims: Dims | None) -> TypeGuard[tuple[int, ...]]:
    return dims is not None and all(isinstance(size, int) for size in dims)


def constant_branches(model: ir.Model) -> dict[ir.Node, ir.Graph]:
    """Map each If node with a condition that ONNX Runtime folds at session creation to the branch that is taken."""
    copy = model.clone()
    pairs = [(own, other) for own, other in zip(nodes(model), nodes(copy), strict=True) if is_op(own, "If")]
    if not pairs:
        return {}
    _Folding(copy, _MOST_NUMBERS, as_ort=True).run()
    conditions = {own: constant(other.inputs[0]) for own, other in pairs}
    return {
        node: graph
        for node, condition in conditions.items()
        if condition is not None
        and condition.size == 1
        and (graph := _branch_taken(node, condition)) is not None
    }


def _branch_taken(node: ir.Node, condition: np.ndarray) -> ir.Graph | None:
    """Return the branch that an If takes; None if it has no such attribute."""
    return graph_of(node, "then_branch" if condition.reshape(-1)[0] else "else_branch")


def _fold(model: ir.Model, limit_kib: int) -> _Folding:
    folding = _Folding(model, limit_kib << 10)
    folding.run()
    return folding


def _counts(done: _Folding) -> str:
    return amounts((done.folded, "node"), (done.branches, "branch of If", "branches of If"))


def _unfolded(model: ir.Model) -> str:
    """Return a clause that says how many nodes with only constant inputs were not folded, and why."""
    why: Counter[str] = Counter()
    for node in (n for scope, opset in scopes_of(model) if opset >= _LEAST_OPSET for n in scope):
        read = [value for value in node.inputs if value is not None]
        if not read or not all(is_constant(value) for value in read):
            continue
        if any(value.is_graph_output() for value in node.outputs):
            why["produces a graph output"] += 1
        elif not is_op(node, *COMPUTED):
            why[f"{node.op_type} is not supported by this rewrite"] += 1
        else:
            why["its tensors are too large, or of an unsupported type"] += 1
    if not why:
        return "no node has only constant inputs"
    n, parts = why.total(), ", ".join(f"{text} ({n})" for text, n in why.most_common())
    return f"{n} {'nodes have' if n > 1 else 'node has'} only constant inputs and cannot be folded: {parts}"


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    done = _fold(model, int(params["limit"]))
    reasons = tuple(done.reasons)
    if not (done.folded or done.branches):
        why = reasons or (f"{_unfolded(model)}, and no requested size is known",)
        return unchanged(*why)
    return RewriteResult(modified=True, what=f"Precomputed {_counts(done)}.", reasons=reasons)


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    # ONNX Runtime folds constants, but not a Gather or Slice of sizes, nor a branch that depends on one.
    if not (holds(model, "If") or (holds(model, "Shape") and holds(model, "Gather", "Slice"))):
        return []
    done = _fold(model.clone(), int(_LIMIT.default))
    if not (done.sizes or done.branches):
        return []
    return [({}, f"{_counts(done)} can be precomputed")]


REWRITE = Rewrite(
    name="constant-folding",
    summary="precomputes constants, known sizes and known branches",
    safety="exact",
    stage=CLEAN_UP,
    params=(_LIMIT,),
    change=_change,
    proposes=_proposes,
)
