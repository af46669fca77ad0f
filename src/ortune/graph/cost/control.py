"""Costs of If, Loop, Scan and SequenceMap: the subgraphs that count, and how often each is executed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import onnx_ir as ir

from ortune.graph.attributes import graph_of, int_of, ints_of
from ortune.graph.cost.call import MOST_WORK, Uncounted
from ortune.graph.cost.growth import LoopGrowth
from ortune.graph.cost.known import Counter
from ortune.graph.model.graphs import name_of, op_set, own_name, subgraphs
from ortune.graph.model.operators import STANDARD, dotted
from ortune.records import NodeCost

_ENDLESS = 1 << 31
"""Minimum trip count that is treated as unlimited, so only the condition ends the loop; exporters write 2^63 - 1."""


def count(counter: Counter, node: ir.Node, inside: str) -> list[NodeCost]:
    """Count a node with subgraphs; return the node's own record, without work, followed by those of all inner nodes."""
    name = own_name(node) or node.op_type
    below = f"{inside}/{name}" if inside else name
    own = NodeCost(
        name=own_name(node), called=name_of(node), op_type=node.op_type, domain=node.domain, inside=inside
    )
    kind = _KINDS.get(node.op_type) if node.domain in STANDARD else None
    try:
        if kind is None:
            raise Uncounted(f"no formula for {dotted(node.domain, node.op_type)}")
        note, inner = kind(counter, node, below)
    except Uncounted as reason:
        for value in node.outputs:
            counter.bind(value, None, why=str(reason))
        return [msgspec.structs.replace(own, known=False, note=str(reason))]
    return [msgspec.structs.replace(own, note=note), *inner]


def _times(nodes: Sequence[NodeCost], factor: int) -> list[NodeCost]:
    if factor == 1:
        return list(nodes)
    if any(n.times * factor * max(1, n.flops, n.bytes_read, n.bytes_written) > MOST_WORK for n in nodes):
        raise Uncounted("its number of iterations is implausibly large")
    return [msgspec.structs.replace(n, times=n.times * factor) for n in nodes]


def _work(nodes: Sequence[NodeCost]) -> tuple[int, int]:
    flops = sum(n.flops * n.times for n in nodes)
    return flops, sum((n.bytes_read + n.bytes_written) * n.times for n in nodes)


def _if(counter: Counter, node: ir.Node, below: str) -> tuple[str, list[NodeCost]]:
    names = ("then_branch", "else_branch")
    branches = {name: graph for name in names if (graph := graph_of(node, name)) is not None}
    if len(branches) < 2:
        raise Uncounted("the If lacks a branch")
    counted = {name: counter.graph(graph, f"{below}/{name}") for name, graph in branches.items()}
    condition = counter.content(node.inputs[0] if node.inputs else None)
    if condition is not None and condition.size == 1:
        taken, note = "then_branch" if bool(condition.ravel()[0]) else "else_branch", ""
    else:
        taken = max(counted, key=lambda name: _work(counted[name]))
        note = f"the more expensive branch is counted ({taken})"
    for value, result in zip(node.outputs, branches[taken].outputs, strict=False):
        counter.alias(value, result)
    return note, [n for name, nodes in counted.items() for n in _times(nodes, int(name == taken))]


def _loop(counter: Counter, node: ir.Node, below: str) -> tuple[str, list[NodeCost]]:
    body = next(subgraphs(node))
    before = [*node.inputs[2:]]
    # The iteration number and the condition, then the carried values.
    for value in body.inputs[:2]:
        counter.bind(value, ())
    for value, source in zip(body.inputs[2:], before, strict=False):
        counter.alias(value, source, contents=False)
    nodes = counter.graph(body, below)
    trips, note = _trips(counter, node, body)
    # The condition, then the carried values, then the stacked outputs.
    after = body.outputs[1 : 1 + len(before)]
    growth = LoopGrowth(counter, body, before, after)
    mean = growth.mean(below, trips) if growth.changes_size and trips else None
    grown = _carry(counter, node.outputs, before, after)
    if mean is not None and trips:
        nodes = mean
        for value, dims in zip(node.outputs, growth.at(trips), strict=False):
            counter.bind(value, dims)
    for value, result in zip(node.outputs[len(before) :], body.outputs[1 + len(before) :], strict=False):
        shape = counter.dims(result)
        why = counter.why(result) or "the trip count of a Loop is not constant"
        lead = None if trips is None else trips
        counter.bind(value, None if shape is None else (lead, *shape), counter.dtype(result), why)
    changing = "sizes change from one iteration to the next: "
    own, first = "each iteration is counted with its own sizes", "those of the first iteration are counted"
    which = own if mean is not None else first
    notes = [note, changing + which if grown else ""]
    return "; ".join(filter(None, notes)), _times(nodes, 1 if trips is None else trips)


