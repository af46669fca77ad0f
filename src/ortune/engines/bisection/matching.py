"""Matches the values of two graphs: by structure, by name if the values agree, and by their elements.

The remaining values are matched by the operator that computes them and its matched inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import zip_longest

import onnx_ir as ir

from ortune.engines.bisection.keys import Keying, Keys
from ortune.engines.bisection.observing import ObservedGraph
from ortune.engines.bisection.value_pairs import NAMED_NEAR, Matching, Pair
from ortune.engines.bisection.value_statistics import ValueStatistics
from ortune.graph.attributes import texts
from ortune.graph.constants import stored
from ortune.graph.fingerprints import COMMUTATIVE
from ortune.graph.model.graphs import op_set

CARRIERS = op_set("Cast DequantizeLinear Identity QuantizeLinear")
"""Operators that convert their input to another type."""
MOST_ROUNDS = 32
"""Maximum number of rounds, each of which recomputes the keys after nodes that differ."""


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
    matching = Matching(seen_a, seen_b, *(_makers(side) for side in (a, b)))
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
    structure = _Structure(a, b, matching, joined)
    # Values after a differing node have equal keys once that node is paired.
    for _ in range(MOST_ROUNDS):
        if not structure.match(keys, most=1):
            break
        keys = matching.by_key(names, sides, keys)
    structure.match(keys)
    nearest = [name for name in names if matching.by_nearest(name, structure.roots_b)]
    if nearest:
        structure.match(keys)
    return {name: matching.pairs[name] for name in names if name in matching.pairs}


class _Structure:
    """Matches values by their nodes: by matched inputs and the same operator, the same name, or matched inputs alone.

    Args:
        a: The base.
        b: The side compared with it.
        matching: The pairs so far, to which new pairs are added.
        joined: Maps the inputs of A to those of B.
    """

    def __init__(
        self, a: ObservedGraph, b: ObservedGraph, matching: Matching, joined: Mapping[str, str]
    ) -> None:
        self._a, self._matching, self._joined = a, matching, joined
        self._roots_a, self.roots_b = _carried_from(a), _carried_from(b)
        self._readers: dict[str, list[ir.Node]] = defaultdict(list)
        for node in b.nodes:
            read = [str(v.name) for v in node.inputs if v is not None]
            for name in dict.fromkeys([*read, *(self.roots_b[n] for n in read if n in self.roots_b)]):
                self._readers[name].append(node)
        self._partners: dict[str, str] = {}
        self._keys_a = self._keys_b = Keys()

    def match(self, keys: tuple[Keys, Keys], most: int | None = None) -> bool:
        """Match further values, and return whether any were matched.

        Args:
            keys: The keys of A and of B.
            most: Number of nodes with new matches after which to stop; None for no limit.
        """
        matching, (self._keys_a, self._keys_b) = self._matching, keys
        self._partners = {**self._joined, **{pair.a: pair.b for pair in matching.pairs.values()}}
        count = 0
        for node in self._a.nodes:
            names = [str(v.name) for v in node.outputs if v.name in matching.seen_a]
            was = len(matching.pairs)
            if any(name not in matching.pairs for name in names):
                # The same operator first, then the same name, and any operator last, for nodes that another operator
                # replaced.
                self._join(node, same=True)
                for name in names:
                    matching.by_equal_name(name, NAMED_NEAR)
                self._join(node, same=False)
            # A new pair is used for later nodes in the same pass.
            self._partners |= {name: matching.pairs[name].b for name in names if name in matching.pairs}
            count += len(matching.pairs) > was
            if count == most:
                break
        return count > 0

    def _join(self, node: ir.Node, *, same: bool) -> None:
        """Match the outputs of a node with those of its partner in B."""
        other = self._partner(node, same=same)
        fitting = self._matching.comparable if same else self._matching.fits
        for mine, theirs in zip(node.outputs, other.outputs if other else (), strict=False):
            if fitting(str(mine.name), str(theirs.name)):
                self._matching.take(str(mine.name), str(theirs.name), "structure")

    def _partner(self, node: ir.Node, *, same: bool) -> ir.Node | None:
        """Return the most similar unmatched node of B with matching inputs; with ``same``, of the same operator."""
        # Only readers of one counterpart are considered, so a pass takes time proportional to the number of edges.
        starts = [name for v in node.inputs if (name := self._counterpart(v)) is not None]
        fitting = []
        for other in self._readers[starts[0]] if starts else ():
            alike_ones = (other.op_type, other.domain) == (node.op_type, node.domain)
            if (len(other.inputs) != len(node.inputs) and not alike_ones) or (same and not alike_ones):
                continue
            free = any(str(v.name) not in self._matching.taken for v in other.outputs)
            if free and self._same_inputs(node, other):
                fitting.append(other)
        return (
            min(fitting, key=lambda other: self._unlike(node, other))
            if len(fitting) > 1
            else next(iter(fitting), None)
        )

    def _counterpart(self, mine: ir.Value | None) -> str | None:
        """Return the counterpart in B of an input, or of the value that the input is a conversion of."""
        name = "" if mine is None else str(mine.name)
        return self._partners.get(name) or self._partners.get(self._roots_a.get(name, ""))

    def _same_inputs(self, node: ir.Node, other: ir.Node) -> bool:
        pairs = zip_longest(node.inputs, other.inputs)
        if all(self._same_input(mine, theirs) for mine, theirs in pairs):
            return True
        swapped = len(node.inputs) == 2 and other.op_type == node.op_type in COMMUTATIVE
        return swapped and all(map(self._same_input, node.inputs, reversed(other.inputs)))

    def _same_input(self, mine: ir.Value | None, theirs: ir.Value | None) -> bool:
        # An optional input that is a constant on one side only.
        if mine is None:
            return theirs is None or _is_stored(theirs, self._keys_b)
        if theirs is None:
            return _is_stored(mine, self._keys_a)
        other = self._counterpart(mine)
        if other is not None:
            return other in (theirs.name, self.roots_b.get(str(theirs.name)))
        return _is_stored(mine, self._keys_a) and _is_stored(theirs, self._keys_b)

    def _unlike(self, node: ir.Node, other: ir.Node) -> tuple[int, int, int]:
        """Return the numbers of results, stored inputs and attributes in which two nodes differ."""
        outputs = zip(node.outputs, other.outputs, strict=False)
        stored = zip(node.inputs, other.inputs, strict=False)
        return (
            sum(not self._matching.fits(str(mine.name), str(theirs.name)) for mine, theirs in outputs),
            sum(self._keys_a.stored(mine) != self._keys_b.stored(theirs) for mine, theirs in stored),
            len(texts(node).items() ^ texts(other).items()),
        )


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
