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

from ortune.records import Finding
from ortune.rules._words import listed
from ortune.rules.facts import Facts

CODE = "SHP001"


def find(facts: Facts) -> Iterator[Finding]:
    """Finds it where inputs were chosen."""
    if facts.model is None or facts.work is None:
        return
    declared = {value.name: value.shape for value in facts.model.ir.graph.inputs}
    sizes: dict[str, int] = {}
    named: dict[str, None] = {}
    shapes: list[str] = []
    for choice in facts.work.cases[0].inputs if facts.work.cases else ():
        shape = declared.get(choice.name)
        symbols: dict[int, str] = {}
        for axis in choice.guessed_axes:
            if axis >= len(choice.shape):
                continue
            dim = shape[axis] if shape is not None and axis < len(shape) else None
            symbols[axis] = getattr(dim, "value", None) or ""
            sizes.setdefault(symbols[axis] or f"{choice.name}[{axis}]", choice.shape[axis])
        if "" in symbols.values():
            dims = ["N" if i in symbols else str(size) for i, size in enumerate(choice.shape)]
            shapes.append(f"--shape {shlex.quote(choice.name + ':' + 'x'.join(dims))}")
        else:
            named |= dict.fromkeys(symbols.values())
    if sizes:
        yield Finding(
            code=CODE,
            what=f"sizes of dynamic dimensions were guessed: "
            f"{listed(f'{name}={size}' for name, size in sizes.items())}",
            where=tuple(sizes),
            fix="pass the sizes you use: "
            + " ".join([*(f"--dim {shlex.quote(f'{name}=N')}" for name in named), *shapes]),
        )
