"""Shape rules for ONNX Runtime's attention operators: shapes of the output, and of present keys and values."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortune.graph.attributes import int_of, ints_of
from ortune.graph.nodes import input_of
from ortune.graph.shapes.helpers import Handler
from ortune.graph.shapes.symbols import Dim, Size
from ortune.graph.shapes.walk import Shape, Walk


def _over(dim: Dim, divisor: int) -> Dim:
    return None if dim is None else dim.over(divisor)


def _times(dim: Dim, factor: int) -> Dim:
    return None if dim is None else dim.times(factor)


def _heads(node: ir.Node, name: str = "num_heads") -> int:
    return max(1, int_of(node, name, 1))


def _present(walk: Walk, node: ir.Node, at: int, fresh: Shape) -> Shape:
    """Return the shape of the present: the past (input ``at``) plus ``fresh`` entries, unless both share one buffer."""
    past = walk.shape(input_of(node, at))
    if past is None or len(past) < 4:
        return fresh if input_of(node, at) is None else (None,) * len(fresh)
    if int_of(node, "past_present_share_buffer", 0):
        return past
    before, behind = past[-2], fresh[-2]
    return (*past[:-2], None if before is None or behind is None else before.plus(behind), past[-1])


def _attention(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    x, w = walk.shape(input_of(node, 0)), walk.shape(input_of(node, 1))
    if node.domain != "com.microsoft" or x is None or w is None or len(x) != 3 or len(w) != 2:
        return None
    walk.equal(x[-1], w[0])
    sizes, heads = ints_of(node, "qkv_hidden_sizes"), _heads(node)
    width = Size((), sizes[-1]) if sizes else _over(w[1], 3)
    # Keys and values in one tensor: (key or value), batch, heads, length, size.
    fresh = (Size((), 2), x[0], Size((), heads), x[1], _over(width, heads))
    return [(*x[:2], width), _present(walk, node, 8 if node.op_type == "QAttention" else 4, fresh)]


def _multi_head(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    query, key, value = shapes = [walk.shape(input_of(node, i)) for i in range(3)]
    unknown = any(shape is None and input_of(node, i) is not None for i, shape in enumerate(shapes))
    if unknown or query is None or len(query) not in (3, 5):
        return None
    heads = _heads(node)
    # Five axes are packed queries, keys and values: batch, length, heads, 3, head size.
    head = wide = query[4] if len(query) == 5 else _over(query[2], heads)
    length = query[1] if key is None else key[1]
    if value is not None:
        length, wide = value[2:] if len(value) == 4 else (value[1], _over(value[2], heads))
    at = 5 if node.op_type.startswith("Decoder") else 6
    presents = [
        _present(walk, node, at + i, (query[0], Size((), heads), length, size))
        for i, size in enumerate((head, wide))
    ]
    return [(*query[:2], _times(wide, heads)), *presents]


def _group_query(walk: Walk, node: ir.Node) -> Sequence[Shape | None] | None:
    query, heads, groups = walk.shape(input_of(node, 0)), _heads(node), _heads(node, "kv_num_heads")
    if query is None or len(query) != 3:
        return None
    packed = input_of(node, 1) is None
    # Packed: heads of the queries, then groups of keys and of values.
    head = _over(query[2], heads + 2 * groups if packed else heads)
    fresh = (query[0], Size((), groups), query[1], head)
    presents = [_present(walk, node, at, fresh) for at in (3, 4)]
    return [(*query[:2], _times(head, heads)), *presents]


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("Attention", "QAttention"), _attention),
    **dict.fromkeys(("MultiHeadAttention", "DecoderMaskedMultiHeadAttention"), _multi_head),
    "GroupQueryAttention": _group_query,
}
