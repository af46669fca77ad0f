"""Replaces dynamic dimensions of the inputs with fixed sizes.

What it is: ``batch``, ``seq`` or an unnamed dimension (written ``INPUT[AXIS]``) becomes the size that is always used.
    Symbolic shapes inside the graph are removed, and ONNX Runtime infers them again.
Why it costs: with dynamic dimensions, shape computations (Shape, Gather, Concat, Reshape) run every time and memory
    cannot be planned ahead. Mobile and compiling execution providers reject the model or rebuild it.
Evidence: shape operators in the optimised graph; their share of the run in a profile.
Fix and its safety: behaviour: the model then rejects every other size. Results are unchanged.
Example: ``--rewrite fixed-dimensions:batch=1,seq=128``
References: ONNX Runtime documentation, "Make dynamic input shape fixed"; microsoft/onnxruntime#14550.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

import onnx_ir as ir

from ortune.errors import UsageError
from ortune.graph.model.graphs import graphs
from ortune.graph.shapes.growing import growing_dimensions, growing_inputs
from ortune.graph.shapes.held_sizes import wrong_sizes
from ortune.records import Case, Workload
from ortune.rewrites._base import ANY_NAME, Param, Proposed, Rewrite, RewriteResult, unchanged

_NAMED = 2


def _inputs(model: ir.Model) -> list[ir.Value]:
    return [v for v in model.graph.inputs if v.name not in model.graph.initializers and v.shape is not None]


def _symbolic(value: ir.Value) -> list[tuple[int, str]]:
    """Return pairs (axis, symbol) for the symbolic dimensions of a value; an unnamed dimension has the symbol ""."""
    dims = value.shape or ()
    return [(axis, str(dim.value or "")) for axis, dim in enumerate(dims) if isinstance(dim, ir.SymbolicDim)]


def inputs_left_open(model: ir.Model, sizes: Collection[str]) -> tuple[str, ...]:
    """Return the names of inputs that keep a dynamic dimension after those in `sizes` (symbols or axes) are fixed."""
    return tuple(
        value.name or ""
        for value in _inputs(model)
        if any(_key(value, axis, symbol, sizes) is None for axis, symbol in _symbolic(value))
    )


def _key(value: ir.Value, axis: int, symbol: str, sizes: Collection[str]) -> str | None:
    """Return the key in `sizes` for a dimension, its axis ("x[0]") before its symbol; None if it has no entry."""
    place = f"{value.name}[{axis}]"
    return place if place in sizes else symbol if symbol in sizes else None


def _change(model: ir.Model, params: Mapping[str, str]) -> RewriteResult:
    sizes = {name: int(text) for name, text in params.items()}
    grows = why_not_fixed(model) if growing_dimensions(model) & sizes.keys() else ""
    _refuse_static(model, sizes)
    _refuse_held(model, sizes)
    used: set[str] = set()
    symbols: set[str] = set()
    for value in _inputs(model):
        new: dict[int, int] = {}
        for axis, symbol in _symbolic(value):
            key = _key(value, axis, symbol, sizes)
            if key is not None:
                new[axis] = sizes[key]
                used.add(key)
                symbols.add(symbol)
        _set_dims(value, new)
    reasons = tuple(_unused_reason(model, name) for name in sorted(sizes.keys() - used))
    if not used:
        # The example is useful only if an input has a dynamic dimension.
        symbolic = any(_symbolic(value) for value in _inputs(model))
        none = (
            "no sizes were given; use --rewrite fixed-dimensions:batch=1, for example"
            if symbolic
            else "no input has a dynamic dimension"
        )
        reasons = reasons or (none,)
        return unchanged(*reasons)
    _forget_shapes(model, symbols)
    fixed = ", ".join(f"{name}={sizes[name]}" for name in sorted(used))
    what = f"Fixed {fixed}; the model rejects other sizes."
    return RewriteResult(modified=True, what=f"{what} But {grows}." if grows else what, reasons=reasons)


def why_not_fixed(model: ir.Model) -> str:
    """Return a clause that says which inputs grow at each step and so get no fixed size; "" if no input grows."""
    growing = growing_inputs(model)
    if not growing:
        return ""
    grow = "grows" if len(growing) == 1 else "grow"
    outputs = [item.output for item in growing if item.output]
    longer = f" ({_few(outputs)} {'is' if len(outputs) == 1 else 'are'} longer)" if outputs else ""
    return (
        f"{_few([item.name for item in growing])} {grow} from step to step{longer}, so no fixed length fits; "
        "export the model with a static cache, buffers of the largest length that each step writes into"
    )


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _NAMED else f"{names[0]}, ..., {names[-1]}"


def _refuse_static(model: ir.Model, sizes: Mapping[str, int]) -> None:
    for value in _inputs(model):
        for axis, dim in enumerate(value.shape or ()):
            wanted = sizes.get(f"{value.name}[{axis}]")
            if wanted is not None and isinstance(dim, int) and dim != wanted:
                raise UsageError(
                    f"{value.name}[{axis}] is {dim} in the model and cannot become {wanted}",
                    where="--rewrite fixed-dimensions",
                    do="omit this dimension, or export the model with another size",
                )


def _refuse_held(model: ir.Model, sizes: Mapping[str, int]) -> None:
    """Raise UsageError for a size that contradicts a node of the model, since the model could not run."""
    wrong = wrong_sizes(model, sizes) if any(_symbolic(value) for value in _inputs(model)) else []
    if wrong:
        held = wrong[0]
        raise UsageError(
            "; ".join(one.sentence for one in wrong),
            where="--rewrite fixed-dimensions",
            do=f"fix {held.dimension}={held.size}, or export the model again without that size as a constant",
        )


def _unused_reason(model: ir.Model, name: str) -> str:
    symbols = {symbol or f"{v.name}[{axis}]" for v in _inputs(model) for axis, symbol in _symbolic(v)}
    there = f"available: {', '.join(sorted(symbols))}" if symbols else "all dimensions are fixed"
    return f"no input has a dynamic dimension {name!r}; {there}"


def _forget_shapes(model: ir.Model, symbols: set[str]) -> None:
    """Remove declared symbolic shapes, so that ONNX Runtime infers sizes from the fixed inputs."""
    for graph in graphs(model, functions=False):
        for node in graph:
            for value in node.outputs:
                if _symbolic(value) and not value.is_graph_output():
                    value.shape = None
    for value in model.graph.outputs:
        # A graph output must keep a shape of the right rank, so its dimensions become unnamed instead.
        _set_dims(value, {axis: None for axis, symbol in _symbolic(value) if symbol in symbols})


def _set_dims(value: ir.Value, new: Mapping[int, int | None]) -> None:
    if new:
        value.shape = ir.Shape([new.get(axis, dim) for axis, dim in enumerate(value.shape or ())])


def _sizes_of(model: ir.Model, case: Case) -> dict[str, str]:
    """Return the sizes in a case, keyed by symbol, or by axis if the symbol is missing or has several sizes."""
    chosen = {choice.name: choice.shape for choice in case.inputs}
    places: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for value in _inputs(model):
        shape = chosen.get(value.name or "", ())
        for axis, symbol in _symbolic(value):
            # An empty dimension (a cache before the first step) changes in the next step, so it is not fixed.
            if len(shape) == len(value.shape or ()) and shape[axis] > 0:
                places[symbol][f"{value.name}[{axis}]"] = shape[axis]
    sizes: dict[str, int] = {}
    for symbol, sizes_by_place in places.items():
        one = len(set(sizes_by_place.values())) == 1
        sizes.update({symbol: next(iter(sizes_by_place.values()))} if symbol and one else sizes_by_place)
    return {name: str(size) for name, size in sorted(sizes.items())}


def _proposes(model: ir.Model, workload: Workload | None) -> Sequence[Proposed]:
    if workload is None or len(workload.cases) != 1:
        return []
    sizes = _sizes_of(model, workload.cases[0])
    if not sizes or growing_inputs(model):
        return []
    said = ", ".join(f"{name}={size}" for name, size in sizes.items())
    return [(sizes, f"every run uses the same sizes ({said}), but the model declares them as dynamic")]


REWRITE = Rewrite(
    name="fixed-dimensions",
    summary="replaces dynamic input dimensions with fixed sizes",
    safety="behaviour",
    stage=-1,
    params=(Param(name=ANY_NAME, kind="int", minimum=1, summary="size of the dimension with this name"),),
    change=_change,
    proposes=_proposes,
)
