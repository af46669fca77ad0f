"""Result type of the mapping: the original nodes of each node of an optimized graph."""

from __future__ import annotations

import re
from collections.abc import Mapping as Names
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """The nodes of an optimized graph with the original nodes that they came from.

    Names are those of a profile, without ``_kernel_time``. An unnamed node has its operator and ONNX Runtime's number
    there, ``Conv_12``, prefixed in a subgraph by the name of the enclosing node, ``If_3/Conv_12``. That number is known
    only for unchanged nodes; others are named by their position in the optimized graph, ``QLinearConv#7``, until
    ``as_logged`` has read a profile. Nodes with the same name, in several subgraphs or in both branches of an If, share
    one entry with all their originals, until a profile shows that one of the branches did not run.

    Attributes:
        originals: Original nodes that each node replaces, named as in ``model_view``: first the original with
            most of the work, then all others in model order. An original is listed for several nodes if it was
            split, or if each of these nodes repeats its work.
        inserted: Purpose of nodes without an original: "into blocked layout for /conv1/Conv".
        unmapped: Nodes with an unknown original.
        vanished: Original nodes without a counterpart, except constants.
        why: Reason why each vanished node has no counterpart.
        keys: Names of unnamed nodes, by their position in the optimized graph (``Conv#3``).
        around: Enclosing nodes of unnamed nodes in subgraphs.
        hidden: For nodes with several originals, the originals whose results stay inside the node.
        spared: For nodes with several originals, the number of reads of each original's result that fusion saves.
        merged: Originals that duplicated another original, which remains in place of both.
        operators: Operator of each node.
        shared: For unnamed nodes that share a name, the originals of each, by position.
    """

    originals: dict[str, tuple[str, ...]]
    inserted: dict[str, str] = field(default_factory=dict)
    unmapped: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    why: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    around: dict[str, str] = field(default_factory=dict)
    hidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spared: dict[str, dict[str, float]] = field(default_factory=dict)
    merged: tuple[str, ...] = ()
    operators: dict[str, str] = field(default_factory=dict)
    shared: dict[str, tuple[str, ...]] = field(default_factory=dict)


_PLACE = re.compile(r"#\d+$")
_OF_BRANCH = re.compile(r"(.*/)(then_branch/|else_branch/)[^/]+")
_OTHER = {"then_branch/": "else_branch/", "else_branch/": "then_branch/"}


def as_logged(mapping: Mapping, logged: Sequence[tuple[str, str]]) -> Mapping:
    """Return the mapping with the names that a profile gives to unnamed nodes.

    Args:
        mapping: Mapping from ``originals``.
        logged: (name, operator) of the profile's nodes in the order in which they first ran. ONNX Runtime numbers
            nodes in the order of creation but saves them in the order of execution, so that order identifies nodes.
    """
    taken = {*mapping.originals, *mapping.inserted, *mapping.unmapped}
    logged_of: dict[str, list[str]] = {}
    for name, operator in dict.fromkeys(logged):
        logged_of.setdefault(operator, []).append(name)
    together: dict[
        tuple[str, str], list[str]
    ] = {}  # unnamed nodes of each (enclosing node, operator) pair, in order
    for key in dict.fromkeys(mapping.keys.values()):
        together.setdefault((mapping.around.get(key, ""), mapping.operators[key]), []).append(key)
    renamed: dict[str, str] = {}
    for (outer, operator), keys in together.items():  # enclosing nodes come before those of their subgraphs
        path = f"{renamed.get(outer, outer)}/" if outer else ""
        open_ = [key for key in keys if _PLACE.search(key)]
        if outer in renamed:
            prefixed = {key: path + key.removeprefix(f"{outer}/") for key in keys if key not in open_}
            renamed.update(prefixed)
            taken.update(prefixed.values())
        number = re.compile(re.escape(f"{path}{operator}") + r"_\d+")
        numbered = [
            name for name in logged_of.get(operator, ()) if number.fullmatch(name) and name not in taken
        ]
        if len(numbered) == len(open_):
            renamed.update(zip(open_, numbered, strict=True))

    def new(name: str) -> str:
        return renamed.get(name, name)

    name_of = {place: new(name) for place, name in mapping.keys.items()}
    originals = {new(name): steps for name, steps in mapping.originals.items()}
    operators = {new(name): operator for name, operator in mapping.operators.items()}
    idle = _idle(name_of, {name for name, _ in logged})
    for name in dict.fromkeys(name_of[place] for place in mapping.shared if place in idle):
        places = [place for place in mapping.shared if name_of[place] == name]
        ran = [place for place in places if place not in idle]
        if ran:
            originals[name] = tuple(dict.fromkeys(step for place in ran for step in mapping.shared[place]))
            for place in (place for place in places if place in idle):  # own entries, in no profile
                name_of[place], originals[place], operators[place] = (
                    place,
                    mapping.shared[place],
                    operators[name],
                )
    return replace(
        mapping,
        originals=originals,
        inserted={new(name): why for name, why in mapping.inserted.items()},
        unmapped=tuple(map(new, mapping.unmapped)),
        keys=name_of,
        around={new(name): new(outer) for name, outer in mapping.around.items()},
        hidden={new(name): steps for name, steps in mapping.hidden.items()},
        spared={new(name): reads for name, reads in mapping.spared.items()},
        operators=operators,
    )


def _idle(keys: Names[str, str], ran: Set[str]) -> set[str]:
    """Return the positions of nodes in If branches that did not run: no node unique to the branch was executed."""
    names_of: dict[str, set[str]] = {}  # names by branch, without those of nested subgraphs
    for place, name in keys.items():
        match = _OF_BRANCH.fullmatch(place)
        if match and not _PLACE.search(name):
            names_of.setdefault(match[1] + match[2], set()).add(name)
    idle = []
    for branch, names in names_of.items():
        end = branch[-len("then_branch/") :]
        own = names - names_of.get(branch.removesuffix(end) + _OTHER[end], set())
        if own and not own & ran:
            idle.append(branch)
    return {place for place in keys if place.startswith(tuple(idle))}
