"""Grouping of findings by repeated blocks: equal layers or steps have one finding, with the nodes of one block.

A rule names every node that it finds, which for twelve equal layers is twelve times the same. Here they become the
nodes of the first block and the number of blocks, and equal findings on single blocks become one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import onnx_ir as ir

from ortune.graph.model.graphs import name_of, nodes
from ortune.graph.regions import regions
from ortune.records import Finding, InBlocks
from ortune.rules._words import listed

_NAME = re.compile(r"[^\s'(),;]+")
"""A word of a sentence that may be a node's name."""
LEAST_BLOCKS = 3
"""Minimum number of blocks to group; for fewer blocks, the full list of names is as short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Position of a node or weight in repeated blocks.

    Attributes:
        region: Index of the region of repeated blocks; ``copies`` is the number of blocks in the region.
        block: Index of the block in the region.
        position: (index of the node in the block, index of the node's input for a weight or -1 for the node itself).
    """

    region: int
    copies: int
    block: int
    position: tuple[int, int]


def may_repeat(findings: Sequence[Finding], own: Collection[str]) -> bool:
    """Return whether any rule's findings name enough nodes to be about repeated blocks."""
    named = Counter[str]()
    for finding in findings:
        if finding.code not in own:
            named[finding.code] += len(finding.where)
    return any(n >= LEAST_BLOCKS for n in named.values())


def by_blocks(findings: Sequence[Finding], model: ir.Model, own: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings; findings on repeated blocks are merged and name the nodes of one block.

    Args:
        findings: Findings of all rules.
        model: The model.
        own: Codes of rules that themselves report how often their nodes repeat.
    """
    places = _places(model)
    if not places:
        return tuple(findings)
    return tuple(
        finding if finding.code in own else _worded_by_blocks(finding, places)
        for finding in _joined(findings, places)
    )


def _places(model: ir.Model) -> dict[str, _Place]:
    """Map the names of nodes in repeated blocks, and of weights that only one block reads, to their positions."""
    by_name: dict[str, ir.Node | None] = {}
    for node in nodes(model):
        name = name_of(node)
        by_name[name] = None if name in by_name else node
    places: dict[str, _Place] = {}
    shared = set[str]()
    for number, region in enumerate(regions(model)):
        for at, name in enumerate(region.nodes):
            block, position = divmod(at, region.n_nodes)
            named = by_name.get(name)
            if named is None:
                continue
            place = _Place(region=number, copies=region.copies, block=block, position=(position, -1))
            places[name] = place
            for i, value in enumerate(named.inputs):
                weight = value.name if value is not None and value.is_initializer() else ""
                if weight and weight not in by_name:
                    other = places.get(weight)
                    if other is not None and (other.region, other.block) != (number, block):
                        shared.add(weight)
                    places.setdefault(
                        weight,
                        _Place(region=number, copies=region.copies, block=block, position=(position, i)),
                    )
    return {name: place for name, place in places.items() if name not in shared}


def _joined(findings: Sequence[Finding], places: Mapping[str, _Place]) -> list[Finding]:
    """Merge findings of the same rule that are equal except for the block."""
    alike: defaultdict[tuple[object, ...], list[Finding]] = defaultdict(list)
    first_block = {(p.region, p.position): name for name, p in places.items() if p.block == 0}
    names = {name: first_block.get((p.region, p.position), name) for name, p in places.items()}
    for number, finding in enumerate(findings):
        mine = [places[name] for name in finding.where if name in places]
        key: tuple[object, ...] = (number,)
        if mine and len(mine) == len(finding.where) and len({(p.region, p.block) for p in mine}) == 1:
            plan = finding.plan.id if finding.plan else ""
            said = [_translated(text, names) for text in (finding.what, finding.evidence, finding.fix)]
            at = tuple(place.position for place in mine)
            key = (finding.code, finding.severity, plan, *said, mine[0].region, at)
        alike[key].append(finding)
    return [_sum(some) for some in alike.values()]


def _translated(text: str, names: Mapping[str, str]) -> str:
    """Replace names in a sentence according to ``names``, which maps a block's names to those of the first block."""
    # Match whole names: /l1/Erf must not be replaced in /l11/Erf.
    return _NAME.sub(lambda word: names.get(word[0], word[0]), text)


def _sum(findings: Sequence[Finding]) -> Finding:
    """Return the first finding with the locations of all findings and the sum of their fractions, if all are known."""
    first = findings[0]
    if len(findings) == 1:
        return first
    where = tuple(name for finding in findings for name in finding.where)
    shares = [finding.share_ratio for finding in findings if finding.share_ratio is not None]
    share = sum(shares) if len(shares) == len(findings) else None
    return msgspec.structs.replace(first, where=where, share_ratio=share)


def _worded_by_blocks(finding: Finding, places: Mapping[str, _Place]) -> Finding:
    """Return the finding with nodes named per block, or unchanged if it names nodes in too few blocks."""
    regions_named: defaultdict[int, defaultdict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name in dict.fromkeys(finding.where):
        if name in places:
            regions_named[places[name].region][places[name].block].append(name)
    blocks, named = list[InBlocks](), set[str]()
    for number in sorted(regions_named):
        alike = _equal_positions(regions_named[number], places)
        copies = places[alike[0][0]].copies
        # Names in less than half of the blocks are exceptions, so they are listed.
        if len(alike) >= max(LEAST_BLOCKS, copies / 2):
            blocks.append(InBlocks(blocks=len(alike), copies=copies, nodes=tuple(alike[0])))
            named.update(name for names in alike for name in names)
    if not blocks:
        return finding
    what, all_names = finding.what, listed(finding.where)
    names_all = all_names in what
    # A sentence that names the first nodes itself is not followed by their names.
    said = set() if names_all else {*_NAME.findall(what)}
    rest = [name for name in finding.where if name not in named and name not in said]
    text = "; ".join([*map(_words, blocks), *([listed(rest)] if rest else [])])
    what = what.replace(all_names, text) if names_all else f"{what}; {text}"
    return msgspec.structs.replace(finding, what=what, blocks=tuple(blocks))


def _equal_positions(blocks: Mapping[int, list[str]], places: Mapping[str, _Place]) -> list[list[str]]:
    """Return lists of names, one per block, for the largest set of blocks in which the same positions are named."""
    kinds: defaultdict[tuple[tuple[int, int], ...], list[list[str]]] = defaultdict(list)
    for number in sorted(blocks):
        names = sorted(blocks[number], key=lambda name: places[name].position)
        kinds[tuple(places[name].position for name in names)].append(names)
    return max(kinds.values(), key=len)


def _words(blocks: InBlocks) -> str:
    """Format the names of one block and the number of blocks: "/l0/Erf in each of 12 repeated blocks"."""
    n = blocks.blocks
    of = f"each of {n}" if n == blocks.copies else f"{n} of {blocks.copies}"
    return f"{listed(blocks.nodes)} in {of} repeated blocks"
