"""Replaces an Einsum that is a matrix multiplication by MatMul.

What it is: Einsum of two tensors with one summed index (``bqhd,bkhd->bhqk``) becomes MatMul, with Transposes where the
    indices have another order. Einsum of one tensor that only permutes its axes becomes Transpose.
Why it costs: ONNX Runtime's Einsum parses its equation in every run and executes the same Transpose and MatMul inside.
    It cannot prepack weights, fuse the next operator, or cancel its Transposes with adjacent ones.
Evidence: Einsum in the optimised graph, and its share of a trace.
Fix and its safety: exact: the same products, summed in another order.
Example: ``--rewrite einsum-to-matmul``
References: ONNX operators, "Einsum" and "MatMul".
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from ortune.graph.attributes import text_of
from ortune.graph.nodes import FLOATS
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Look, Pattern

_LEAST_OPSET = 12  # of Einsum
_MULTIPLIED = FLOATS | {ir.DataType[name] for name in ("BFLOAT16", "INT32", "INT64", "UINT32", "UINT64")}
"""Types that MatMul is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """An Einsum that is a matrix product or a transposition.

    Attributes:
        node: The Einsum.
        terms: The indices of what goes in, the left factor first.
        inputs: Places of what goes in, in this order.
        wanted: How the indices of each must stand.
        product: Those of the product.
        result: Those of what comes out.
    """

    node: ir.Node
    terms: tuple[str, ...]
    inputs: tuple[int, ...]
    wanted: tuple[str, ...]
    product: str
    result: str


def _match(node: ir.Node, look: Look) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """Matches an Einsum that is a matrix product or transposition; else the reason."""
    text = text_of(node, "equation", "").replace(" ", "")
    if not text or None in node.inputs:
        return f"Einsum {node.name!r} has no equation attribute"
    left, arrow, result = text.partition("->")
    terms = tuple(left.split(","))
    said = f"Einsum {node.name!r} ({text})"
    if not arrow or "." in text or any(len(set(t)) != len(t) for t in (*terms, result)):
        return f"{said} has an ellipsis, a repeated index in one tensor, or no output"
    if len(terms) != len(node.inputs) or not set(result) <= set("".join(terms)):
        return f"{said} does not match its inputs"
    if len(terms) == 1:
        if set(terms[0]) != set(result):
            return f"{said} sums over a tensor alone"
        return _Match(node=node, terms=terms, inputs=(0,), wanted=(result,), product=result, result=result)
    if len(terms) != 2:
        return f"{said} has more than two inputs"
    for order in ((0, 1), (1, 0)):
        a, b = terms[order[0]], terms[order[1]]
        both = "".join(i for i in result if i in a and i in b)
        summed = [i for i in a if i in b and i not in result]
        rows = "".join(i for i in a if i not in b)
        columns = "".join(i for i in b if i not in a)
        # Several rows are one matrix after another, where no index is shared besides.
        if len(summed) != 1 or len(columns) != 1 or not rows or (len(rows) > 1 and both):
            continue
        if not set(rows + columns) <= set(result):
            return f"{said} sums over a tensor alone"
        sizes = [_size(node.inputs[order[k]], terms[order[k]].index(summed[0]), look) for k in (0, 1)]
        if sizes[0] is None or sizes[0] != sizes[1]:
            return f"{said} may broadcast along the summed index"
        if look.of(node.inputs[0]).dtype not in _MULTIPLIED:
            return f"{said} has a type that MatMul does not support"
        wanted = (both + rows + summed[0], both + summed[0] + columns)
        return _Match(
            node=node, terms=(a, b), inputs=order, wanted=wanted, product=both + rows + columns, result=result
        )
    return f"{said} does not sum over exactly one index, or an input is not a matrix"


def _size(value: ir.Value | None, axis: int, look: Look) -> int | str | None:
    dims = look.of(value).dims
    return dims[axis] if dims is not None and axis < len(dims) else None


def _turned(editor: Editor, at: ir.Node, value: ir.Value, has: str, wants: str) -> ir.Value:
    if has == wants:
        return value
    perm = ir.AttrInt64s("perm", [has.index(index) for index in wants])
    transposed = editor.node(at, "Transpose", [value], [perm], name=f"{at.name or 'einsum'}_transpose")
    transposed.type = value.type
    return transposed


def _replace(editor: Editor, match: _Match, look: Look) -> None:
    node = match.node
    inputs = [value for place in match.inputs if (value := node.inputs[place]) is not None]
    factors = [
        _turned(editor, node, value, has, wants)
        for value, has, wants in zip(inputs, match.terms, match.wanted, strict=True)
    ]
    output = factors[0]
    if len(factors) == 2:
        output = editor.node(node, "MatMul", factors, name=f"{node.name or 'einsum'}_product")
        output.type = node.outputs[0].type
    output = _turned(editor, node, output, match.product, match.result)
    if output is inputs[0]:
        output = editor.node(node, "Identity", [output], name=f"{node.name or 'einsum'}_same")
    editor.replace(node.outputs[0], output)


PATTERN = Pattern(
    anchors=("Einsum",),
    match=_match,
    replace=_replace,
    made="Replaced {n} {Einsum|Einsums} by MatMul or Transpose.",
    proposed="{n} {Einsum is a matrix multiplication|Einsums are matrix multiplications}",
    none="the model has no Einsum",
    least_opset=_LEAST_OPSET,
    repeats=True,
    counts_replaced=True,
)
REWRITE = PATTERN.rewrite(
    name="einsum-to-matmul",
    summary="replaces an Einsum that is a matrix multiplication by MatMul",
    stage=1,
)
