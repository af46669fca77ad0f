"""Merges several small matrix multiplications of the same row into one.

What it is: MatMul or Gemm nodes with the same single-row input and small constant weights become one MatMul or Gemm
    with concatenated weights, followed by a Split. Heads of a classifier and gates of a cell are often written this
    way.
Why it costs: a multiplication of that size takes less time than launching it. For one row the Split copies a few
    numbers. For more rows it copies the whole result, which costs more than it saves.
Evidence: several multiplications of one single-row tensor, with up to 65,536 weights each.
Fix and its safety: exact: every value is the same sum of the same products.
Example: ``--rewrite merged-products``
References: ONNX operators, "MatMul", "Gemm" and "Split".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.graph.nodes import Scope, holds, is_op, scopes_of
from ortune.graph.shapes.known import InferredShape, known_values
from ortune.records import Workload
from ortune.rewrites import _affine
from ortune.rewrites._base import Proposed, Rewrite, RewriteResult, unchanged
from ortune.rewrites._editor import Editor

_LEAST_OPSET = 11  # Split with a negative axis
_SIZES_ARE_INPUT = 13  # first opset in which the sizes of Split are an input
_MOST_NUMBERS = 1 << 16  # maximum elements of one product's weights; larger products gain nothing


def _group(
    scope: Scope, values: Mapping[ir.Value, InferredShape]
) -> tuple[list[list[_affine.Product]], list[str]]:
    """Return (groups of single-row products that share an input, reasons that other groups do not qualify)."""
    groups: defaultdict[tuple[object, ...], list[_affine.Product]] = defaultdict(list)
    reasons: list[str] = []
    for node in scope:
        if (
            not is_op(node, "MatMul", "Gemm")
            or node.inputs[0] is None
            or node.inputs[0].const_value is not None
        ):
            continue
        stored = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
        dims = values.get(node.inputs[0], InferredShape()).dims
        small = stored is None or stored.size <= _MOST_NUMBERS
        if not small or dims is None or any(size != 1 for size in dims[:-1]):
            if len(node.inputs[0].uses()) > 1:
                reasons.append(f"{node.op_type} {node.name!r} may have several rows or large weights")
            continue
        product = _affine.product(node)
        if product is not None:
            groups[node.inputs[0], node.op_type, product.ins, product.weight.dtype].append(product)
    return [group for group in groups.values() if len(group) > 1], reasons


def _merge(editor: Editor, group: Sequence[_affine.Product], opset: int) -> None:
    first = group[0].node
    name = first.name or first.outputs[0].name or "product"
    dtype = group[0].weight.dtype
    columns = [product.weight.T if _affine.is_transposed(product) else product.weight for product in group]
    inputs = [first.inputs[0], editor.constant(first, f"{name}_weights", np.concatenate(columns, axis=1))]
    biases = np.concatenate([product.bias for product in group]).astype(dtype)
    if biases.any():
        inputs.append(editor.constant(first, f"{name}_biases", biases))
    product = editor.node(first, first.op_type, inputs, name=f"{name}_merged")
    product.type = first.outputs[0].type
    sizes = [product.outs for product in group]
    attributes, operands = [ir.AttrInt64("axis", -1)], [product]
    if opset < _SIZES_ARE_INPUT:
        attributes.append(ir.AttrInt64s("split", sizes))
    else:
        operands.append(editor.constant(first, f"{name}_sizes", np.array(sizes, np.int64)))
    parts = editor.outputs(first, "Split", operands, attributes, name=f"{name}_split", count=len(group))
    for member, part in zip(group, parts, strict=True):
        editor.replace(member.node.outputs[0], part)


def _walk(model: ir.Model) -> tuple[int, int, list[str]]:
    """Merge groups; return (products before, products after, reasons that other groups stay)."""
    editor, before, after = Editor(model), 0, 0
    reasons: dict[str, None] = {}
    values = known_values(model)
    for scope, opset in scopes_of(model):
        groups, why = _group(scope, values) if opset >= _LEAST_OPSET else ([], [])
        reasons.update(dict.fromkeys(why))
        for group in groups:
            _merge(editor, group, opset)
            before += len(group)
            after += 1
    return before, after, list(reasons)


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    before, after, reasons = _walk(model)
    if not before:
        return unchanged(
            *(reasons or ("no single-row tensor is multiplied by several small constant matrices",))
        )
    return RewriteResult(
        modified=True, what=f"Merged {before} matrix multiplications into {after}.", reasons=tuple(reasons)
    )


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if not holds(model, "MatMul", "Gemm"):
        return []
    before, after, _ = _walk(model.clone())
    return (
        [
            (
                {},
                f"{before} small matrix multiplications share {after} single-row "
                f"input{'s' if after > 1 else ''}",
            )
        ]
        if before
        else []
    )


REWRITE = Rewrite(
    name="merged-products",
    summary="merges small matrix multiplications of one row",
    safety="exact",
    stage=4,
    change=_change,
    proposes=_proposes,
)
