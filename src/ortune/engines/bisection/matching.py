"""Matches the values of two graphs: by structure, by name if the values agree, and by their elements.

The remaining values are matched by the operator that computes them and its matched inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

import onnx_ir as ir

from ortune.engines.bisection.keys import Keying, Keys
from ortune.engines.bisection.observing import ObservedGraph
from ortune.engines.bisection.value_statistics import ValueStatistics, may_be_equal, relative_l2
from ortune.graph.attributes import texts
from ortune.graph.constants import stored
from ortune.graph.fingerprints import COMMUTATIVE
from ortune.graph.model.graphs import op_set
from ortune.outputs.files import family
from ortune.records import MatchedBy

CARRIERS = op_set("Cast DequantizeLinear Identity QuantizeLinear")
"""Operators that convert their input to another type."""
NEAR = 1e-2
"""Relative L2 below which two values are the same except for an error; that of unrelated values is about 1.4."""
NEAR_ENOUGH = 0.2
"""Limit in place of ``NEAR`` if no other candidate is close, for example after a conversion to a coarser type."""
RIVAL = 3.0
"""Ratio of distances below which a second candidate is too close for a unique match."""
NAMED_NEAR = 0.5
"""Limit in place of ``NEAR`` for values of one name, since exporters may give a numbered name to different values."""
SORTED_NEAR = 1e-4
FIGURES_NEAR = 1e-5
FEWEST = 16
"""Number of elements below which values, such as lengths, axes and flags, are too often equal by chance."""
MOST_COMPARED = 64
"""Maximum number of candidates that are compared with one value element by element."""
MOST_ROUNDS = 32
"""Maximum number of rounds, each of which recomputes the keys after nodes that differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A value of A and its counterpart in B.

    Attributes:
        sorted: Whether the layouts differ, so that sorted elements are compared.
    """

    a: str
    b: str
    by: MatchedBy
    sorted: bool = False


def match(
    a: ObservedGraph,
    b: ObservedGraph,
    seen_a: Mapping[str, ValueStatistics],
    seen_b: Mapping[str, ValueStatistics],
    outputs: Mapping[str, str],
) -> dict[str, Pair]:
    """Return the matched values of two graphs, keyed by the name in A, in the order of A's nodes.

    Args:
        a: The base.
        b: The side compared with it.
        seen_a: Statistics of A's values, by name.
        seen_b: Statistics of B's values, by name.
        outputs: Maps each output and input name of A to the corresponding name of B.
    """
    # The most certain methods come first, since a pair is never undone: interfaces, equal computation, equal names,
    # equal elements. Then pairs are inferred from the surrounding nodes and from distances.
    matching = _Matching(seen_a, seen_b, *(_makers(side) for side in (a, b)))
    for mine, theirs in outputs.items():
        if matching.comparable(mine, theirs):
            matching.take(mine, theirs, "name")
    names = [str(v.name) for node in a.nodes for v in node.outputs if v.name in seen_a]
    # Inputs of B get A's names, or no later values would have equal keys.
    called = {theirs: mine for mine, theirs in outputs.items()}
    sides = Keying(a, {str(v.name): str(v.name) for v in a.graph.graph.inputs}), Keying(b, called)
    keys = matching.by_key(names, sides)
    for name in names:
        matching.by_equal_name(name)
    for name in names:
        matching.by_elements(name)
    keys = matching.by_key(names, sides, keys)
    joined = {mine: theirs for mine, theirs in outputs.items() if mine not in seen_a}
    # Values after a differing node have equal keys once that node is paired.
    for _ in range(MOST_ROUNDS):
        if not _by_structure(a, b, matching, joined, keys, most=1):
            break
        keys = matching.by_key(names, sides, keys)
    _by_structure(a, b, matching, joined, keys)
    roots = _carried_from(b)
    nearest = [name for name in names if matching.by_nearest(name, roots)]
    if nearest:
        _by_structure(a, b, matching, joined, keys)
    return {name: matching.pairs[name] for name in names if name in matching.pairs}


class _Matching:
    """Matches values in successive steps, and stores the pairs found so far."""

    def __init__(
        self,
        seen_a: Mapping[str, ValueStatistics],
        seen_b: Mapping[str, ValueStatistics],
        makers_a: Mapping[str, str],
        makers_b: Mapping[str, str],
    ) -> None:
        self.seen_a, self.seen_b = seen_a, seen_b
        self.makers_a, self.makers_b = makers_a, makers_b
        self.pairs: dict[str, Pair] = {}
        self.taken: set[str] = set()
        self.differing: dict[str, str] = {}  # pairs that are computed differently
        self._by_size: dict[int, list[str]] = defaultdict(list)
        for name, value in seen_b.items():
            self._by_size[value.size].append(name)

    def take(self, mine: str, theirs: str, by: MatchedBy, *, any_order: bool = False) -> None:
        """Add a pair, unless either value is matched already."""
        if mine not in self.pairs and theirs not in self.taken:
            self.pairs[mine] = Pair(a=mine, b=theirs, by=by, sorted=any_order)
            self.taken.add(theirs)

    def fits(self, mine: str, theirs: str) -> bool:
        """Return whether two values can be compared element by element."""
        a, b = self.seen_a.get(mine), self.seen_b.get(theirs)
        if a is None or b is None:
            return False
        return a.shape == b.shape and family(a.onnx_type) == family(b.onnx_type)

    def comparable(self, mine: str, theirs: str) -> bool:
        """Return whether two values have the same rank and family of types; their sizes may differ."""
        a, b = self.seen_a.get(mine), self.seen_b.get(theirs)
        if a is None or b is None:
            return False
        return len(a.shape) == len(b.shape) and family(a.onnx_type) == family(b.onnx_type)

    def by_key(
        self, names: Iterable[str], sides: tuple[Keying, Keying], keys_before: tuple[Keys, Keys] | None = None
    ) -> tuple[Keys, Keys]:
        """Match values with equal keys, preferring equal names, and return the keys of both sides.

        Args:
            names: Names of A's values in the order of its nodes.
            sides: Computes the keys of A and of B.
            keys_before: Keys of the previous round. Pairs that they do not match are treated as equal from now on.

        Returns:
            The keys of both sides.
        """
        if keys_before is not None:
            mine, others = (keys.digests for keys in keys_before)
            # A pair that is computed differently on both sides gets one common key from now on, so later values can
            # have equal keys.
            unlike = (p for p in self.pairs.values() if p.a not in mine or mine[p.a] != others.get(p.b))
            self.differing |= {pair.a: pair.b for pair in unlike}
        keys_a = sides[0].keys({mine: mine for mine in self.differing})
        keys_b = sides[1].keys({theirs: mine for mine, theirs in self.differing.items()})
        theirs: dict[str, list[str]] = defaultdict(list)
        for name in self.seen_b:
            if name in keys_b.digests and name not in self.taken:
                theirs[keys_b.digests[name]].append(name)
        for name in names:
            digest = keys_a.digests.get(name)
            free = theirs.get(digest, []) if digest is not None and name not in self.pairs else []
            fitting = [other for other in free if self.fits(name, other)]
            if fitting:
                other = name if name in fitting else fitting[0]
                self.take(name, other, "name" if name == other else "structure")
                free.remove(other)
        return keys_a, keys_b

    def by_equal_name(self, name: str, near: float = NEAR) -> None:
        """Match the values of one name if they are close, since a numbered name may denote another value in B."""
        if self.fits(name, name) and relative_l2(self.seen_a[name], self.seen_b[name]) <= near:
            self.take(name, name, "name")

    def by_elements(self, name: str) -> None:
        """Match a value with a value of B that has the same elements, regardless of name and layout."""
        mine = self.seen_a[name]
        if name in self.pairs or mine.size < FEWEST or _flat(mine):
            return
        # Statistics first, and elements only if these do not exclude a match: few of thousands of values have one
        # size and similar statistics.
        near = [
            other
            for other in self._by_size[mine.size]
            if other not in self.taken and may_be_equal(mine, self.seen_b[other], NEAR)
        ]
        distances = {other: self._distance(name, other) for other in near[:MOST_COMPARED]}
        same = {other: distance for other, distance in distances.items() if distance is not None}
        if same:
            # Views and copies have the same elements: values of the same operator are preferred, in node order.
            def less_like(other: str) -> tuple[bool, float, bool, bool]:
                made_alike = self.makers_a[name] == self.makers_b[other]
                return not self.fits(name, other), same[other], other != name, not made_alike

            best = min(same, key=less_like)
            self.take(name, best, "values", any_order=not self.fits(name, best))

    def by_nearest(self, name: str, roots: Mapping[str, str]) -> bool:
        """Match a value with the nearest value of B if no other is similarly near; return whether it was matched.

        Args:
            name: Name of the value in A.
            roots: Maps each value of B that is a type conversion to its source; both count as one candidate.
        """
        mine = self.seen_a[name]
        if name in self.pairs or mine.size < FEWEST or _flat(mine):
            return False
        distances = {
            other: relative_l2(mine, self.seen_b[other])
            for other in self._by_size[mine.size]
            if other not in self.taken
            and self.fits(name, other)
            and may_be_equal(mine, self.seen_b[other], NEAR_ENOUGH)
        }
        if not distances or len(distances) > MOST_COMPARED:
            return False
        best = min(distances, key=lambda other: distances[other])
        # Several type conversions of one value count as one rival.
        limit = min(NEAR_ENOUGH, RIVAL * distances[best])
        rivals = {roots.get(other, other) for other, distance in distances.items() if distance <= limit}
        if distances[best] > NEAR_ENOUGH or rivals != {roots.get(best, best)}:
            return False
        self.take(name, best, "values")
        return True

    def _distance(self, name: str, other: str) -> float | None:
        """Return the distance of two values; None if they are different values."""
        mine, theirs = self.seen_a[name], self.seen_b[other]
        if self.fits(name, other):
            distance = relative_l2(mine, theirs)
            return distance if distance <= NEAR else None
        if mine.whole:
            distance = relative_l2(mine, theirs, any_order=True)
            return distance if distance <= SORTED_NEAR else None
        return FIGURES_NEAR if may_be_equal(mine, theirs, FIGURES_NEAR) else None


def _makers(side: ObservedGraph) -> dict[str, str]:
    """Return the operator that computes each value, by the value's name."""
    return {str(v.name): node.op_type for node in side.nodes for v in node.outputs}


