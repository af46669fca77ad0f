"""Where values part: what comes out of a node is farther apart than what goes in explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from ortune.analysis.grids import Grid, grids, quantizes
from ortune.bisection.grids import INTEGERS, behind_grids, step_of, zero_of
from ortune.bisection.looked_at import Running, described
from ortune.bisection.matching import CARRIERS, NEAR, Pair, paired_before
from ortune.bisection.seen import (
    FARTHEST,
    Seen,
    Steps,
    differing_share,
    in_steps,
    precision,
    relative_l2,
    worst_slice,
)
from ortune.bisection.weights import faults
from ortune.graph.attributes import texts
from ortune.graph.constants import stored
from ortune.graph.nodes import operator
from ortune.model.graphs import op_set
from ortune.records import (
    GraphNode,
    GridDifference,
    GridSteps,
    NodeChange,
    Parting,
    SliceError,
    ValuePair,
    WeightFault,
)
from ortune.trials import rounding
from ortune.trials.output_files import family
from ortune.trials.output_ways import DIFFERING_SHARE

_LONGEST = 200  # of an attribute, as text

GROWTH = 8.0
"""Times as far as what goes in: less is a difference that grows on its way, and begins elsewhere."""
BREAK = 4.0
"""Times as far as what goes in, where that is not equal: the least of a break, and only of one that shows."""
FAULTY_BREAK = 2.0
"""The same where a weight of the node is at fault on one side."""
SHOWN = 0.05
"""Relative L2 from which a break shows, or a slice counts beside the whole."""
DECISIVE_SHARE = 0.25
"""Of the farthest of all partings: the first that is so far is the answer, not the first that trembles."""
OWN_MOVES = 32.0
"""Times as far as a value moves when what goes in moves by one step: every sum along the way is rounded too."""
GRID_MOVES = 4.0
"""The same behind a quantization, where what moves a value is a few elements that were rounded to the next step."""
MOST_MOVES = 0.1
"""Relative L2 that is taken for rounding at the most, where a value does not move nearly as far by itself."""
STEPS_ONCE, STEPS_EACH = 0.25, 0.75
"""Root of the mean square, in steps of a grid, that rounding makes of values on it: at all, and by each quantization on
the way. A processor whose products of 8 bits saturate is a little below; a bias that is read wrong is far above."""
WORST_STEPS = 4.0
"""Times as many, of the worst slice."""
_PRODUCTS = ("Attention", "Conv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN")
_JUMPING = op_set("ArgMax ArgMin Ceil Floor NonMaxSuppression Round Sign TopK")
"""A little before these is much behind them, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Every pair with what is known of it.

    Attributes:
        values: By the name in A.
        moves: How far a value of A moves when what goes in moves by one step of rounding; relative L2.
        steps: Of values on one grid that are not the same.
    """

    values: dict[str, ValuePair] = field(default_factory=dict)
    moves: dict[str, float] = field(default_factory=dict)
    steps: dict[str, Steps] = field(default_factory=dict)


def held_against(
    a: Running,
    b: Running,
    pairs: Mapping[str, Pair],
    seen_a: Mapping[str, Seen],
    seen_b: Mapping[str, Seen],
    moved: Mapping[str, Seen],
) -> Compared:
    """Measures the difference of every pair, and how much rounding explains.

    Args:
        a: The base.
        b: What is held against it.
        pairs: By the name in A.
        seen_a: Values of A.
        seen_b: Values of B.
        moved: Those of A with inputs and small weights one step away.
    """
    makers = {str(v.name): node for node in a.nodes for v in node.outputs}
    scales = grids(a.graph), grids(b.graph)
    behind = behind_grids(a.graph.graph)
    compared = Compared()
    for name, pair in pairs.items():
        mine, theirs, node = seen_a[name], seen_b[pair.b], makers[name]
        alike_in_shape = mine.shape == theirs.shape or pair.sorted
        grid, grid_b = scales[0].get(name), scales[1].get(pair.b)
        # ONNX Runtime makes uint8 of int8: the same values, with another integer for zero.
        zero, zero_b = zero_of(grid, mine.onnx_type), zero_of(grid_b, theirs.onnx_type)
        distance = FARTHEST
        if alike_in_shape:
            distance = relative_l2(mine, theirs, any_order=pair.sorted, zero=zero, zero_b=zero_b)
        if name in moved and moved[name].shape == mine.shape:
            compared.moves[name] = relative_l2(mine, moved[name], zero=zero)
        own = compared.moves.get(name, 0.0)
        limit = max(precision(mine, theirs), _explained(own, behind_grid=name in behind))
        equal = distance <= limit or (alike_in_shape and _zeros_that_move(mine, theirs, moved.get(name)))
        steps: GridSteps | None = None
        worst: SliceError | None = None
        if mine.shape == theirs.shape and distance > 0.0 and not pair.sorted:
            apart = _steps(mine, theirs, grid, grid_b)
            if apart is not None:
                equal = _rounded(apart, 1)
                compared.steps[name] = apart
                steps = GridSteps(
                    scale=step_of(grid) or 1.0,
                    most=round(apart.most),
                    share=apart.share,
                    same=round(apart.most) <= 1,
                )
            elif family(mine.onnx_type) == "float":
                worst = _worst_slice(mine, theirs)
                equal = equal and (worst is None or worst.relative_l2 <= max(SHOWN, OWN_MOVES * own))
            elif not equal:
                equal = differing_share(mine, theirs) <= DIFFERING_SHARE  # one that was rounded the other way
        compared.values[name] = ValuePair(
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
            steps=steps,
            slice=worst,
            shape_b=None if alike_in_shape else theirs.shape,
        )
    return compared


def _explained(own: float, *, behind_grid: bool) -> float:
    """Relative L2 that rounding explains of a value that moves so far by itself.

    It is never so far that nothing could be found: what moves far by itself is given three times as much.
    """
    if own >= FARTHEST:
        return 0.0  # of zeros, which have no measure of their own
    most = max(MOST_MOVES, rounding.FORGIVEN * own)
    return min((GRID_MOVES if behind_grid else OWN_MOVES) * own, most)


def _zeros_that_move(mine: Seen, theirs: Seen, moved: Seen | None) -> bool:
    """Whether nothing but zeros became as much as they do where what goes in is rounded otherwise."""
    if moved is None or mine.figures[0] or theirs.n_nan + theirs.n_inf:
        return False
    return theirs.figures[0] <= OWN_MOVES * moved.figures[0]


def _steps(mine: Seen, theirs: Seen, grid: Grid | None, other: Grid | None) -> Steps | None:
    """The difference in steps, where both lie on one grid."""
    step = step_of(grid)
    moved = zero_of(grid, mine.onnx_type) - zero_of(other, theirs.onnx_type)
    integers = mine.onnx_type in INTEGERS and theirs.onnx_type in INTEGERS
    if not (integers and mine.onnx_type == theirs.onnx_type) and (step is None or step != step_of(other)):
        return None
    return in_steps(mine, theirs, 1.0 if integers or step is None else step, moved)


def _rounded(steps: Steps, quantizations: int) -> bool:
    """Whether rounding explains so many steps behind so many quantizations."""
    limit = STEPS_ONCE + STEPS_EACH * max(1, quantizations)
    return steps.typical <= limit and steps.worst <= WORST_STEPS * limit


def _worst_slice(mine: Seen, theirs: Seen) -> SliceError | None:
    worst = worst_slice(mine, theirs)
    if worst is None:
        return None
    return SliceError(
        axis=worst.axis,
        first=worst.index,
        last=worst.index,
        relative_l2=min(worst.relative_l2, FARTHEST),
    )


def _whole(pair: ValuePair) -> float:
    return FARTHEST if pair.relative_l2 is None else pair.relative_l2


def _worst(pair: ValuePair) -> float:
    """Of all of a value, or of its worst slice where that shows."""
    worst = 0.0 if pair.slice is None else pair.slice.relative_l2
    return max(_whole(pair), worst if worst >= SHOWN else 0.0)


def partings(
    a: Running,
    b: Running,
    compared: Compared,
    seen_a: Mapping[str, Seen],
    seen_b: Mapping[str, Seen],
) -> tuple[Parting, ...]:
    """Finds every place where values diverge, in the order of A's nodes."""
    values = compared.values
    by_b = {pair.b: pair for pair in values.values()}
    makers = {str(v.name): node for node in b.nodes for v in node.outputs}
    places = [{node: i for i, node in enumerate(side.graph.graph)} for side in (a, b)]
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
        # A difference that the inputs explain came from upstream; only what grows here is a place of its own.
        goes_in = tuple(inputs.values())
        several = max(map(_quantizations, ([node, *before], [theirs, *before_b])))
        if not _parts(pair, node, goes_in, compared, faulty=bool(weights), quantizations=several):
            continue
        if _heals([v for v in node.outputs if str(v.name) == pair.a], values):
            continue  # a step on another way to the same values
        after, before_it = _worst(pair), max(map(_worst, goes_in), default=0.0)
        ours = sorted({node, *before}, key=places[0].__getitem__)
        others = sorted({theirs, *before_b}, key=places[1].__getitem__)
        alone = len(ours) == len(others) == 1
        if not alone:
            ours, others = _narrowed(ours, others, pair, goes_in, seen_a, seen_b)
        places_apart.append(
            Parting(
                value=pair,
                a=tuple(described(node, a) for node in ours),
                b=tuple(described(node, b) for node in others),
                at=_at(ours, others, a, b),
                at_b=described(max(others, key=_work), b) if others else None,
                inputs=goes_in,
                changes=tuple(_changes(node, theirs)) if alone else (),
                before=None if before_it >= FARTHEST else before_it,
                after=None if after >= FARTHEST else after,
                weights=weights,
            )
        )
    return tuple(places_apart)


