"""Sizes of dynamic dimensions were guessed.

What it is: dynamic dimensions for which no size was given.
Why it costs: no cost; but times, and the fastest configuration, apply only to the guessed sizes.
Evidence: the dynamic dimensions and the sizes chosen for them.
Fix and its safety: advice: pass the sizes you use.
Example: ``--dim seq=128``, ``--shape x:1x3x224x224``
References: ONNX IR specification, "Static tensor shapes".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ortune.graph.shapes.symbols import Size, input_sizes
from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "SHP001"


def find(facts: Facts) -> Iterator[Finding]:
    """Yield a finding on dimensions of the workload with guessed sizes."""
    if facts.model is None or facts.work is None:
        return
    declared = {value.name: value for value in facts.model.ir.graph.inputs}
    sizes: dict[str, int] = {}
    named: dict[str, None] = {}
    shapes: list[str] = []
    for choice in facts.work.cases[0].inputs if facts.work.cases else ():
        value = declared.get(choice.name)
        shape = value.shape if value is not None else None
        terms = input_sizes(value) if value is not None else None
        symbols: dict[int, str] = {}
        for axis in choice.guessed_axes:
            if axis >= len(choice.shape):
                continue
            place = f"{choice.name}[{axis}]"
            # A dimension without a usable name cannot be set by --dim.
            own = terms is None or axis >= len(terms) or terms[axis] == Size.from_symbol(place)
            symbols[axis] = "" if own or shape is None else getattr(shape[axis], "value", None) or ""
            sizes.setdefault(symbols[axis] or place, choice.shape[axis])
        if "" in symbols.values():
            dims = ["N" if i in symbols else str(size) for i, size in enumerate(choice.shape)]
            shapes.append(f"--shape {shlex.quote(choice.name + ':' + 'x'.join(dims))}")
        else:
            # For a sum such as p+s, --dim takes each symbol.
            of_axes = [terms[axis].terms for axis in symbols if terms is not None]
            named |= dict.fromkeys(symbol for parts in of_axes for symbol, _ in parts)
    if sizes:
        # A batch of 1 alone needs no finding, but it is listed with other guesses, since it was not
        # requested.
        ones = _batches_of_one(facts) - named.keys()
        sizes |= dict.fromkeys(sorted(ones), 1)
        named |= dict.fromkeys(sorted(ones))
    if sizes:
        yield Finding(
            code=CODE,
            what=f"sizes of dynamic dimensions were guessed: "
            f"{listed(f'{name}={size}' for name, size in sizes.items())}",
            where=tuple(sizes),
            fix="pass the sizes you use: "
            + " ".join([*(f"--dim {shlex.quote(f'{name}=N')}" for name in named), *shapes]),
        )


def _batches_of_one(facts: Facts) -> set[str]:
    """Return the symbols of dynamic dimensions that are 1 because they are batches by convention."""
    assert facts.model is not None and facts.work is not None
    found = set()
    for choice in facts.work.cases[0].inputs:
        value = next((each for each in facts.model.ir.graph.inputs if each.name == choice.name), None)
        if value is None or value.shape is None or choice.origin == "user":
            continue
        for axis, size in enumerate(choice.shape[: len(value.shape)]):
            name = getattr(value.shape[axis], "value", None)
            if isinstance(name, str) and name and size == 1 and axis not in choice.guessed_axes:
                found.add(name)
    return found
