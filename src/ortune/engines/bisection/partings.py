"""Finds the places of divergence: nodes whose results differ by more than their inputs explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir

from ortune.engines.bisection.clipping import EXPLAINS, find_clipped
from ortune.engines.bisection.differences import SHOWN, ComparedPairs, explained_by_rounding
from ortune.engines.bisection.matching import CARRIERS, paired_before
from ortune.engines.bisection.narrowing import GROWTH, narrowed, node_of, work_of
from ortune.engines.bisection.observing import ObservedGraph, described
from ortune.engines.bisection.value_statistics import FARTHEST, ValueStatistics
from ortune.engines.bisection.weights import faults
from ortune.graph.attributes import texts
from ortune.graph.constants import stored
from ortune.graph.grids import quantizes
from ortune.graph.model.graphs import op_set
from ortune.graph.nodes import operator
from ortune.inputs import feed_files
from ortune.outputs.files import family
from ortune.records import GridDifference, NodeChange, Parting, ValuePair, WeightFault

BREAK = 4.0
"""Least ratio of a result's difference to that of differing inputs at a break, which must also reach ``SHOWN``."""
FAULTY_BREAK = 2.0
"""Value of ``BREAK`` if a weight of the node is faulty on one side."""
DECISIVE_SHARE = 0.25
"""Fraction of the largest divergence that the decisive place must reach."""
LONGEST_ATTRIBUTE = 200
"""Maximum number of characters of an attribute in a difference between two nodes."""
_JUMPING = op_set("ArgMax ArgMin Ceil Floor NonMaxSuppression Round Sign TopK")
"""Discontinuous operators, after which a small difference can be large, or vanish."""


def _whole(pair: ValuePair) -> float:
    return FARTHEST if pair.relative_l2 is None else pair.relative_l2


def _worst(pair: ValuePair) -> float:
    """Return the relative L2 of a pair, or of its worst slice if that is larger and notable."""
    worst = 0.0 if pair.slice is None else pair.slice.relative_l2
    return max(_whole(pair), worst if worst >= SHOWN else 0.0)


def partings(
    a: ObservedGraph,
    b: ObservedGraph,
    compared: ComparedPairs,
    seen_a: Mapping[str, ValueStatistics],
    seen_b: Mapping[str, ValueStatistics],
) -> tuple[Parting, ...]:
    """Return every place where values diverge, in the order of A's nodes."""
    values = compared.values
    by_b = {pair.b: pair for pair in values.values()}
    makers = {str(v.name): node for node in b.nodes for v in node.outputs}
    places = [{node: i for i, node in enumerate(side.graph.graph)} for side in (a, b)]
    feeds = [feed_files.read_feeds(Path(side.feed.path)) for side in (a, b)]
    places_apart: list[Parting] = []
    for node in a.nodes:
        pair = next((values[str(v.name)] for v in node.outputs if _differs(values.get(str(v.name)))), None)
        if pair is None:
            continue
        into, before = paired_before(node.inputs, set(values))
        theirs = makers[pair.b]
        into_b, before_b = paired_before(theirs.inputs, set(by_b))
        inputs = {p.a: p for p in (*(values[n] for n in into), *(by_b[n] for n in into_b))}
        weights = _weights([node, *before], [theirs, *before_b])
        # A difference that the inputs explain came from upstream; only growth at this node is a separate place.
        goes_in = tuple(inputs.values())
        # The side with more quantizations rounds more often, and determines how many steps rounding explains.
        several = max(map(_quantizations, ([node, *before], [theirs, *before_b])))
        if not _diverges(pair, node, goes_in, compared, faulty=bool(weights), quantizations=several):
            continue
        if _is_reconverged([v for v in node.outputs if str(v.name) == pair.a], values):
            continue  # both sides compute the same values in different ways
        after, before_it = _worst(pair), max(map(_worst, goes_in), default=0.0)
        whole = min(_whole(pair), 1.0)
        out_of_range = (
            *find_clipped([node, *before], "A", seen_a, feeds[0], EXPLAINS * whole),
            *find_clipped([theirs, *before_b], "B", seen_b, feeds[1], EXPLAINS * whole),
        )
        ours = sorted({node, *before}, key=places[0].__getitem__)
        others = sorted({theirs, *before_b}, key=places[1].__getitem__)
        alone = len(ours) == len(others) == 1
        if not alone:
            ours, others = narrowed(ours, others, pair, goes_in, seen_a, seen_b, after)
        places_apart.append(
            Parting(
                value=pair,
                a=tuple(described(node, a) for node in ours),
                b=tuple(described(node, b) for node in others),
                at=node_of(ours, others, a, b),
                at_b=described(max(others, key=work_of), b) if others else None,
                inputs=goes_in,
                changes=tuple(_node_changes(node, theirs)) if alone else (),
                before=None if before_it >= FARTHEST else before_it,
                after=None if after >= FARTHEST else after,
                weights=weights,
                clipped=out_of_range,
            )
        )
    return tuple(places_apart)