def _parts(
    pair: ValuePair,
    node: ir.Node,
    inputs: Sequence[ValuePair],
    compared: Compared,
    *,
    faulty: bool,
    quantizations: int,
) -> bool:
    """Whether what comes out is farther apart than what goes in explains.

    Where what goes in is equal, it is by eight times. Where it is not, a difference that was there before grows, or is
    rounded to the next step: then it is a break only if it shows, and no value of the same place grows so by itself
    when what goes in is moved by one step of rounding. Less is enough where a weight is at fault.
    """
    steps = compared.steps.get(pair.a)
    if steps is not None and _rounded(steps, quantizations):
        return False
    moves = compared.moves
    equal, whole = all(p.equal for p in inputs), max(map(_whole, inputs), default=0.0)
    if pair.shape_b is not None:
        return equal
    moved_in = max((moves.get(p.a, 0.0) for p in inputs), default=0.0)
    own = max(1.0, moves.get(pair.a, 0.0) / moved_in) if moved_in else 1.0
    if equal:
        return _worst(pair) > max(GROWTH, BREAK * own) * whole
    rounded = family(pair.onnx_type) != "float" and pair.steps is None
    if node.op_type in _JUMPING or rounded:
        return False
    # Beyond 1 nothing is left of a value, so no growth is told from there.
    after = min(_whole(pair), 1.0)
    before = FAULTY_BREAK * whole if faulty else BREAK * own * max(map(_worst, inputs), default=0.0)
    return after > max(SHOWN, before)


