"""Finds the origin of a side's NaN and infinities: the first node that makes them, and the weight they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import onnx_ir as ir

from ortune.engines.bisection.infinities import Infinities
from ortune.engines.bisection.observing import ObservedGraph, described
from ortune.engines.bisection.value_statistics import ValueStatistics
from ortune.graph.constants import stored
from ortune.graph.model.graphs import subgraphs
from ortune.graph.model.tensors import not_finite
from ortune.inputs import feed_files
from ortune.outputs.files import Array
from ortune.records import InfinityKind, NotFinite


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A stored value or an input with NaN or infinities."""

    name: str
    onnx_type: str
    n_nan: int
    n_inf: int
    fed: bool = False


def first_of(side: ObservedGraph, values: Mapping[str, ValueStatistics], letter: str) -> NotFinite | None:
    """Return where the non-finite values of a side begin; None if all are finite.

    NaN of an output is traced back to the first node that returns NaN for inputs without NaN. If those inputs contain
    infinities that a node computed from finite numbers, by overflow or division by zero, that node is the cause.
    Infinities of stored values and inputs may be intended, as a mask of minus infinity. Without NaN in an output, its
    infinities are traced in the same way. If no output has any, the first value in execution order is used.
    """
    order = {node: i for i, node in enumerate(side.graph.graph)}
    infinities = Infinities(side, values)

    def n_nan(value: ir.Value | None) -> int:
        data = None if value is None else values.get(str(value.name))
        return 0 if data is None else data.n_nan

    def place(value: ir.Value) -> int:
        node = value.producer()
        return -1 if node is None else order[node]

    outputs = [value for value in side.graph.graph.outputs if value.producer() is not None]
    inner = [value for node in side.nodes for value in node.outputs]
    nan: ir.Value | None = None
    if reached := [value for value in outputs if n_nan(value)]:
        nan = min(_begins(reached, lambda value: n_nan(value) > 0), key=place)
    elif not (reached := [value for value in outputs if infinities.unlike_a_mask(value)]):
        nan = min(filter(n_nan, inner), key=place, default=None)
    last = [nan] if nan is not None else reached or list(filter(infinities.unlike_a_mask, inner))
    origin = infinities.first(last)
    kind: InfinityKind = ""
    if origin is not None and (nan is None or not origin.given):
        value, kind = origin.value, origin.kind
    elif nan is not None:
        value = nan
    else:
        return None
    node, nan_node = value.producer(), None if nan is None else nan.producer()
    assert node is not None
    data = values[str(value.name)]
    first = NotFinite(
        side="A" if letter == "A" else "B",
        node=described(node, side),
        infinity=kind,
        onnx_type=data.onnx_type,
        nan_node=None if nan_node is None or nan_node is node else described(nan_node, side),
        n_nan=data.n_nan,
        n_inf=data.n_inf,
        size=data.size,
        reaches=bool(reached),
    )
    given = _given_behind(
        node if origin is None else origin.node, values, infinities.feeds, nan_alone=origin is None
    )
    if given is None or kind:
        return first
    if given.fed:
        return msgspec.structs.replace(
            first, input=given.name, input_n_nan=given.n_nan, input_n_inf=given.n_inf
        )
    return msgspec.structs.replace(
        first,
        weight=given.name,
        weight_type=given.onnx_type,
        weight_n_nan=given.n_nan,
        weight_n_inf=given.n_inf,
    )


def _begins(reached: Iterable[ir.Value], bad: Callable[[ir.Value], bool]) -> list[ir.Value]:
    """Return the bad values with only good operands, among the reached values and the bad values upstream of them."""
    waiting = list(reached)
    met, begins = set(waiting), list[ir.Value]()
    while waiting:
        value = waiting.pop()
        producer = value.producer()
        before = [] if producer is None else [v for v in producer.inputs if v is not None and bad(v)]
        if not before:
            begins.append(value)
        waiting += [v for v in before if v not in met]
        met.update(before)
    return begins


def _given_behind(
    node: ir.Node, values: Mapping[str, ValueStatistics], feeds: Mapping[str, Array], *, nan_alone: bool
) -> _Given | None:
    """Return the nearest non-finite stored value or input that feeds a node through non-finite values.

    Args:
        node: The node from which the search starts.
        values: Statistics of the values that nodes returned.
        feeds: The model's inputs.
        nan_alone: Skip values that have infinities but no NaN.
    """
    waiting, met = list(_read_by(node)), set[ir.Value]()
    while waiting:
        value = waiting.pop(0)
        if value in met:
            continue
        met.add(value)
        tensor = stored(value)
        if tensor is not None:
            n_nan, n_inf = not_finite(tensor)
            if n_nan if nan_alone else n_nan + n_inf:
                kind = tensor.dtype.name.lower()
                return _Given(name=str(value.name), onnx_type=kind, n_nan=n_nan, n_inf=n_inf)
            continue
        if value.is_graph_input():
            array = feeds.get(str(value.name))
            n_nan, n_inf = (0, 0) if array is None else feed_files.not_finite(array)
            if n_nan if nan_alone else n_nan + n_inf:
                return _Given(name=str(value.name), onnx_type="", n_nan=n_nan, n_inf=n_inf, fed=True)
            continue
        producer, data = value.producer(), values.get(str(value.name))
        # A value that was not observed may contain some, so the search continues through it.
        if producer is not None and (data is None or data.n_nan or (data.n_inf and not nan_alone)):
            waiting += [v for v in producer.inputs if v is not None]
    return None


def _read_by(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the values that a node and its subgraphs read, since values inside an If or Loop are not observed."""
    yield from (value for value in node.inputs if value is not None)
    for body in subgraphs(node):
        for inner in body:
            yield from _read_by(inner)