def _carried_from(side: ObservedGraph) -> dict[str, str]:
    """Return, for each value that is a type conversion, the name of its source."""
    roots: dict[str, str] = {}
    for node in side.nodes:
        if node.op_type in CARRIERS and node.inputs and node.inputs[0] is not None:
            source = str(node.inputs[0].name)
            roots[str(node.outputs[0].name)] = roots.get(source, source)
    return roots


def _flat(value: ValueStatistics) -> bool:
    """Return whether all elements are equal, in which case matching by elements is ambiguous."""
    least, largest = value.figures[3:5]
    return least == largest


def _by_structure(
    a: ObservedGraph,
    b: ObservedGraph,
    matching: _Matching,
    joined: Mapping[str, str],
    keys: tuple[Keys, Keys],
    most: int | None = None,
) -> bool:
    """Match values by matched inputs and the same operator, else by the same name, else by matched inputs alone.

    Args:
        a: The base.
        b: The side compared with it.
        matching: The pairs so far.
        joined: Maps the inputs of A to those of B.
        keys: The keys of A and of B.
        most: Number of nodes with new matches after which to stop; None for no limit.

    Returns:
        Whether any were matched.
    """
    roots_a, roots_b = _carried_from(a), _carried_from(b)
    readers: dict[str, list[ir.Node]] = defaultdict(list)
    for node in b.nodes:
        read = [str(v.name) for v in node.inputs if v is not None]
        for name in dict.fromkeys([*read, *(roots_b[name] for name in read if name in roots_b)]):
            readers[name].append(node)
    partners = {**joined, **{pair.a: pair.b for pair in matching.pairs.values()}}
    keys_a, keys_b = keys

    def counterpart(mine: ir.Value | None) -> str | None:
        """Return the counterpart in B of an input, or of the value that the input is a conversion of."""
        name = "" if mine is None else str(mine.name)
        return partners.get(name) or partners.get(roots_a.get(name, ""))

    def same_input(mine: ir.Value | None, theirs: ir.Value | None) -> bool:
        # An optional input that is a constant on one side only.
        if mine is None:
            return theirs is None or _is_stored(theirs, keys_b)
        if theirs is None:
            return _is_stored(mine, keys_a)
        other = counterpart(mine)
        if other is not None:
            return other in (theirs.name, roots_b.get(str(theirs.name)))
        return _is_stored(mine, keys_a) and _is_stored(theirs, keys_b)

    def same_inputs(node: ir.Node, other: ir.Node) -> bool:
        pairs = zip_longest(node.inputs, other.inputs)
        if all(same_input(mine, theirs) for mine, theirs in pairs):
            return True
        swapped = len(node.inputs) == 2 and other.op_type == node.op_type in COMMUTATIVE
        return swapped and all(map(same_input, node.inputs, reversed(other.inputs)))

    def unlike(node: ir.Node, other: ir.Node) -> tuple[int, int, int]:
        """Return the numbers of results, stored inputs and attributes in which two nodes differ."""
        outputs = zip(node.outputs, other.outputs, strict=False)
        stored = zip(node.inputs, other.inputs, strict=False)
        return (
            sum(not matching.fits(str(mine.name), str(theirs.name)) for mine, theirs in outputs),
            sum(keys_a.stored(mine) != keys_b.stored(theirs) for mine, theirs in stored),
            len(texts(node).items() ^ texts(other).items()),
        )

    def partner(node: ir.Node, *, same: bool) -> ir.Node | None:
        """Return the most similar unmatched node of B with matching inputs; with ``same``, of the same operator."""
        # Only readers of one counterpart are considered, so a pass takes time proportional to the number of edges.
        starts = [name for v in node.inputs if (name := counterpart(v)) is not None]
        fitting = []
        for other in readers[starts[0]] if starts else ():
            alike_ones = (other.op_type, other.domain) == (node.op_type, node.domain)
            if (len(other.inputs) != len(node.inputs) and not alike_ones) or (same and not alike_ones):
                continue
            free = any(str(v.name) not in matching.taken for v in other.outputs)
            if free and same_inputs(node, other):
                fitting.append(other)
        return (
            min(fitting, key=lambda other: unlike(node, other))
            if len(fitting) > 1
            else next(iter(fitting), None)
        )

    def join(node: ir.Node, other: ir.Node | None, *, same: bool) -> None:
        fitting = matching.comparable if same else matching.fits
        for mine, theirs in zip(node.outputs, other.outputs if other else (), strict=False):
            if fitting(str(mine.name), str(theirs.name)):
                matching.take(str(mine.name), str(theirs.name), "structure")

    count = 0
    for node in a.nodes:
        names = [str(v.name) for v in node.outputs if v.name in matching.seen_a]
        was = len(matching.pairs)
        if any(name not in matching.pairs for name in names):
            # The same operator first, then the same name, and any operator last, for nodes that another operator
            # replaced.
            join(node, partner(node, same=True), same=True)
            for name in names:
                matching.by_equal_name(name, NAMED_NEAR)
            join(node, partner(node, same=False), same=False)
        # A new pair is used for later nodes in the same pass.
        partners |= {name: matching.pairs[name].b for name in names if name in matching.pairs}
        count += len(matching.pairs) > was
        if count == most:
            break
    return count > 0


def _is_stored(value: ir.Value, keys: Keys | None = None) -> bool:
    """Return whether a value is stored in the file, or computed only from stored values, which ``keys`` lists."""
    if keys is not None and str(value.name) in keys.fixed:
        return True
    return stored(value) is not None


def paired_before(values: Iterable[ir.Value | None], paired: set[str]) -> tuple[set[str], list[ir.Node]]:
    """Return the names of the nearest paired values upstream, and the nodes between them and these values."""
    reached: set[str] = set()
    between: list[ir.Node] = []
    waiting, visited = [v for v in values if v is not None], set[ir.Value]()
    while waiting:
        value = waiting.pop()
        if value in visited:
            continue
        visited.add(value)
        if str(value.name) in paired:
            reached.add(str(value.name))
            continue
        producer = value.producer()
        if producer is not None and not _is_stored(value):
            if producer not in between:
                between.append(producer)
            waiting += [v for v in producer.inputs if v is not None]
    return reached, between