def _quantizations(nodes: Sequence[ir.Node]) -> int:
    """How many of these nodes round to a grid."""
    return sum(map(quantizes, nodes))


def ordered(places: Sequence[Parting]) -> tuple[tuple[Parting, ...], Parting | None]:
    """The places with the decisive one in front, and the first of them where it is another one.

    It is the first that is nearly as far apart as the farthest; of these one with a weight at fault, if there is one.
    """
    if not places:
        return (), None

    def size(place: Parting) -> float:
        return 1.0 if place.after is None else min(1.0, place.after)

    farthest = max(map(size, places))
    large = [place for place in places if size(place) >= DECISIVE_SHARE * farthest]
    decisive = next((place for place in large if place.weights), large[0])
    rest = tuple(place for place in places if place is not decisive)
    return (decisive, *rest), (places[0] if decisive is not places[0] else None)


def stepped(a: Running, b: Running, compared: Compared) -> GridDifference | None:
    """From which node on values on one grid are a step or more apart, and how much of them at most."""
    values = compared.values
    apart = [pair for pair in values.values() if pair.steps is not None and pair.steps.most]
    if not apart:
        return None
    node = next(node for node in a.nodes for value in node.outputs if str(value.name) == apart[0].a)
    _, before = paired_before(node.inputs, set(values) - _carried(node, values))
    steps = max((pair.steps for pair in apart if pair.steps), key=lambda steps: (steps.most, steps.share))
    ours = sorted({node, *before}, key=list(a.graph.graph).index)
    return GridDifference(node=_at(ours, [], a, b), steps=steps)


