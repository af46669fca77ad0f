"""Fuses written-out attention into MultiHeadAttention.

What it is: ``softmax(q k^T * scale + mask) v`` with heads split by Reshape and Transpose before and merged after, as
    the exporters of torch and Paddle write it. All their variants match: the scale on the scores or split over queries
    and keys, keys transposed once, twice or between two Reshapes, one joint projection, and the guard against NaN rows.
    It becomes one ``com.microsoft.MultiHeadAttention``. The projections before and after stay.
Why it costs: scale, mask, Softmax and guard each write and read the scores, and queries, keys, values and results are
    copied again to transpose them. ONNX Runtime itself fuses the BERT and GPT-2 forms of torch's older exporter, but
    not those of the newer one (``scaled_dot_product_attention``).
Evidence: Softmax, IsNaN, Where, Transpose and Add between MatMul of the same size in the profile.
Fix and its safety: exact: the same operations in a different order. A guard against NaN is dropped where the mask is
    finite, because then no row is NaN unless an input is.
Example: ``--rewrite attention``
References: Vaswani et al., "Attention Is All You Need", 2017; ONNX Runtime, ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attention import Core, core_of
from ortune.graph.attributes import int_of
from ortune.graph.constants import constant
from ortune.graph.heads import Heads
from ortune.graph.nodes import is_op
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts

_LEAST_OPSET = 11  # Slice with inputs, negative axes
_SOFTMAX_OPSET = 13  # before it, Softmax normalizes over all axes from its axis on
_MICROSOFT = "com.microsoft"
_ABOVE = 8  # maximum nodes from queries or keys to their common source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """An attention that one operator can replace; ``joined`` is the Reshape that merges the heads."""

    core: Core
    joined: ir.Node


def _match(softmax: ir.Node, look: PatternFacts) -> _Match | str:  # noqa: PLR0911  (one a near miss)
    """Match the attention around a Softmax, or return the reason for a near miss ("" if unrelated)."""
    core = core_of(softmax)
    if core is None or (look.opset < _SOFTMAX_OPSET and "axis" not in softmax.attributes):
        return ""
    what = f"the attention around Softmax {core.softmax.name!r}"
    if core.shared is not None:
        return f"{core.shared.name!r} in {what} is also used elsewhere"
    q, k, v = core.queries, core.keys, core.values
    if q is None or k is None or v is None:
        lacking = "queries" if q is None else "keys" if k is None else "values"
        return f"the {lacking} of {what} are not split into heads by Reshape and Transpose"
    if not q.count == k.count == v.count or q.size != k.size:
        return f"queries, keys and values of {what} have different numbers of heads"
    if not (_source(q.flat) is _source(k.flat) is _source(v.flat) or _same_batch(q, k, v)):
        return f"queries and keys of {what} may have different batch sizes"
    if not np.float32(core.scale):
        return f"{what} has a scale of zero, which the operator would replace with its default"
    if not any(_is_float32(heads.flat) for heads in (q, k, v)):
        return f"{what} might not be float32"
    if core.guarded and core.mask is not None and not _is_finite(core.mask):
        return f"the mask of {what} may be infinite, and its guard replaces NaN rows with 0"
    joined = core.joined
    if joined is None:
        return f"the heads of {what} are not merged by Transpose and Reshape"
    return _Match(core=core, joined=joined)


def _source(value: ir.Value) -> ir.Value:
    """Follow row-wise operators (products with weights, biases, splits) upstream and return their first input."""
    for _ in range(_ABOVE):
        node = value.producer()
        if node is None:
            break
        if is_op(node, "MatMul", "Gemm"):
            if not _is_matrix(node.inputs[1]) or node.inputs[0] is None:
                break
            if int_of(node, "transA", 0):
                break
            value = node.inputs[0]
        elif is_op(node, "Add", "Mul", "Div"):
            operands = [v for v in node.inputs if v is not None and constant(v) is None]
            sizes = [constant(v) for v in node.inputs if v is not None and constant(v) is not None]
            if len(operands) != 1 or any(
                # A bias with one number per column is the same for all rows; one with several rows is not
                # row-wise.
                s is not None and s.ndim > 1 and s.size > s.shape[-1]
                for s in sizes
            ):
                break
            value = operands[0]
        elif (is_op(node, "Identity") or _splits_rows(node)) and node.inputs[0] is not None:
            value = node.inputs[0]
        else:
            break
    return value


def _is_matrix(value: ir.Value | None) -> bool:
    """Return whether a value is a constant, or a product of two constants, without a batch axis."""
    node = value.producer() if value is not None else None
    factors = list(node.inputs) if node is not None and is_op(node, "Mul") else [value]
    return all(numbers is not None and numbers.ndim <= 2 for numbers in map(constant, factors))


def _splits_rows(node: ir.Node) -> bool:
    """Return whether a node is a Split of any axis but the first (the batch)."""
    axis = int_of(node, "axis", 0) if is_op(node, "Split") else 0
    return axis > 0 or axis == -1


def _same_batch(*heads: Heads) -> bool:
    """Return whether the declared first dimensions of all heads are equal, by size or name."""
    firsts = []
    for head in heads:
        shape = head.split.outputs[0].shape
        firsts.append(None if shape is None or len(shape) == 0 else shape[0])
    return firsts[0] is not None and all(
        first == firsts[0] and (isinstance(first, int) or first.value is not None) for first in firsts
    )


def _is_float32(value: ir.Value) -> bool:
    """Return whether a value is float32 according to its declared type or to constants upstream."""
    for _ in range(_ABOVE):
        if value.dtype is not None:
            return value.dtype == ir.DataType.FLOAT
        node = value.producer()
        if not is_op(node, "MatMul", "Gemm", "Add", "Mul", "Div", "Split", "Identity"):
            return False
        assert node is not None
        constants = [constant(v) for v in node.inputs]
        types = {n.dtype for n in constants if n is not None and n.dtype.kind == "f"}
        if types:
            return types == {np.dtype(np.float32)}
        if node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return False


def _is_finite(mask: ir.Value, depth: int = 8) -> bool:
    """Return whether a mask is known to be finite: a constant, or a selection of constants by Where."""
    numbers = constant(mask)
    if numbers is not None:
        return bool(np.isfinite(numbers).all())
    node = mask.producer()
    if node is None or depth == 0:
        return False
    if is_op(node, "Where"):
        return all(v is not None and _is_finite(v, depth - 1) for v in node.inputs[1:3])
    if is_op(node, "Unsqueeze", "Expand", "Slice", "Reshape", "Transpose", "Identity"):
        return node.inputs[0] is not None and _is_finite(node.inputs[0], depth - 1)
    return False


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    core, at = match.core, match.joined
    q, k, v = core.queries, core.keys, core.values
    assert q is not None
    assert k is not None
    assert v is not None
    name = f"{core.softmax.name or 'softmax'}_attention"
    flat = [
        _flat(editor, at, heads, f"{name}_{kind}", look)
        for heads, kind in ((q, "queries"), (k, "keys"), (v, "values"))
    ]
    inputs: list[ir.Value | None] = [*flat]
    if core.mask is not None:
        inputs += [None, None, _whole(editor, at, core.mask, flat, name, look)]
    attributes = [ir.AttrInt64("num_heads", q.count), ir.AttrFloat32("scale", core.scale)]
    output = editor.node(at, "MultiHeadAttention", inputs, attributes, name=name, domain=_MICROSOFT)
    sizes = constant(at.inputs[1])
    # The operator's output is already [batch, length, hidden], so a Reshape to [0, 0, hidden] is not needed.
    if sizes is None or sizes.tolist() != [0, 0, v.count * v.size] or int_of(at, "allowzero", 0):
        output = editor.node(
            at, "Reshape", [output, at.inputs[1]], list(at.attributes.values()), name=f"{name}_joined"
        )
    editor.replace(at.outputs[0], output)


def _flat(editor: Editor, at: ir.Node, heads: Heads, name: str, look: PatternFacts) -> ir.Value:
    """Return heads with the shape [batch, length, hidden], reusing the value from before the split if possible."""
    head_width = heads.count * heads.size
    width = head_width * heads.parts
    sizes = constant(heads.split.inputs[1])
    attributes = list(heads.split.attributes.values())
    dims = look.values.sizes(heads.flat)
    flat = heads.flat
    rows = [1] if sizes is None else [int(n) for n in sizes[:2]]
    # With as many rows of the same width as before, the length is the same.
    fits = (width, None) if rows == [0, 0] else (width,)
    is_flat = dims is not None and len(dims) == 3 and dims[2] in fits
    if rows[0] != 0 or not is_flat or int_of(heads.split, "allowzero", 0):
        if sizes is not None:
            shape = editor.constant(at, f"{name}_shape", np.array([*rows, width]))
        else:
            starts, ends = (editor.constant(at, f"{name}_{n}", np.array([n])) for n in (0, 2))
            first = editor.node(at, "Slice", [heads.split.inputs[1], starts, ends], name=f"{name}_rows")
            last = editor.constant(at, f"{name}_width", np.array([width]))
            shape = editor.node(at, "Concat", [first, last], [ir.AttrInt64("axis", 0)], name=f"{name}_shape")
        flat = editor.node(at, "Reshape", [flat, shape], attributes, name=f"{name}_flat")
    if heads.parts == 1:
        return flat
    bounds = [
        editor.constant(at, f"{name}_{kind}", np.array([n]))
        for kind, n in (("from", heads.part * head_width), ("to", (heads.part + 1) * head_width), ("axis", 2))
    ]
    return editor.node(at, "Slice", [flat, *bounds], name=name)


def _whole(
    editor: Editor, at: ir.Node, mask: ir.Value, flat: Sequence[ir.Value], name: str, look: PatternFacts
) -> ir.Value:
    """Expand a mask along the query and key axes, which the operator does not broadcast, and return it."""
    dims = look.values.sizes(mask)
    if dims is not None and len(dims) == 4 and all(size is not None and size > 1 for size in dims[2:]):
        return mask
    one = editor.constant(at, f"{name}_one", np.array([1]))
    ones = editor.constant(at, f"{name}_ones", np.array([1, 1]))
    lengths = [
        editor.node(
            at,
            "Gather",
            [editor.node(at, "Shape", [value], name=f"{name}_{kind}_sizes"), one],
            [ir.AttrInt64("axis", 0)],
            name=f"{name}_{kind}_length",
        )
        for value, kind in zip(flat, ("queries", "keys"), strict=False)
    ]
    shape = editor.node(at, "Concat", [ones, *lengths], [ir.AttrInt64("axis", 0)], name=f"{name}_mask_shape")
    return editor.node(at, "Expand", [mask, shape], name=f"{name}_mask")


def _refuses(look: PatternFacts) -> str:
    old = look.opset < _LEAST_OPSET
    return f"the model has opset {look.opset}, and this rewrite needs {_LEAST_OPSET} or newer" if old else ""


PATTERN = Pattern(
    anchors=("Softmax",),
    match=_match,
    replace=_replace,
    refuses=_refuses,
    made="Fused {n} MultiHeadAttention from MatMul and Softmax.",
    proposed="{n} attention {pattern is|patterns are} not fused",
    none="the model has no Softmax between two MatMul nodes",
)
REWRITE = PATTERN.rewrite(
    name="attention",
    summary="fuses written-out attention into MultiHeadAttention",
    stage=4,
)
