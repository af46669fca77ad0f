"""Where NaN and infinities of a side come from: the node that makes the first of them, and the weight behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import onnx_ir as ir

from ortune.bisection.looked_at import Running, described
from ortune.bisection.seen import Seen
from ortune.graph.constants import stored
from ortune.model.tensors import not_finite
from ortune.records import NotFinite


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weight:
    """A stored value that holds some."""

    name: str
    onnx_type: str
    n_nan: int
    n_inf: int


def first_of(side: Running, values: Mapping[str, Seen], letter: str) -> NotFinite | None:
    """Returns where the values of a side that are not finite begin; None where all are finite.

    Infinities that no output holds may be meant: a mask of minus infinity. So the way is walked back from the outputs
    that hold some, through the values that hold some, to those that are made of finite ones alone; of NaN, where an
    output has NaN. Where no output holds any, it is the first value in the order in which nodes run.
    """
    order = {node: i for i, node in enumerate(side.graph.graph)}

    def counts(value: ir.Value | None) -> tuple[int, int]:
        data = None if value is None else values.get(str(value.name))
        return (0, 0) if data is None else (data.n_nan, data.n_inf)

    outputs = list(side.graph.graph.outputs)
    nan_alone = any(counts(value)[0] for value in outputs)

    def bad(value: ir.Value | None) -> bool:
        n_nan, n_inf = counts(value)
        return n_nan > 0 or (n_inf > 0 and not nan_alone)

    reached = [value for value in outputs if bad(value)]
    begins: list[ir.Value] = []
    if reached:
        waiting, met = list(reached), set(reached)
        while waiting:
            value = waiting.pop()
            producer = value.producer()
            before = [] if producer is None else [v for v in producer.inputs if v is not None and bad(v)]
            if producer is not None and not before:
                begins.append(value)
            waiting += [v for v in before if v not in met]
            met.update(before)
    else:
        begins = [value for node in side.nodes for value in node.outputs if bad(value)]
    first = min(
        ((order[node], value, node) for value in begins if (node := value.producer()) is not None),
        key=lambda begin: begin[0],
        default=None,
    )
    if first is None:
        return None
    _, value, node = first
    n_nan, n_inf = counts(value)
    origin = NotFinite(
        side="A" if letter == "A" else "B",
        node=described(node, side),
        n_nan=n_nan,
        n_inf=n_inf,
        size=values[str(value.name)].size,
        reaches=bool(reached),
    )
    weight = _weight_behind(node, values)
    if weight is None:
        return origin
    return msgspec.structs.replace(
        origin,
        weight=weight.name,
        weight_type=weight.onnx_type,
        weight_n_nan=weight.n_nan,
        weight_n_inf=weight.n_inf,
    )


def _weight_behind(node: ir.Node, values: Mapping[str, Seen]) -> _Weight | None:
    """The nearest stored value that is not finite and goes into a node, through values that are not finite alone."""
    waiting, met = [v for v in node.inputs if v is not None], set[ir.Value]()
    while waiting:
        value = waiting.pop(0)
        if value in met:
            continue
        met.add(value)
        tensor = stored(value)
        if tensor is not None:
            n_nan, n_inf = not_finite(tensor)
            if n_nan + n_inf:
                kind = tensor.dtype.name.lower()
                return _Weight(name=str(value.name), onnx_type=kind, n_nan=n_nan, n_inf=n_inf)
            continue
        producer, data = value.producer(), values.get(str(value.name))
        # A value that was not looked at may hold some, so the way goes on through it.
        if producer is not None and (data is None or data.n_nan + data.n_inf):
            waiting += [v for v in producer.inputs if v is not None]
    return None
