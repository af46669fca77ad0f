"""Selects the inputs of a workload that may have new values in each call."""

from __future__ import annotations

from ortune.inputs.semantics import element_type
from ortune.records import FreshInput, InputChoice, Workload

_KEPT = frozenset({"mask", "positions", "scales"})
"""Roles whose values determine the amount of work, or must stay in order."""


def fresh_inputs(work: Workload) -> tuple[FreshInput, ...]:
    """Return the inputs whose values can be replaced without changing the amount of work."""
    found = []
    for choice in work.cases[0].inputs if work.cases else ():
        ranges = [each for case in work.cases for each in case.inputs if each.name == choice.name]
        kind = _kind(choice, users=bool(work.inputs_path))
        if kind == "integers" and choice.low is not None:
            low = max(int(each.low or 0) for each in ranges)
            high = min(int(each.high or 0) for each in ranges)
            found.append(FreshInput(name=choice.name, kind="integers", low=low, high=high))
        elif kind:
            found.append(FreshInput(name=choice.name, kind=kind))  # type: ignore[arg-type]
    return tuple(found)


def _kind(choice: InputChoice, *, users: bool) -> str:
    element = element_type(choice.dtype)
    if "seq(" in choice.dtype or choice.values or choice.role in _KEPT:
        return ""
    if element == "string":
        return "text"
    if element in ("float", "double", "float16"):
        return "" if choice.low is not None and choice.low == choice.high else "floats"
    if element.startswith(("int", "uint")):
        known = choice.low is not None and choice.high is not None and choice.low < choice.high
        return "integers" if known or users else ""
    return ""