def _diverges(
    pair: ValuePair,
    node: ir.Node,
    inputs: Sequence[ValuePair],
    compared: ComparedPairs,
    *,
    faulty: bool,
    quantizations: int,
) -> bool:
    """Return whether a result differs by more than its inputs explain.

    With equal inputs, the limit is eight times the effect of rounding. With unequal inputs, an earlier difference grows
    or is rounded to the next step, so it is a break only if it is notable and exceeds the response of the value to one
    rounding step in its inputs. A faulty weight lowers the limit.
    """
    steps = compared.steps.get(pair.a)
    if steps is not None and explained_by_rounding(steps, quantizations):
        return False
    moves = compared.moves
    equal, whole = all(p.equal for p in inputs), max(map(_whole, inputs), default=0.0)
    if pair.shape_b is not None:
        return equal
    # The factor by which the node enlarges a small change of its inputs, measured on A. Such growth is normal.
    moved_in = max((moves.get(p.a, 0.0) for p in inputs), default=0.0)
    own = max(1.0, moves.get(pair.a, 0.0) / moved_in) if moved_in else 1.0
    if equal:
        return _worst(pair) > max(GROWTH, BREAK * own) * whole
    rounded = family(pair.onnx_type) != "float" and pair.steps is None
    if node.op_type in _JUMPING or rounded:
        return False
    # Beyond 1 the values are unrelated, so growth is meaningless.
    after = min(_whole(pair), 1.0)
    before = FAULTY_BREAK * whole if faulty else BREAK * own * max(map(_worst, inputs), default=0.0)
    return after > max(SHOWN, before)


def _quantizations(nodes: Sequence[ir.Node]) -> int:
    """Return the number of nodes that round to a grid."""
    return sum(map(quantizes, nodes))


def decisive_first(places: Sequence[Parting]) -> tuple[tuple[Parting, ...], Parting | None]:
    """Return the places with the decisive place first, and the first place in the graph unless it is decisive.

    Of the places that reach ``DECISIVE_SHARE``, the first with a faulty weight or clipped values is decisive, and
    otherwise the first.
    """
    if not places:
        return (), None

    def size(place: Parting) -> float:
        return 1.0 if place.after is None else min(1.0, place.after)

    # Relative to the largest, since in a network with small differences everywhere the first is not the cause.
    farthest = max(map(size, places))
    large = [place for place in places if size(place) >= DECISIVE_SHARE * farthest]
    decisive = next((place for place in large if place.weights or place.clipped), large[0])
    rest = tuple(place for place in places if place is not decisive)
    return (decisive, *rest), (places[0] if decisive is not places[0] else None)


def first_off_grid(a: ObservedGraph, b: ObservedGraph, compared: ComparedPairs) -> GridDifference | None:
    """Return the first node whose result differs in grid steps, and the largest difference; None if none differs."""
    values = compared.values
    apart = [pair for pair in values.values() if pair.steps is not None and pair.steps.most]
    if not apart:
        return None
    node = next(node for node in a.nodes for value in node.outputs if str(value.name) == apart[0].a)
    _, before = paired_before(node.inputs, set(values) - _converted_input(node, values))
    steps = max((pair.steps for pair in apart if pair.steps), key=lambda steps: (steps.most, steps.share))
    ours = sorted({node, *before}, key=list(a.graph.graph).index)
    return GridDifference(node=node_of(ours, [], a, b), steps=steps)


def _converted_input(node: ir.Node, values: Mapping[str, ValuePair]) -> set[str]:
    """Return the input of a type conversion, whose producer is the node to report; an empty set for other nodes."""
    if node.op_type not in CARRIERS:
        return set()
    return {str(value.name) for value in node.inputs[:1] if value is not None}


def _weights(ours: Sequence[ir.Node], others: Sequence[ir.Node]) -> tuple[WeightFault, ...]:
    """Return the faults of weights that only one side has."""
    mine, theirs = tuple(faults(ours, "A")), tuple(faults(others, "B"))

    def what(fault: WeightFault) -> tuple[str, int, int]:
        return fault.kind, fault.n, fault.size

    both = {what(fault) for fault in mine} & {what(fault) for fault in theirs}
    return tuple(fault for fault in (*mine, *theirs) if what(fault) not in both)


def _is_reconverged(results: Sequence[ir.Value], values: Mapping[str, ValuePair]) -> bool:
    """Return whether all values computed next are equal, so the two graphs only compute them differently."""
    waiting, visited, met = list(results), set[ir.Value](), False
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
                if pair is None and result not in visited:
                    visited.add(result)
                    waiting.append(result)
    # Without a compared value downstream it is unknown whether the values are equal again.
    return met


def _differs(pair: ValuePair | None) -> bool:
    return pair is not None and not pair.equal


def _node_changes(a: ir.Node, b: ir.Node) -> list[NodeChange]:
    """Return the differences between two nodes: the operator, attributes, weights."""
    changes = []
    if operator(a) != operator(b):
        changes.append(NodeChange(part="operator", was=operator(a), now=operator(b)))
    mine, theirs = (texts(node) for node in (a, b))
    for name in sorted(mine.keys() | theirs.keys()):
        was, now = mine.get(name, "")[:LONGEST_ATTRIBUTE], theirs.get(name, "")[:LONGEST_ATTRIBUTE]
        if was != now:
            changes.append(NodeChange(part="attribute", name=name, was=was, now=now))
    for old, new in zip(a.inputs, b.inputs, strict=False):
        was_w, now_w = _stored(old), _stored(new)
        if was_w is None or now_w is None:
            continue
        if was_w.shape != now_w.shape:
            changes.append(NodeChange(part="weight", name=str(old and old.name)))
        elif not np.array_equal(was_w, now_w, equal_nan=was_w.dtype.kind == "f"):
            norm = float(np.linalg.norm(was_w.astype(np.float64)))
            error = float(np.linalg.norm(now_w.astype(np.float64) - was_w.astype(np.float64)))
            far = error / norm if norm else FARTHEST
            changes.append(
                NodeChange(
                    part="weight",
                    name=str(old and old.name),
                    relative_l2=far if np.isfinite(far) else None,
                )
            )
    return changes


def _stored(value: ir.Value | None) -> np.ndarray | None:
    tensor = stored(value)
    if tensor is None or tensor.dtype == ir.DataType.STRING:
        return None
    return tensor.numpy()
