"""Replaces the product of a one-hot encoding and a matrix with a row lookup.

What it is: ``Cast(Equal(x, [0, 1, ..., n - 1]))`` (JAX, tf2onnx) or ``OneHot``, followed by ``MatMul`` with a constant,
    selects one row of the matrix per index, or none for an index out of range. Gather selects the same rows, and a row
    of zeros for an index out of range. Elementwise operators that follow (a bias, a Gelu) are applied once, to the
    table.
Why it costs: the encoding has as many columns as the matrix has rows and is written and read several times. Nearly all
    multiplications in the MatMul are by zero.
Evidence: Equal, Cast and MatMul (or OneHot and MatMul) at the top of the profile, on integer inputs.
Fix and its safety: exact: a row of the result is a row of the matrix plus zeros. A matrix that contains NaN or
    infinities is not replaced.
Example: ``--rewrite one-hot-to-gather``
References: ONNX operators, "Gather" and "OneHot".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from ortune.graph.attributes import int_of, is_parameter
from ortune.graph.constants import Array, constant, scalar
from ortune.graph.nodes import is_op, maker_of, only_user, source_of
from ortune.graph.shapes.nearby import least_rank
from ortune.rewrites._editor import Editor
from ortune.rewrites._pattern import Pattern, PatternFacts
from ortune.rewrites._probe import evaluate_on_probes, nodes_between

_LEAST_OPSET = 12  # Clip of integers
_AXES_ARE_INPUT = 13  # first opset in which the axes of Squeeze are an input
_MOST_BYTES = 8 << 20  # maximum size of the table
_FOLLOWED = 32  # maximum values to follow after the product


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """A subgraph that computes the one-hot encoding of integers.

    Attributes:
        x: The encoded integers.
        dtype: Type of the integers.
        drops: Whether the integers have a last axis of size 1, which the encoding replaces with the columns.
        rank: Rank of the encoding.
        low, count: Number encoded by the first column, and number of columns.
    """

    x: ir.Value
    dtype: np.dtype[np.generic]
    drops: bool
    rank: int
    low: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Match:
    """A product with a one-hot encoding.

    Attributes:
        code: The encoding.
        table: Lookup table with one row per number; the first and the last row are for numbers out of range.
        result: The value that the lookup replaces.
        at: Node before which the lookup is inserted.
    """

    code: _Code
    table: np.ndarray
    result: ir.Value
    at: ir.Node


def _code(value: ir.Value, look: PatternFacts) -> _Code | str:  # noqa: PLR0911  (one a near miss)
    """Match a one-hot encoding, or return the reason for a near miss ("" if unrelated)."""
    node = maker_of(value)
    if is_op(node, "OneHot"):
        assert node is not None
        return _one_hot(node)
    if not is_op(node, "Cast"):
        return ""
    assert node is not None
    equal = maker_of(node.inputs[0])
    if not is_op(equal, "Equal") or only_user(node.inputs[0] or value) is None:
        return ""
    assert equal is not None
    for place in (0, 1):
        x, numbers = equal.inputs[place], constant(source_of(equal.inputs[1 - place]))
        if x is None or numbers is None:
            continue
        if numbers.dtype not in (np.int32, np.int64) or numbers.size < 2 or numbers.shape[-1] != numbers.size:
            return f"Equal {equal.name!r} does not compare with a row of integers"
        row = numbers.reshape(-1)
        if (np.diff(row) != 1).any():
            return f"the integers compared in Equal {equal.name!r} are not consecutive"
        dims = look.values.sizes(x)
        if dims is None or len(dims) < numbers.ndim or dims[-1] != 1:
            return f"the input of Equal {equal.name!r} may have more than one value per row"
        return _Code(x=x, dtype=numbers.dtype, drops=True, rank=len(dims), low=int(row[0]), count=row.size)
    return ""


def _one_hot(node: ir.Node) -> _Code | str:
    x, last = source_of(node.inputs[0]), not is_parameter(node, "axis") and int_of(node, "axis", -1) == -1
    depth, values = scalar(source_of(node.inputs[1])), constant(source_of(node.inputs[2]))
    if x is None or depth is None or values is None or values.dtype != np.float32:
        return f"depth or values of OneHot {node.name!r} are not constant float32"
    if values.tolist() != [0.0, 1.0] or not last:
        return f"OneHot {node.name!r} has values other than 0 and 1, or is not on the last axis"
    if x.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return f"the indices of OneHot {node.name!r} might not be integers"
    # Negative indices count from the end.
    dtype = np.dtype(np.int32 if x.dtype == ir.DataType.INT32 else np.int64)
    low, count = -int(depth), 2 * int(depth)
    return _Code(x=x, dtype=dtype, drops=False, rank=least_rank(x) + 1, low=low, count=count)


def _match(product: ir.Node, look: PatternFacts) -> _Match | str:
    code_value = product.inputs[0]
    code = _code(code_value, look) if code_value is not None else ""
    if isinstance(code, str):
        return code
    weights = constant(source_of(product.inputs[1]))
    if weights is None or weights.ndim != 2 or weights.dtype != np.float32:
        return f"MatMul {product.name!r} does not multiply by a constant float32 matrix"
    if code_value is None or only_user(code_value) is not product:
        return f"the one-hot encoding of MatMul {product.name!r} is also used elsewhere"
    if not np.isfinite(weights).all():
        return f"the weights of MatMul {product.name!r} are not all finite"
    if (code.count + 2) * weights[0].nbytes > _MOST_BYTES:
        return f"the table of MatMul {product.name!r} would be larger than {_MOST_BYTES >> 20} MiB"
    zeros = np.zeros((1, weights.shape[1]))
    # The rows of OneHot occur twice: for negative and for non-negative indices.
    rows = [weights.astype(np.float64)] * (code.count // len(weights))
    y, table = _through(product.outputs[0], np.concatenate([zeros, *rows, zeros]), code.rank)
    return _Match(code=code, table=table.astype(np.float32), result=y, at=product)


def _through(value: ir.Value, table: Array, rank: int) -> tuple[ir.Value, Array]:
    """Apply the elementwise nodes after a product to its lookup table; return (last value, resulting table)."""
    computed = evaluate_on_probes(value, [table], rank=rank, axes=1, limit=_FOLLOWED)
    # The farthest value first, so as much as possible goes into the table.
    for y, (values,) in reversed(computed.items()):
        nodes, elsewhere = nodes_between(value, y, computed)
        inside = y is value or (
            {use.node for use in value.uses()} <= set(nodes) and not value.is_graph_output()
        )
        if elsewhere is None and inside and values.shape == table.shape and np.isfinite(values).all():
            return y, values
    return value, table


def _replace(editor: Editor, match: _Match, look: PatternFacts) -> None:
    at, code, name = match.at, match.code, match.at.name or "one_hot"
    index = code.x
    if code.drops:
        axis = np.array([-1])
        axes = [ir.AttrInt64s("axes", [-1])] if look.opset < _AXES_ARE_INPUT else []
        inputs = [index] if axes else [index, editor.constant(at, f"{name}_axis", axis)]
        index = editor.node(at, "Squeeze", inputs, axes, name=f"{name}_squeeze")

    def number(which: str, value: int) -> ir.Value:
        return editor.constant(at, f"{name}_{which}", np.array(value, code.dtype))

    # Clip to one below and one above the range, which are the first and the last row of the table.
    limits = [number("low", code.low - 1), number("high", code.low + code.count)]
    index = editor.node(at, "Clip", [index, *limits], name=f"{name}_clip")
    if code.low != 1:
        index = editor.node(at, "Add", [index, number("shift", 1 - code.low)], name=f"{name}_row")
    inputs = [editor.constant(at, f"{name}_table", match.table), index]
    editor.replace(
        match.result, editor.node(at, "Gather", inputs, [ir.AttrInt64("axis", 0)], name=f"{name}_lookup")
    )


def _refuses(look: PatternFacts) -> str:
    old = look.opset < _LEAST_OPSET
    return f"the model has opset {look.opset}, and Clip of integers needs {_LEAST_OPSET}" if old else ""


PATTERN = Pattern(
    anchors=("MatMul",),
    match=_match,
    replace=_replace,
    end=lambda match: match.at,
    refuses=_refuses,
    made="Replaced {n} one-hot {encoding|encodings} with a row lookup.",
    proposed="{n} one-hot {encoding is|encodings are} multiplied by a matrix",
    none="no one-hot encoding is multiplied by a constant matrix",
)
REWRITE = PATTERN.rewrite(
    name="one-hot-to-gather",
    summary="replaces a one-hot encoding times a matrix with a row lookup",
    stage=2,
)
