"""What comes out: the user's nodes behind each node of an optimised graph."""

from __future__ import annotations

import re
from collections.abc import Mapping as Names
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """The nodes of an optimised graph with the original nodes that they came from.

    Names are those of a profile, without ``_kernel_time``. A node without a name has there its operator and ONNX
    Runtime's number of it, ``Conv_12``, in a body behind the name of the node around it, ``If_3/Conv_12``. That number
    is known for nodes that came through as they are; others are ``QLinearConv#7`` here, their place in the optimised
    graph, until ``as_logged`` has seen a profile. Nodes of one name, in several bodies or in both branches of an If,
    are one entry: all their originals together, until a profile shows that one of the branches did not run.

    Attributes:
        of: Nodes of the user's model that each replaces, named as ``mapping.view`` does: first the one that does
            most of the work, the others in the model's order. A node is in several where several were made of it, or
            each does its work again.
        inserted: Nodes that have no original, and what each is for: "into blocked layout for /conv1/Conv".
        unmapped: Nodes that should have an original, and none is known.
        vanished: Nodes of the user's model that none replaces. Constants are data and left out.
        why: What became of each of these, in words.
        keys: For nodes without a name: their place in the optimised graph (``Conv#3``) to their name here.
        around: Of those of them in bodies, by their name here: the name of the node around them.
        hidden: For nodes with several originals, those whose results stay within the node.
        spared: For the same nodes, how often fewer each result is read than by the originals one by one.
        merged: Originals that computed the same as another one, which alone is left and replaces both.
        operators: Operator of each node here.
        shared: Of nodes without a name that have one name here: the nodes that each replaces, by its place.
    """

    of: dict[str, tuple[str, ...]]
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
        mapping: From ``originals``.
        logged: Name and operator of the profile's nodes in the order in which they first ran. ONNX Runtime numbers
            in the order of creation and saves in the order of execution, so the latter distinguishes nodes.
    """
    taken = {*mapping.of, *mapping.inserted, *mapping.unmapped}
    logged_of: dict[str, list[str]] = {}
    for name, operator in dict.fromkeys(logged):
        logged_of.setdefault(operator, []).append(name)
    together: dict[
        tuple[str, str], list[str]
    ] = {}  # nodes without a name, by the node around them and operator
    for key in dict.fromkeys(mapping.keys.values()):
        together.setdefault((mapping.around.get(key, ""), mapping.operators[key]), []).append(key)
    renamed: dict[str, str] = {}
    for (outer, operator), keys in together.items():  # those of bodies after the node that holds them
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
    of = {new(name): steps for name, steps in mapping.of.items()}
    operators = {new(name): operator for name, operator in mapping.operators.items()}
    idle = _idle(name_of, {name for name, _ in logged})
    for name in dict.fromkeys(name_of[place] for place in mapping.shared if place in idle):
        places = [place for place in mapping.shared if name_of[place] == name]
        ran = [place for place in places if place not in idle]
        if ran:
            of[name] = tuple(dict.fromkeys(step for place in ran for step in mapping.shared[place]))
            for place in (place for place in places if place in idle):  # one of its own, which no profile has
                name_of[place], of[place], operators[place] = place, mapping.shared[place], operators[name]
    return replace(
        mapping,
        of=of,
        inserted={new(name): why for name, why in mapping.inserted.items()},
        unmapped=tuple(map(new, mapping.unmapped)),
        keys=name_of,
        around={new(name): new(outer) for name, outer in mapping.around.items()},
        hidden={new(name): steps for name, steps in mapping.hidden.items()},
        spared={new(name): reads for name, reads in mapping.spared.items()},
        operators=operators,
    )


def _idle(keys: Names[str, str], ran: Set[str]) -> set[str]:
    """Places in branches of an If that did not run: no node ran that is in such a branch and not in the other one."""
    names_of: dict[str, set[str]] = {}  # by branch, without those of bodies within
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
