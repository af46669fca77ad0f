"""Where values part: what goes into a node is equal, what comes out is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortune.bisection.looked_at import Running, described, operator
from ortune.bisection.matching import CARRIERS, NEAR, Pair, paired_before
from ortune.bisection.seen import FARTHEST, Seen, differing_share, precision, relative_l2
from ortune.records import GraphNode, NodeChange, Parting, ValuePair
from ortune.trials.output_files import family
from ortune.trials.outputs import DIFFERING_SHARE

GROWTH = 8.0
"""Times as far as what goes in: less is a difference that grows on its way, and begins elsewhere."""
_PRODUCTS = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN")
OWN_MOVES = 32.0
"""Times as far as a value moves when what goes in moves by one step: every sum along the way is rounded too."""


def held_against(
    a: Running,
    pairs: Mapping[str, Pair],
    seen_a: Mapping[str, Seen],
    seen_b: Mapping[str, Seen],
    moved: Mapping[str, Seen],
) -> dict[str, ValuePair]:
    """Every pair with how far apart it is, and how far rounding may have brought it.

    Args:
        a: A's graph.
        pairs: By the name in A.
        seen_a: Values of A.
        seen_b: Values of B.
        moved: Those of A with inputs and small weights one step away.
    """
    makers = {str(v.name): node for node in a.nodes for v in node.outputs}
    found = {}
    for name, pair in pairs.items():
        mine, theirs, node = seen_a[name], seen_b[pair.b], makers[name]
        distance = relative_l2(mine, theirs, any_order=pair.sorted)
        limit = precision(mine, theirs)
        if name in moved and moved[name].shape == mine.shape:
            limit = max(limit, OWN_MOVES * relative_l2(mine, moved[name]))
        equal = distance <= limit
        if not equal and family(mine.onnx_type) != "float" and not pair.sorted:
            equal = differing_share(mine, theirs) <= DIFFERING_SHARE  # one that was rounded the other way
        found[name] = ValuePair(
            a=name,
            b=pair.b,
            node=node.name or "",
            operator=operator(node),
            matched_by=pair.by,
            onnx_type=mine.onnx_type,
            shape=mine.shape,
            relative_l2=None if distance >= FARTHEST else distance,
            limit=min(limit, FARTHEST),
            equal=equal,
        )
    return found


def partings(
    a: Running,
    b: Running,
    values: Mapping[str, ValuePair],
    seen_a: Mapping[str, Seen],
    seen_b: Mapping[str, Seen],
) -> tuple[Parting, ...]:
    """Every place where values part, in the order of A's nodes."""
    by_b = {pair.b: pair for pair in values.values()}
    makers = {str(v.name): node for node in b.nodes for v in node.outputs}
    places = [{node: i for i, node in enumerate(side.graph.graph)} for side in (a, b)]
    found: list[Parting] = []
    for node in a.nodes:
        pair = next((values[str(v.name)] for v in node.outputs if _differs(values.get(str(v.name)))), None)
        if pair is None:
            continue
        into, before = paired_before(node.inputs, set(values))
        theirs = makers[pair.b]
        into_b, before_b = paired_before(theirs.inputs, set(by_b))
        inputs = {p.a: p for p in (*(values[n] for n in into), *(by_b[n] for n in into_b))}
        if not all(p.equal for p in inputs.values()):
            continue
        before_it = max((p.relative_l2 or 0.0 for p in inputs.values()), default=0.0)
        if (pair.relative_l2 or FARTHEST) <= GROWTH * before_it:
            continue  # what was there already has grown beyond the limit, or is again
        if _heals([v for v in node.outputs if str(v.name) == pair.a], values):
            continue  # a step on another way to the same values
        ours = sorted({node, *before}, key=places[0].__getitem__)
        others = sorted({theirs, *before_b}, key=places[1].__getitem__)
        alone = len(ours) == len(others) == 1
        if not alone:
            ours, others = _narrowed(ours, others, pair, tuple(inputs.values()), seen_a, seen_b)
        found.append(
            Parting(
                value=pair,
                a=tuple(described(each, a) for each in ours),
                b=tuple(described(each, b) for each in others),
                at=_at(ours, others, a, b),
                inputs=tuple(inputs.values()),
                changes=tuple(_changes(node, theirs)) if alone else (),
            )
        )
    return tuple(found)


def _at(ours: Sequence[ir.Node], others: Sequence[ir.Node], a: Running, b: Running) -> GraphNode:
    """The node that a reader looks for: A's own that does the work, or B's where A has none."""
    if not ours:
        return described(max(others, key=_work), b)
    behind = b.names.get(max(others, key=_work).name or "", ()) if others else ()
    own = {node.name: node for node in ours}
    known = next((own[name] for name in behind[:1] if name in own), None)
    return described(known or max(ours, key=_work), a)


