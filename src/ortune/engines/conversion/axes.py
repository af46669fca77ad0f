"""Axes that must stay dynamic: requested by the user, found in the source, and found in the exported model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ortune.errors import UsageError
from ortune.graph.shapes.symbols import feedable, is_anonymous, kind_of_name
from ortune.records import SourceInput, SourceOpened

Axes = Mapping[str, Mapping[int, str]]
"""Names of dynamic axes, keyed by input name and axis index."""

_PLACE = re.compile(r"(?P<input>[^:=]+):(?P<axis>\d+)=(?P<name>[A-Za-z_]\w*)")
_FIRST, _SECOND = ("batch",), ("seq", "frames", "samples", "encoder", "points")
_WRITTEN = {
    "exported program": "export it again with dynamic_shapes: "
    "torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim('batch')},))",
    "SavedModel": "save it again with None in the signature: tf.TensorSpec((None, 224, 224, 3))",
    "Keras model": "create it with None for that size: keras.Input((None, 64))",
    "TFLite file": "convert it again from a model whose signature has None there",
}
"""Advice for writing a source with dynamic sizes, by the kind of source."""
_IMAGE = {"height": -2, "width": -1}


def requested_axes(text: str, inputs: Sequence[SourceInput]) -> dict[str, dict[int, str]]:
    """Return the axes that ``--dynamic batch,seq`` selects, by input.

    ``batch`` is the first axis of every input, ``seq`` and similar names are the second, ``height`` and ``width`` are
    the last two of inputs with four axes. Any other axis is written in full: ``INPUT:AXIS=NAME``.

    Raises:
        UsageError: A name or an axis matches no input.
    """
    axes_of_inputs: dict[str, dict[int, str]] = {}
    names = ", ".join(source.name for source in inputs)
    for part in filter(None, map(str.strip, text.split(","))):
        place = _PLACE.fullmatch(part)
        if place is not None:
            mine = next((source for source in inputs if source.name == place["input"]), None)
            if mine is None or int(place["axis"]) >= len(mine.shape):
                raise UsageError(f"no input has this axis; the inputs are {names}", where=f"--dynamic {part}")
            axes_of_inputs.setdefault(mine.name, {})[int(place["axis"])] = place["name"]
            continue
        where = [(source.name, axis) for source in inputs for axis in _axes_of(part, len(source.shape))]
        if not where:
            raise UsageError(
                f"{part!r} is not an axis name of these inputs",
                where="--dynamic",
                do=f"use batch, seq, height or width, or in full: {inputs[0].name if inputs else 'INPUT'}:0={part}",
            )
        for name, axis in where:
            axes_of_inputs.setdefault(name, {})[axis] = part
    return axes_of_inputs


def _axes_of(name: str, rank: int) -> Iterator[int]:
    kind = kind_of_name(name)
    if kind in _FIRST and rank >= 1:
        yield 0
    elif kind in _SECOND and rank >= 2:
        yield 1
    elif kind in _IMAGE and rank == 4:
        yield rank + _IMAGE[kind]


def require_open(wanted: Axes, source: SourceOpened) -> None:
    """Check that each requested axis is dynamic in the source.

    Raises:
        UsageError: An axis is fixed; the error explains how to write the source with that axis dynamic.
    """
    how = _WRITTEN.get(source.kind, "")
    already = open_in_source(source.inputs)
    for name, places in wanted.items():
        for axis in places:
            if how and axis not in already.get(name, {}):
                raise UsageError(
                    f"axis {axis} of {name!r} has a fixed size in this {source.kind}",
                    where="--dynamic",
                    do=how,
                )


def open_in_source(inputs: Sequence[SourceInput]) -> dict[str, dict[int, str]]:
    """Return the axes that are dynamic in the source, as names keyed by input and axis index."""
    return {
        source.name: {
            axis: _unnamed(source.name, axis) for axis, size in enumerate(source.shape) if size is None
        }
        for source in inputs
        if None in source.shape
    }


def dynamic_dimensions(model: ir.Model) -> dict[str, list[tuple[str, int]]]:
    """Return the dynamic dimensions of a model's inputs: for each name, the (input, axis) pairs with that size."""
    open_places: dict[str, list[tuple[str, int]]] = {}
    for value in feedable(model):
        for axis, size in enumerate(value.shape or ()):
            if not isinstance(size, int):
                symbol = size.value or ""
                name = _unnamed(str(value.name), axis) if is_anonymous(symbol) else symbol
                open_places.setdefault(name, []).append((str(value.name), axis))
    return open_places


def _unnamed(value: str, axis: int) -> str:
    """Return a name for an unnamed dynamic dimension: "batch" for the first axis, which nearly always is the batch."""
    return f"{value}_{axis}" if axis else "batch"


def unexpectedly_fixed(model: ir.Model, expected: Axes) -> dict[str, list[tuple[str, int, int]]]:
    """Return (input, axis, size) of the axes that should be dynamic but are fixed in the model, keyed by axis name."""
    shapes = {str(value.name): value.shape for value in feedable(model)}
    fixed_axes: dict[str, list[tuple[str, int, int]]] = {}
    for name, axes in expected.items():
        shape = shapes.get(name)
        for axis, text in axes.items():
            size = shape[axis] if shape is not None and axis < len(shape) else None
            if isinstance(size, int):
                fixed_axes.setdefault(text, []).append((name, axis, size))
    return fixed_axes


def other_sizes(size: int) -> tuple[int, ...]:
    """Return other sizes to try for a dynamic axis, the most informative first: double, half, and slightly larger."""
    # Odd and even sizes: for 8 these are 17, 4, 10 and 9, which have no common divisor.
    wanted = (2 * size + 1, size // 2, size + 2, size + 1)
    return tuple(dict.fromkeys(other for other in wanted if other >= 1 and other != size))


def shapes_with_size(
    base: Mapping[str, Sequence[int]], where: Sequence[tuple[str, int]], size: int
) -> dict[str, tuple[int, ...]]:
    """Return the shapes with ``size`` at each (input, axis) of ``where``."""
    shapes = {name: list(shape) for name, shape in base.items()}
    for name, axis in where:
        shapes[name][axis] = size
    return {name: tuple(shape) for name, shape in shapes.items()}