def _carried(node: ir.Node, values: Mapping[str, ValuePair]) -> set[str]:
    """The values that are only carried on to a node that quantizes: what computes them is the place."""
    if node.op_type not in CARRIERS:
        return set()
    return {str(value.name) for value in node.inputs[:1] if value is not None}


def _weights(ours: Sequence[ir.Node], others: Sequence[ir.Node]) -> tuple[WeightFault, ...]:
    """The weights that are at fault on one side and not on the other."""
    mine, theirs = tuple(faults(ours, "A")), tuple(faults(others, "B"))

    def what(fault: WeightFault) -> tuple[str, int, int]:
        return fault.kind, fault.n, fault.size

    both = {what(fault) for fault in mine} & {what(fault) for fault in theirs}
    return tuple(fault for fault in (*mine, *theirs) if what(fault) not in both)


def _at(ours: Sequence[ir.Node], others: Sequence[ir.Node], a: Running, b: Running) -> GraphNode:
    """The node that a reader looks for: A's own that does the work, or B's where A has none."""
    if not ours:
        return described(max(others, key=_work), b)
    behind = b.names.get(max(others, key=_work).name or "", ()) if others else ()
    own = {node.name: node for node in ours}
    own_node = next((own[name] for name in behind[:1] if name in own), None)
    return described(own_node or max(ours, key=_work), a)


def _work(node: ir.Node) -> int:
    """How much of the work of its neighbourhood a node does, by its kind: products, what is computed, what is moved."""
    if node.op_type in CARRIERS:
        return 0
    return 2 if any(kind in node.op_type for kind in _PRODUCTS) else 1


def _heals(results: Sequence[ir.Value], values: Mapping[str, ValuePair]) -> bool:
    """Whether all that is next made of a value is equal: the two get there on different ways."""
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
    apart = _worst(pair)
    behind = _behind(others, seen_b, seen_a[pair.a], pair.limit)
    behind = behind or _spoiling(others, seen_b, [(seen_a[p.a], p.limit) for p in inputs], apart)
    if behind:
        return [], behind
    behind = _behind(ours, seen_a, seen_b[pair.b], pair.limit)
    behind = behind or _spoiling(ours, seen_a, [(seen_b[p.b], p.limit) for p in inputs], apart)
    return (behind, []) if behind else (ours, others)


def _behind(nodes: list[ir.Node], values: Mapping[str, Seen], wanted: Seen, limit: float) -> list[ir.Node]:
    """The nodes behind the one that makes this value; none where none does."""
    for node in nodes[:-1]:
        if any(distance <= limit for distance in _distances(node, values, wanted)):
            into = {node, *paired_before(node.inputs, set())[1]}
            return [other for other in nodes if other not in into]
    return []


def _spoiling(
    nodes: list[ir.Node], values: Mapping[str, Seen], inputs: Sequence[tuple[Seen, float]], apart: float
) -> list[ir.Node]:
    """The first node, if any, that makes of an input that input again, but for an error: a conversion, say.

    The error is such that it explains how far the result is apart.
    """
    for node in nodes[:-1]:
        for wanted, limit in inputs:
            for distance in _distances(node, values, wanted):
                if limit < distance <= NEAR and apart <= GROWTH * distance:
                    return [node]
    return []


def _distances(node: ir.Node, values: Mapping[str, Seen], wanted: Seen) -> list[float]:
    results = (values.get(str(value.name)) for value in node.outputs)
    return [relative_l2(wanted, data) for data in results if data is not None and data.shape == wanted.shape]


def _differs(pair: ValuePair | None) -> bool:
    return pair is not None and not pair.equal


def _changes(a: ir.Node, b: ir.Node) -> list[NodeChange]:
    """What two nodes have that is not the same: the operator, attributes, weights."""
    changes = []
    if operator(a) != operator(b):
        changes.append(NodeChange(part="operator", was=operator(a), now=operator(b)))
    mine, theirs = (texts(node) for node in (a, b))
    for name in sorted(mine.keys() | theirs.keys()):
        was, now = mine.get(name, "")[:_LONGEST], theirs.get(name, "")[:_LONGEST]
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
