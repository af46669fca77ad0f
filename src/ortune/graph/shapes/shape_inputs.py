"""Values for inputs that determine shapes, chosen to match the output sizes that the model declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from ortune.graph.shapes.operators import visit
from ortune.graph.shapes.symbols import Size, size_of
from ortune.graph.shapes.walk import Walk

_MOST_ELEMENTS = 8
_INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})


def shape_values(
    model: ir.Model, shapes: Mapping[str, tuple[int, ...]], names: Sequence[str], sizes: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return values for inputs that determine shapes, in element order.

    Args:
        model: The model.
        shapes: The shape of each fed input.
        names: Names of the inputs for which values are needed.
        sizes: Size of each symbol.

    Returns:
        Values by input name, without inputs that determine no shape or whose values do not follow from the graph.
    """
    wanted = [
        value
        for value in model.graph.inputs
        if value.name in names
        and value.dtype in _INTEGERS
        and 0 < math.prod(shapes[str(value.name)]) <= _MOST_ELEMENTS
    ]
    if not wanted:
        return {}
    open_ = {
        str(value.name): _symbols(str(value.name), math.prod(shapes[str(value.name)])) for value in wanted
    }
    walk = _walked(model, shapes, wanted, open_, sizes, {})
    if walk.clash:
        return {}
    deciding = {symbol for symbol, _ in _terms(walk)}
    # For an undetermined symbol, all sizes but one are set to 1.
    free = [
        s
        for name in open_
        for s in open_[name]
        if s in deciding and walk.substitute(Size.from_symbol(s)).value is None
    ]
    if free:
        walk = _walked(model, shapes, wanted, open_, sizes, dict.fromkeys(free[1:], 1))
    values: dict[str, tuple[int, ...]] = {}
    for name, symbols in open_.items():
        solved = [walk.substitute(Size.from_symbol(symbol)).value for symbol in symbols]
        if deciding.intersection(symbols) and not walk.clash and all(n is not None and n > 0 for n in solved):
            values[name] = tuple(n for n in solved if n is not None)
    return values


def _symbols(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"\0{name}:{i}" for i in range(count))


def _walked(
    model: ir.Model,
    shapes: Mapping[str, tuple[int, ...]],
    wanted: Sequence[ir.Value],
    open_: Mapping[str, tuple[str, ...]],
    sizes: Mapping[str, int],
    taken: Mapping[str, int],
) -> Walk:
    """Walk the graph with the elements of wanted inputs as symbols, and equate computed and declared output shapes."""
    walk = Walk(keep=lambda symbol: 0, bound={s: Size((), n) for s, n in {**sizes, **taken}.items()})
    walk.symbols |= set(sizes)
    for value in model.graph.inputs:
        own = shapes.get(str(value.name))
        if own is not None:
            walk.shapes[value] = tuple(Size((), n) for n in own)
    for value in wanted:
        walk.contents[value] = tuple(map(Size.from_symbol, open_[str(value.name)]))
    for node in model.graph:
        visit(walk, node)
    walk.node = None
    for output in model.graph.outputs:
        computed = walk.shapes.get(output)
        if computed is None or output.shape is None or len(computed) != len(output.shape):
            continue
        for size, dim in zip(computed, output.shape.dims, strict=True):
            declared = size_of(dim, "")
            if size is not None and all(symbol in sizes for symbol, _ in declared.terms):
                walk.equal(size, declared)
    return walk


def _terms(walk: Walk) -> Iterator[tuple[str, int]]:
    """Yield (symbol, factor) for each term in the shapes of values."""
    for shape in walk.shapes.values():
        for size in shape:
            if size is not None:
                yield from size.terms
