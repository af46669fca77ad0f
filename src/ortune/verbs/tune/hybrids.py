"""Plans that keep one end of the graph on the CPU, if a provider left CPU nodes (islands) between its own nodes.

Each island costs a copy there and back. With all that follows the islands on the CPU, or all that precedes them,
the device has one region and the graph one border. The race decides which side pays, if any.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import onnx_ir as ir

from ortune.catalogue import knobs
from ortune.catalogue.facts import HEAVY
from ortune.catalogue.named import NODE_PLACEMENT as PLACEMENT
from ortune.catalogue.providers import CPU, find, short_name
from ortune.records import Placement, Plan
from ortune.search.proposals.plans import PlanProposal
from ortune.verbs.tune import proposed_words, refused_words

PRIOR = 0.4
MOST_CHARACTERS = 8192
"""Length limit of a session configuration entry in ONNX Runtime."""

_BOUNDARIES = "/."
_RESERVED = frozenset("();=,")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Node:
    """A node of the main graph with its placement.

    Attributes:
        names: Names in the placement of the node and of nodes derived from it.
        on_cpu: Whether the node was placed on the CPU; None if the placement does not contain it.
    """

    names: tuple[str, ...]
    on_cpu: bool | None
    heavy: bool
    above: frozenset[int]


def hybrids(
    graph: ir.Graph, placement: Sequence[Placement], on: Plan, ort_version: str
) -> tuple[list[PlanProposal], tuple[str, ...]]:
    """Return plans with a single border between device and CPU, or notes if there are islands but no such plan.

    Args:
        graph: Graph of the model that ran.
        placement: Placement with node names, from the first run on the provider.
        on: The plan that ran.
        ort_version: ONNX Runtime release of the build.
    """
    nodes = _placed(graph, placement)
    islands = _islands(nodes)
    if not islands:
        return [], ()
    what = proposed_words.islands(len(islands), short_name(on.provider_names[0]))
    if old := knobs.why_too_old(PLACEMENT, ort_version):
        return [], (f"{what}: {old}",)
    provider = find(on.provider_names[0])
    if provider.compiles and provider.plugin:
        # ONNX Runtime 1.32 expects a compiling plugin provider to take the whole graph, not a part.
        return [], (f"{what}: {refused_words.UNASSIGNABLE}",)
    users: defaultdict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        for source in node.above:
            users[source].append(number)
    sides = {
        proposed_words.ALL_AFTER: _reached(islands, users),
        proposed_words.ALL_BEFORE: _reached(islands, {i: node.above for i, node in enumerate(nodes)}),
    }
    plans = []
    for side, on_cpu in sides.items():
        # Nodes that stay on the device must hold heavy work, or there is nothing to gain by keeping it.
        kept = [i for i, node in enumerate(nodes) if node.on_cpu is False and i not in on_cpu]
        moved = [i for i in on_cpu if nodes[i].on_cpu is False]
        if not moved or not any(nodes[i].heavy for i in kept):
            continue
        value = _assignment(_names(nodes, moved), _names(nodes, kept), on.provider_names[0])
        if value:
            plan = msgspec.structs.replace(on, settings={**on.settings, PLACEMENT.name: value})
            origin = proposed_words.one_border(what, side)
            plans.append(PlanProposal(plan=plan, origin=origin, prior=PRIOR))
    return plans, () if plans else (f"{what}: {refused_words.AMBIGUOUS}",)


def _placed(graph: ir.Graph, placement: Sequence[Placement]) -> list[_Node]:
    """Return the graph's nodes in order, each with its placement."""
    by_name = {name: part.provider == CPU.name for part in placement for name in part.nodes if name}
    own = {node.name or "" for node in graph}
    names_of: defaultdict[str, list[str]] = defaultdict(list)
    for name in by_name:
        # An optimiser names the nodes that it creates by the original node's name with a suffix.
        origin = name if name in own else max((o for o in own if name.startswith(o)), key=len, default="")
        names_of[origin].append(name)
    numbers: dict[ir.Node, int] = {}
    nodes: list[_Node] = []
    for node in graph:
        names = tuple(names_of[node.name]) if node.name else ()
        sources = (value.producer() for value in node.inputs if value is not None)
        nodes.append(
            _Node(
                names=names,
                on_cpu=by_name[names[0]] if names else None,
                heavy=node.op_type in HEAVY,
                above=frozenset(numbers[source] for source in sources if source in numbers),
            )
        )
        numbers[node] = len(numbers)
    return nodes


def _islands(nodes: Sequence[_Node]) -> set[int]:
    """Return the indices of CPU nodes that have device nodes both before and after them."""
    # In the order of the graph every source precedes its users, so that one pass in either direction is
    # enough.
    below_device: set[int] = set()
    for i, node in enumerate(nodes):
        if any(nodes[s].on_cpu is False or s in below_device for s in node.above):
            below_device.add(i)
    above_device: set[int] = set()
    for i in reversed(range(len(nodes))):
        if nodes[i].on_cpu is False or i in above_device:
            above_device |= nodes[i].above
    return {i for i in below_device & above_device if nodes[i].on_cpu}


def _reached(start: Iterable[int], next_: Mapping[int, Iterable[int]]) -> set[int]:
    reached, waiting = set(start), list(start)
    while waiting:
        for number in next_.get(waiting.pop(), ()):
            if number not in reached:
                reached.add(number)
                waiting.append(number)
    return reached


def _names(nodes: Sequence[_Node], numbers: Iterable[int]) -> list[str]:
    return [name for i in numbers for name in nodes[i].names]


def _assignment(moved: Sequence[str], kept: Sequence[str], device: str) -> str:
    """Return a setting that moves only the nodes `moved` to the CPU; "" if no parts of their names are unambiguous."""
    to_cpu = {_part(name, kept) for name in moved}
    # A name that is part of the longer name of a node on the device: the longer rule decides.
    to_device = {name for name in kept if any(part in name for part in to_cpu)}
    rules = dict.fromkeys(to_cpu, CPU.name) | dict.fromkeys(to_device, device)
    longest_first = sorted(rules, key=len, reverse=True)
    wanted = {**dict.fromkeys(moved, CPU.name), **dict.fromkeys(to_device, device)}
    told_apart = all(
        rules[next(part for part in longest_first if part in name)] == provider
        for name, provider in wanted.items()
    )
    if not told_apart or any(_RESERVED & set(part) or part.strip() != part for part in rules):
        return ""
    groups = [(CPU.name, sorted(to_cpu)), (device, sorted(to_device))]
    value = ";".join(f"{provider}({','.join(parts)})" for provider, parts in groups if parts)
    return value if len(value) <= MOST_CHARACTERS else ""


def _part(name: str, kept: Sequence[str]) -> str:
    """Return the shortest prefix of a name, up to a separator, that no kept name contains, or the whole name."""
    ends = [i + 1 for i, character in enumerate(name) if character in _BOUNDARIES and i]
    return next((name[:end] for end in ends if not any(name[:end] in other for other in kept)), name)
