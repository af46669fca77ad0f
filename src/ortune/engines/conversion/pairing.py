"""Matches the inputs of an ONNX model and its source: by the exporter's report, then by name, then by order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import onnx_ir as ir

from ortune.graph.shapes.symbols import feedable
from ortune.inputs.semantics import dtype_of
from ortune.outputs.files import family
from ortune.records import SourceInput

MOST_AXES = 6


class NotPaired(Exception):
    """An input of the model matches no input of the source."""


def pair_inputs(
    model: ir.Model,
    inputs: Sequence[SourceInput],
    exported: Mapping[str, str],
    example: Mapping[str, np.ndarray],
) -> dict[str, str]:
    """Return a mapping of the model's input names to the source's.

    Args:
        model: The ONNX model.
        inputs: The source's inputs, in order.
        exported: Maps the source's input names to the model's, as reported by the exporter.
        example: The source's example values, which determine its dynamic sizes.

    Raises:
        NotPaired: An input of the model has no counterpart, or its counterpart has another shape.
    """
    by_name = {source.name: source for source in inputs}
    exported_of = {mine: theirs for theirs, mine in exported.items() if theirs in by_name}
    wanted = feedable(model)
    pairs = {
        str(v.name): exported_of.get(str(v.name), str(v.name))
        for v in wanted
        if str(v.name) in exported_of or str(v.name) in by_name
    }
    free = [source for source in inputs if source.name not in pairs.values()]
    for value in wanted:
        if value.name in pairs:
            continue
        partner = next((source for source in free if _same_kind(value, source)), None)
        if partner is None:
            raise NotPaired(
                f"the model's input {value.name!r} is {dtype_of(value)}, and the source has no such input left"
            )
        pairs[str(value.name)] = partner.name
        free.remove(partner)
    for value in wanted:
        theirs = by_name[pairs[str(value.name)]]
        shape = example[theirs.name].shape if theirs.name in example else theirs.shape
        _require_same(value, theirs.name, shape)
    return pairs


def _require_same(value: ir.Value, name: str, shape: Sequence[int | None]) -> None:
    """Raise NotPaired if ranks differ, or sizes are on other axes. A single size that is fixed is reported later."""
    ours = list(value.shape) if value.shape is not None else None
    if ours is None or _fits(ours, shape):
        return
    texts = ["x".join(str(n) if isinstance(n, int) else "?" for n in sizes) for sizes in (shape, ours)]
    if len(ours) == len(shape) <= MOST_AXES:
        turned = next(
            (p for p in permutations(range(len(shape))) if _fits(ours, [shape[i] for i in p])), None
        )
        differing = sum(
            isinstance(a, int) and b is not None and a != b for a, b in zip(ours, shape, strict=True)
        )
        if turned is not None and differing > 1:
            raise NotPaired(
                f"input {name!r} is {texts[0]} in the source and {texts[1]} in the model: its axes are swapped "
                f"(Transpose perm={list(turned)})"
            )
        if differing == 1:
            return
    raise NotPaired(f"input {name!r} is {texts[0]} in the source and {texts[1]} in the model")


def _fits(ours: Sequence[int | ir.SymbolicDim], theirs: Sequence[int | None]) -> bool:
    return len(ours) == len(theirs) and all(
        not isinstance(a, int) or b is None or a == b for a, b in zip(ours, theirs, strict=True)
    )


def _same_kind(value: ir.Value, source: SourceInput) -> bool:
    rank = None if value.shape is None else len(value.shape)
    return family(dtype_of(value)) == family(source.type) and rank in (None, len(source.shape))