def _trips(counter: Counter, node: ir.Node, body: ir.Graph) -> tuple[int | None, str]:
    """Return (trip count, note about the trip count); the count is None if it is not constant."""
    limit = counter.content(node.inputs[0] if node.inputs else None)
    start = counter.content(node.inputs[1] if len(node.inputs) > 1 else None)
    if start is not None and start.size == 1 and not bool(start.ravel()[0]):
        return 0, ""
    most = int(limit.ravel()[0]) if limit is not None and limit.size == 1 else None
    if most is None or most >= _ENDLESS:
        return None, "the trip count is not constant: one iteration is counted"
    going = body.outputs[0] if body.outputs else None
    while going is not None and (producer := going.producer()) is not None and producer.op_type == "Identity":
        going = producer.inputs[0]
    always = counter.content(going)
    passed_on = len(body.inputs) > 1 and going is body.inputs[1]
    sure = passed_on or (always is not None and always.size == 1 and bool(always.ravel()[0]))
    return max(0, most), "" if sure else f"its condition may end it before the {most} iterations counted"


def _carry(
    counter: Counter,
    outputs: Sequence[ir.Value],
    before: Sequence[ir.Value | None],
    after: Sequence[ir.Value],
) -> bool:
    """Set the shapes of a loop's carried outputs; return whether any shape changes in the first iteration."""
    grown = False
    for value, source, result in zip(outputs, before, after, strict=False):
        first, last = counter.dims(source), counter.dims(result)
        why = (
            counter.why(source)
            or counter.why(result)
            or "a size changes from one iteration of a Loop to the next"
        )
        if first is not None and last is not None and first == last:
            counter.alias(value, result, contents=False)
            continue
        grown = grown or (first is not None and last is not None)
        counter.bind(value, None, counter.dtype(result), why)
    return grown


def _scan(counter: Counter, node: ir.Node, below: str) -> tuple[str, list[NodeCost]]:
    body = next(subgraphs(node))
    n_scanned = int_of(node, "num_scan_inputs", 0)
    if (node.version or counter.opset(node.domain)) < 9:
        # Opset 8 has a leading input of lengths, and a batch axis in all others.
        raise Uncounted("the body of a Scan of opset 8 is not examined")
    n_states = len(node.inputs) - n_scanned
    in_axes = ints_of(node, "scan_input_axes") or [0] * n_scanned
    length: int | None = None
    for i, (value, source) in enumerate(zip(body.inputs, node.inputs, strict=False)):
        if i < n_states:
            counter.alias(value, source, contents=False)
            continue
        shape = counter.dims(source)
        if not shape or i - n_states >= len(in_axes):
            counter.bind(
                value,
                None,
                counter.dtype(source),
                counter.why(source) or "the shape of a scanned input is unknown",
            )
            continue
        axis = in_axes[i - n_states] % len(shape)
        length = shape[axis]
        counter.bind(value, (*shape[:axis], *shape[axis + 1 :]), counter.dtype(source))
    nodes = counter.graph(body, below)
    _carry(counter, node.outputs, node.inputs[:n_states], body.outputs[:n_states])
    out_axes = ints_of(node, "scan_output_axes") or [0] * max(0, len(node.outputs) - n_states)
    for i, (value, result) in enumerate(zip(node.outputs[n_states:], body.outputs[n_states:], strict=False)):
        shape = counter.dims(result)
        if shape is None or length is None or i >= len(out_axes):
            why = counter.why(result) or "the length of a Scan is unknown"
            counter.bind(value, None, counter.dtype(result), why)
            continue
        axis = out_axes[i] % (len(shape) + 1)
        counter.bind(value, (*shape[:axis], length, *shape[axis:]), counter.dtype(result))
    note = "" if length is not None else "its length is unknown: one iteration is counted"
    return note, _times(nodes, 1 if length is None else length)


def _sequence_map(counter: Counter, node: ir.Node, below: str) -> tuple[str, list[NodeCost]]:
    body = next(subgraphs(node))
    why = "the length and the elements of a sequence are unknown"
    for value in body.inputs:
        counter.bind(value, None, why=why)
    for value in node.outputs:
        counter.bind(value, None, why=why)
    return f"{why}: one element is counted", counter.graph(body, below)


CONTROL_FLOW = op_set("If Loop Scan SequenceMap")
_KINDS = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
