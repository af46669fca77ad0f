"""Comparison of a model's graphs at ONNX Runtime's optimization levels: nodes fused, replaced, removed and added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Lookup

import onnx_ir as ir

from ortune.graph.mapping import Mapping, originals
from ortune.graph.mapping.model_view import ModelView
from ortune.graph.model.graphs import nodes
from ortune.graph.model.operators import dotted
from ortune.records import LevelChange, LevelComparison, LevelGraph, LevelInsertion

LEVELS = {"none": "disable", "basic": "basic", "extended": "extended", "all": "all"}
"""Maps the name of an optimization level on the command line to the name in the tool process."""


def compare_levels(source: ir.Model, saved: Lookup[str, ir.Model]) -> LevelComparison:
    """Compare a model with its graphs at several optimization levels.

    Args:
        source: The original model.
        saved: The optimized model for each level, least optimized first.
    """
    mappings = {level: originals(source, model) for level, model in saved.items()}
    steps = ModelView(source).steps
    operators = {step.name: dotted(step.domain, step.op_type) for step in steps}
    groups = _groups(operators, mappings.values())
    standing = {level: _operators_of_groups(mappings[level], saved[level], groups) for level in saved}
    places: dict[tuple[object, ...], list[tuple[str, ...]]] = {}
    changes: dict[tuple[object, ...], LevelChange] = {}
    n_unchanged = 0
    for group in dict.fromkeys(groups.values()):
        kinds = tuple(operators[name] for name in group)
        at = {level: tuple(standing[level].get(group, ())) for level in saved}
        if all(present == kinds for present in at.values()):
            n_unchanged += len(group)
            continue
        why = {level: text for level in saved if (text := _reasons(mappings[level], group))}
        key = (kinds, *at.items(), *why.items())
        places.setdefault(key, []).append(group)
        changes[key] = LevelChange(operators=kinds, nodes=tuple(places[key]), at=at, why=why)
    return LevelComparison(
        graphs=tuple(_graph(level, model) for level, model in saved.items()),
        changes=tuple(sorted(changes.values(), key=lambda change: -len(change.nodes))),
        insertions=tuple(_insertions(mappings)),
        n_unchanged=n_unchanged,
    )


def _groups(names: Iterable[str], mappings: Iterable[Mapping]) -> dict[str, tuple[str, ...]]:
    """Map each source node's name to all node names, its own included, that some level merges into one node."""
    # Union-find: nodes that some level merges have the same root.
    root = {name: name for name in names}

    def top(name: str) -> str:
        while root[name] != name:
            root[name] = root[root[name]]
            name = root[name]
        return name

    for mapping in mappings:
        shared = Counter(name for behind in mapping.originals.values() for name in behind)
        for behind in mapping.originals.values():
            # A node that several optimized nodes repeat is skipped, since it would merge all of them.
            own = [name for name in behind if name in root and shared[name] == 1]
            for name in own[1:]:
                root[top(name)] = top(own[0])
    members: dict[str, list[str]] = {}
    for name in root:
        members.setdefault(top(name), []).append(name)
    return {name: group for group in map(tuple, members.values()) for name in group}


def _operators_of_groups(
    mapping: Mapping, model: ir.Model, groups: Lookup[str, tuple[str, ...]]
) -> dict[tuple[str, ...], list[str]]:
    """Return the operators that implement each group at a level, in graph order."""
    present: dict[tuple[str, ...], list[str]] = {}
    for step in ModelView(model).steps:
        behind = mapping.originals.get(mapping.keys.get(step.name, step.name), ())
        group = next((groups[name] for name in behind if name in groups), None)
        if group is not None:
            present.setdefault(group, []).append(dotted(step.domain, step.op_type))
    return present


def _reasons(mapping: Mapping, group: Sequence[str]) -> str:
    """Return the reasons why nodes of a group have no counterpart at a level, joined by "; "."""
    return "; ".join(dict.fromkeys(mapping.why[name] for name in group if name in mapping.why))


def _insertions(mappings: Lookup[str, Mapping]) -> Iterator[LevelInsertion]:
    for level, mapping in mappings.items():
        purposes: dict[str, list[str]] = {}
        for name, purpose in mapping.inserted.items():
            purposes.setdefault(mapping.operators[name], []).append(purpose)
        for operator, texts in sorted(purposes.items(), key=lambda item: -len(item[1])):
            yield LevelInsertion(level=level, operator=operator, purposes=tuple(texts))


def _graph(level: str, model: ir.Model) -> LevelGraph:
    counts = Counter(dotted(n.domain, n.op_type) for n in nodes(model))
    return LevelGraph(level=level, n_nodes=counts.total(), operators=dict(counts.most_common()))