def _work(node: ir.Node) -> int:
    """How much of the work of its neighbourhood a node does, by its kind: products, what is computed, what is moved."""
    if node.op_type in CARRIERS:
        return 0
    return 2 if any(kind in node.op_type for kind in _PRODUCTS) else 1


def _heals(made: Sequence[ir.Value], values: Mapping[str, ValuePair]) -> bool:
    """Whether all that is next made of a value is equal: the two get there on different ways."""
    waiting, seen, met = list(made), set[ir.Value](), False
    while waiting:
        value = waiting.pop()
        if value.is_graph_output():
            return False
        for consumer, _ in value.uses():
            for result in consumer.outputs:
                pair = values.get(str(result.name))
                if pair is not None and not pair.equal:
                    return False
                met = met or pair is not None
                if pair is None and result not in seen:
                    seen.add(result)
                    waiting.append(result)
    return met


def _narrowed(
    ours: list[ir.Node],
    others: list[ir.Node],
    pair: ValuePair,
    inputs: Sequence[ValuePair],
    seen_a: Mapping[str, Seen],
    seen_b: Mapping[str, Seen],
) -> tuple[list[ir.Node], list[ir.Node]]:
    """The nodes of both sides without those that still make, or no longer get, what the other side has."""
    behind = _behind(others, seen_b, seen_a[pair.a], pair.limit)
    behind = behind or _spoiling(others, seen_b, [(seen_a[p.a], p.limit) for p in inputs])
    if behind:
        return [], behind
    behind = _behind(ours, seen_a, seen_b[pair.b], pair.limit)
    behind = behind or _spoiling(ours, seen_a, [(seen_b[p.b], p.limit) for p in inputs])
    return (behind, []) if behind else (ours, others)


def _behind(nodes: list[ir.Node], seen: Mapping[str, Seen], wanted: Seen, limit: float) -> list[ir.Node]:
    """The nodes behind the one that makes this value; none where none does."""
    for node in nodes[:-1]:
        if any(distance <= limit for distance in _distances(node, seen, wanted)):
            into = {node, *paired_before(node.inputs, set())[1]}
            return [other for other in nodes if other not in into]
    return []


def _spoiling(
    nodes: list[ir.Node], seen: Mapping[str, Seen], inputs: Sequence[tuple[Seen, float]]
) -> list[ir.Node]:
    """The first node, if any, that makes of an input that input again, but for an error: a conversion, say."""
    for node in nodes[:-1]:
        for wanted, limit in inputs:
            if any(limit < distance <= NEAR for distance in _distances(node, seen, wanted)):
                return [node]
    return []


def _distances(node: ir.Node, seen: Mapping[str, Seen], wanted: Seen) -> list[float]:
    held = (seen.get(str(value.name)) for value in node.outputs)
    return [relative_l2(wanted, each) for each in held if each is not None and each.shape == wanted.shape]


def _differs(pair: ValuePair | None) -> bool:
    return pair is not None and not pair.equal


def _changes(a: ir.Node, b: ir.Node) -> list[NodeChange]:
    """What two nodes have that is not the same: the operator, attributes, weights."""
    found = []
    if operator(a) != operator(b):
        found.append(NodeChange(part="operator", was=operator(a), now=operator(b)))
    mine, theirs = (_plain_attributes(node) for node in (a, b))
    for name in sorted(mine.keys() | theirs.keys()):
        was, now = mine.get(name, ""), theirs.get(name, "")
        if was != now:
            found.append(NodeChange(part="attribute", name=name, was=was, now=now))
    for old, new in zip(a.inputs, b.inputs, strict=False):
        was_w, now_w = _stored(old), _stored(new)
        if was_w is None or now_w is None:
            continue
        if was_w.shape != now_w.shape:
            found.append(NodeChange(part="weight", name=str(old and old.name)))
        elif not np.array_equal(was_w, now_w, equal_nan=was_w.dtype.kind == "f"):
            norm = float(np.linalg.norm(was_w.astype(np.float64)))
            error = float(np.linalg.norm(now_w.astype(np.float64) - was_w.astype(np.float64)))
            far = error / norm if norm else FARTHEST
            found.append(
                NodeChange(
                    part="weight",
                    name=str(old and old.name),
                    relative_l2=far if np.isfinite(far) else None,
                )
            )
    return found


def _plain_attributes(node: ir.Node) -> dict[str, str]:
    """Attributes as text; graphs and tensors are not compared."""
    kinds = (
        ir.AttributeType.GRAPH,
        ir.AttributeType.GRAPHS,
        ir.AttributeType.TENSOR,
        ir.AttributeType.TENSORS,
    )
    return {
        name: repr(attribute.value)[:200]
        for name, attribute in node.attributes.items()
        if not attribute.is_ref() and attribute.type not in kinds
    }


def _stored(value: ir.Value | None) -> np.ndarray | None:
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()
