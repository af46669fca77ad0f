"""Construction of the mapping for a whole model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import onnx_ir as ir

from ortune.graph.mapping import names
from ortune.graph.mapping.carried_values import NOTHING, CarriedValues
from ortune.graph.mapping.model_view import Body, GraphStep, ModelView, Value
from ortune.graph.mapping.origins import VIEWS, OriginSearch, heaviest_first, ordered
from ortune.graph.mapping.result import Mapping
from ortune.graph.mapping.segments import Segments

NOT_FOUND = "not found in the optimised graph"


def originals(original: ir.Model, optimised: ir.Model) -> Mapping:
    """Return the mapping of an optimized graph's nodes to the original nodes."""
    old, new = ModelView(original), ModelView(optimised)
    carried = CarriedValues(old, new)
    segments = Segments(old, carried)
    origins = OriginSearch(new, carried, segments)
    keys: dict[GraphStep, str] = {}
    for step in new.steps:  # parents come before the steps of their subgraphs
        around = keys[step.body.parent] if step.body.parent is not None else ""
        keys[step] = _key(
            step, [was for was in origins.originals.get(step, []) if was not in origins.merged], around
        )
    originals: dict[str, set[GraphStep]] = {}
    for step, sources in origins.originals.items():
        if sources:
            originals.setdefault(keys[step], set()).update(sources)
    mapped = Counter(was for sources in originals.values() for was in sources)
    groups = {key: sources - origins.merged for key, sources in originals.items() if len(sources) > 1}
    hidden = {key: _hidden(group, mapped, segments) for key, group in groups.items()}
    gone = [was for was in old.steps if was not in mapped]
    ending = _Ending(old, carried, segments, origins, set(mapped))
    operators = {key: step.op_type for step, key in keys.items()}
    alike = Counter(keys.values())
    return Mapping(
        originals={
            key: _names(heaviest_first(operators[key], sources)) for key, sources in originals.items()
        },
        inserted={
            keys[step]: names.purpose(step.op_type, step.domain, _near(step, origins))
            for step in new.steps
            if step in carried.inserted and keys[step] not in originals
        },
        unmapped=tuple(
            dict.fromkeys(
                keys[s]
                for s, sources in origins.originals.items()
                if not sources and keys[s] not in originals
            )
        ),
        vanished=_names(gone),
        why={was.name: ending.reason(was) for was in gone},
        keys={step.name: key for step, key in keys.items() if key != step.own_name},
        around={
            key: keys[step.body.parent]
            for step, key in keys.items()
            if key != step.own_name and step.body.parent is not None
        },
        hidden={key: _names(ordered(steps)) for key, steps in hidden.items()},
        spared={key: _saved_reads(groups[key], steps) for key, steps in hidden.items()},
        merged=_names(ordered(origins.merged)),
        operators=operators,
        shared={
            step.name: _names(heaviest_first(step.op_type, origins.originals[step]))
            for step, key in keys.items()
            if alike[key] > 1 and key != step.own_name and origins.originals.get(step)
        },
    )


def _key(step: GraphStep, sources: list[GraphStep], around: str) -> str:
    """Return a step's name in a profile: its own name, or, if unnamed, its operator and number in the loaded graph.

    In a subgraph, the latter form is prefixed with the enclosing node's name, even if it is also the node's own name.

    Args:
        step: The node.
        sources: The original nodes that the step replaces.
        around: Profile name of the node that contains the step; "" for the main graph.
    """
    same = [was for was in sources if was.op_type == step.op_type and was.own_name == step.own_name]
    number = same[0].index if len(same) == 1 else None
    numbered = "" if number is None else f"{step.op_type}_{number}"
    if numbered and step.own_name in ("", numbered):
        return f"{around}/{numbered}" if around else numbered
    return step.own_name or step.name


def _names(steps: Iterable[GraphStep]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.name for step in steps))


def _hidden(group: set[GraphStep], shared: Counter[GraphStep], segments: Segments) -> set[GraphStep]:
    """Return the steps whose results stay inside a fused group, or are computed again for readers outside the group."""
    return {
        step
        for step in group
        if not segments.holds(step)
        and (shared[step] > 1 or all(user in group for value in step.outputs for user in value.users))
    }


def _saved_reads(group: set[GraphStep], hidden: set[GraphStep]) -> dict[str, float]:
    """Map original steps to the number of reads of their results that a fused group saves."""
    users: dict[Value, int] = {}
    for step in group:
        for value in dict.fromkeys(step.reads()):
            users[value] = users.get(value, 0) + 1
    spared: dict[str, float] = {}
    for value, reads in users.items():
        producer = value.step
        if producer is not None:
            # A fused node does not read internal results, and reads each other value once.
            fewer = (reads if producer in hidden else reads - 1) / len(producer.outputs)
            spared[producer.name] = spared.get(producer.name, 0.0) + fewer
    return {name: reads for name, reads in spared.items() if reads}


def _near(step: GraphStep, origins: OriginSearch) -> str:
    """Return the original node next to an inserted step: a reader of its output, or else the producer of its input."""
    into = step.op_type not in ("ReorderOutput", "MemcpyToHost")
    for forward in (into, not into):
        waiting, visited = [step], {step}
        while waiting:
            now = waiting.pop(0)
            sources = origins.originals.get(now)
            if sources:
                return (heaviest_first(now.op_type, sources)[0] if forward else sources[-1]).name
            beside = [
                other
                for other in (
                    (user for value in now.outputs for user in value.users)
                    if forward
                    else (value.step for value in now.reads() if value.step is not None)
                )
                if other not in visited
            ]
            visited.update(beside)
            waiting += beside
    return ""


class _Ending:
    """Reasons why original steps have no counterpart."""

    def __init__(
        self,
        old: ModelView,
        carried: CarriedValues,
        segments: Segments,
        origins: OriginSearch,
        mapped: set[GraphStep],
    ) -> None:
        self._carried, self._segments, self._origins, self._mapped = carried, segments, origins, mapped
        self._needed: set[GraphStep] = set()
        self._need(old.main)

    def reason(self, step: GraphStep) -> str:
        """Return the reason why a step has no counterpart, as text."""
        if self._is_never_taken(step.body):
            return "in a branch that is never taken"
        if step in self._carried.taken:
            return "its condition is constant, so one branch replaced it"
        if step.op_type in NOTHING:
            return "passes its input through"
        if self._segments.is_static(step) and step not in self._origins.left_out:
            return "computed once, when the session is created"
        if step not in self._needed:
            return "no output depends on it"
        moves = step in self._origins.left_out or step.op_type in VIEWS
        return "removed, cancelled or moved (data movement only)" if moves else NOT_FOUND

    def _is_never_taken(self, body: Body) -> bool:
        while body.parent is not None:
            if self._carried.taken.get(body.parent, body) is not body:
                return True
            body = body.parent.body
        return False

    def _need(self, body: Body) -> None:
        waiting = [value.step for value in body.outputs]
        while waiting:
            step = waiting.pop()
            if step is None or step in self._needed:
                continue
            self._needed.add(step)
            if self._segments.is_static(step) and step not in self._mapped:
                continue  # a known shape needs no values
            waiting += [value.step for value in step.reads()]
            for inner in step.bodies.values():
                waiting += [value.step for value in inner.outputs]
