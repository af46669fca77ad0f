"""Stable names of nodes across processes, since ONNX Runtime generates some names anew in each process.

Nodes that the optimizer inserts or copies get a number to make their names unique, ``ReorderInput_token_159``; the
number, and which node gets none, differ between processes. Such nodes are identified by time: they run after the
producers of their inputs and before the readers of their outputs. If the graph is unknown, their order is used, which
is the same in each process unless the graph has branches or runs in parallel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ortune.trace.table import NO_PARENT, Trace
from ortune.trace.tensors import Tensor, tensors

_TOKEN = re.compile(r"_token_\d+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSurroundings:
    """A main-graph node with an unstable name, described by its surroundings.

    Attributes:
        kind: (name without the number, operator).
        before, after: Nearest predecessors and successors with stable names.
        reads, feeds: Direct neighbours with stable names.
    """

    kind: tuple[str, str]
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    feeds: tuple[str, ...] = ()


def stem(name: str) -> str:
    """Return a name without the number that makes it unique."""
    return _TOKEN.sub("", name)


def is_numbered(name: str) -> bool:
    """Return whether a name carries a number that makes it unique."""
    return _TOKEN.search(name) is not None


def numbered_kinds(nodes: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return (name without number, operator) for every kind of node of which at least one has a number."""
    return frozenset((stem(name), op_type) for name, op_type in nodes if is_numbered(name))


def assigned(trace: Trace, places: Sequence[NodeSurroundings]) -> dict[str, int]:
    """Map numbered nodes of one process to indices of ``places``; nodes that fit no place are omitted.

    Among the places that fit when a node begins, the one with the earliest deadline is chosen, which finds an
    assignment if there is one.
    """
    ran = _Ran(trace)
    waiting: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for number, place in enumerate(places):
        begin = max((ran.end[name] for name in place.before if name in ran.end), default=-np.inf)
        end = min((ran.start[name] for name in place.after if name in ran.start), default=np.inf)
        waiting.setdefault(place.kind, []).append((end, begin, number))
    place_of: dict[str, int] = {}
    for row in in_order(trace, main_graph=True):
        name = trace.name.texts[row]
        fitting = [
            item
            for item in waiting.get((stem(name), trace.nodes.op_type[row]), ())
            # Times are truncated to clock steps: consecutive nodes may appear to overlap by one.
            if item[1] - trace.resolution_ns <= ran.start[name] <= item[0] + trace.resolution_ns
            and ran.fits(name, places[item[2]])
        ]
        if fitting:
            taken = min(fitting)
            waiting[(stem(name), trace.nodes.op_type[row])].remove(taken)
            place_of[name] = taken[2]
    return place_of


def stable_names(traces: Sequence[Trace], places: Sequence[NodeSurroundings] = ()) -> list[list[Hashable]]:
    """Return a key for each node of each trace; the same node has equal keys in all traces.

    Returns:
        For each trace, one key per text of ``Trace.name``.
    """
    if not traces:
        return []
    logged = [pair for t in traces for pair in zip(t.name.texts, t.nodes.op_type, strict=True)]
    kinds = numbered_kinds(logged)
    common = set.intersection(*(set(trace.name.texts) for trace in traces))
    shared = {name for t in traces for name, n in Counter(t.name.texts).items() if n > 1}
    return [_keys(trace, assigned(trace, places), kinds, common, shared) for trace in traces]


def in_order(trace: Trace, *, main_graph: bool = False) -> list[int]:
    """Return the nodes, as indices into ``Trace.name.texts``, in the order of their first execution."""
    first = np.full(len(trace.name.texts), np.iinfo(np.int64).max)
    rows = np.flatnonzero(trace.parent == NO_PARENT) if main_graph else slice(None)
    np.minimum.at(first, trace.name.codes[rows], trace.start_ns[rows])
    order = np.argsort(first, kind="stable")
    return [int(number) for number in order if first[number] < np.iinfo(np.int64).max]


class _Ran:
    """First execution (start and end) and tensors of each main-graph node."""

    def __init__(self, trace: Trace) -> None:
        rows = np.flatnonzero(trace.parent == NO_PARENT)
        # In reverse order of starts: of equal keys, a dictionary keeps the last, which is the earliest.
        order = rows[np.argsort(-trace.start_ns[rows], kind="stable")]
        names = [trace.name.texts[code] for code in trace.name.codes[order].tolist()]
        # The earliest comes last and stays.
        self.start = dict(zip(names, trace.start_ns[order].tolist(), strict=True))
        ends = (trace.start_ns[order] + trace.duration_ns[order]).tolist()
        self.end = dict(zip(names, ends, strict=True))
        self._number = {text: number for number, text in enumerate(trace.name.texts)}
        self._nodes = trace.nodes

    def fits(self, name: str, place: NodeSurroundings) -> bool:
        """Return whether a node's known input and output tensors match those known of the place's neighbours."""
        read, wrote = self._tensors_of(name, self._nodes.inputs), self._tensors_of(name, self._nodes.outputs)
        return all(
            self._share(read, self._tensors_of(other, self._nodes.outputs)) for other in place.reads
        ) and all(self._share(wrote, self._tensors_of(other, self._nodes.inputs)) for other in place.feeds)

    def _tensors_of(self, name: str, texts: tuple[str, ...]) -> list[Tensor] | None:
        number = self._number.get(name)
        return tensors(texts[number]) if number is not None else None

    def _share(self, one: list[Tensor] | None, other: list[Tensor] | None) -> bool:
        return one is None or other is None or bool(set(one).intersection(other))


def _keys(
    trace: Trace,
    places: dict[str, int],
    kinds: frozenset[tuple[str, str]],
    common: set[str],
    shared: set[str],
) -> list[Hashable]:
    keys: list[Hashable] = [node if node[0] in shared else node[0] for node in trace.node_keys]
    counts: Counter[tuple[str, str]] = Counter()
    for number in in_order(trace):
        name, op_type = trace.name.texts[number], trace.nodes.op_type[number]
        if name in places:
            keys[number] = ("place", places[name])
            continue
        kind = (stem(name), op_type)
        if kind not in kinds:
            if name in common:
                continue
            kind = ("", op_type)
        keys[number] = (*kind, counts[kind])
        counts[kind] += 1
    return keys
