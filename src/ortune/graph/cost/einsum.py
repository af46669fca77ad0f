"""Cost of Einsum, counted as one loop over all of its indices."""

from __future__ import annotations

import math

from ortune.graph import equations
from ortune.graph.cost.call import Call, Count, Formula, Uncounted


def einsum(call: Call) -> Count:
    """Count an Einsum: operands are multiplied for every index combination, and added if an index is summed over."""
    equation = call.text("equation").replace(" ", "")
    shapes = [call.shape(position) for position in range(len(call.node.inputs))]
    indices = equations.operands(equation, [len(shape) for shape in shapes]) if equation else None
    if indices is None:
        listed = ", ".join(str(len(shape)) for shape in shapes)
        raise Uncounted(f"the equation {equation!r} does not fit operands of {listed} dimensions")
    sizes: dict[str, int] = {}
    for own, shape in zip(indices, shapes, strict=True):
        for index, size in zip(own, shape, strict=True):
            sizes[index] = max(size, sizes.get(index, 1))
    loop = math.prod(sizes.values())
    summed = bool(set(sizes) - set(equations.result(equation, indices)))
    # One product per additional operand, and one addition if an index is summed over.
    per_step = len(shapes) - 1 + summed
    macs = loop if len(shapes) == 2 and summed else None
    note = (
        "its work is counted as one loop over all indices; pairwise products may take fewer"
        if len(shapes) > 2
        else ""
    )
    return Count(flops=per_step * loop, macs=macs, note=note)


FORMULAS: dict[str, dict[str, Formula]] = {"": {"Einsum": einsum}}
