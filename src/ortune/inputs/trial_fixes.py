"""Changes to try after the first run failed: sizes from the error text, then a short list of common sizes.

A trial may change only guesses (``InputChoice.guessed_axes`` and guessed ranges of ids), unless ONNX Runtime
explicitly reports the size or range that it needs.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec
import onnx_ir as ir

from ortune.errors import InputError, ModelError
from ortune.graph.failing_nodes import named_node
from ortune.graph.model.graphs import nodes
from ortune.graph.shapes.held_sizes import wrong_sizes
from ortune.graph.shapes.symbols import feedable
from ortune.inputs.chosen_sizes import choose, decoder_lengths, ladder, notes_on
from ortune.inputs.declared import InputSet, inspect_inputs
from ortune.inputs.semantics import element_type
from ortune.inputs.value_ranges import choices
from ortune.printable import amount
from ortune.records import Case, InputChoice, Workload

_DECLARED = re.compile(r"Got invalid dimensions for input:\s*(\S+) for the following indices(.*)", re.DOTALL)
_INDEX = re.compile(r"index:\s*(\d+)\s+Got:\s*(-?\d+)\s+Expected:\s*(-?\d+)")
_BOUNDS = (
    re.compile(r"idx=(?P<value>-?\d+) must be within the inclusive range \[-?\d+,(?P<top>-?\d+)\]"),
    re.compile(r"(?P<value>-?\d+)\. Value must be in range \[-?\d+, ?(?P<top>-?\d+)\]"),
    re.compile(r"(?P<value>-?\d+) is not in valid range \[-?\d+, ?(?P<top>-?\d+)\]"),
    re.compile(
        r"k argument \[(?P<value>\d+)\] should not be greater than specified axis dim value \[(?P<top>\d+)\]"
    ),
    re.compile(r"index \((?P<value>-?\d+)\) specified for sequence of size \((?P<size>\d+)\)"),
)
"""Errors about a value that is too large."""
_BROADCAST = re.compile(r"axis by a dimension other than 1\.\s*(\d+) by (\d+)")
_CHANNELS = re.compile(r"C:\s*(\d+) kernel channels:\s*(\d+) group:\s*(\d+)")
_INNER = re.compile(r"GEMM: Dimension mismatch, W:\s*\{(\d+),(\d+)\} K:\s*(\d+)")
_RESHAPED = re.compile(r"Input shape:\s*\{([\d,]+)\}, requested shape:\s*\{([-\d,]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """One change: new sizes of symbols, or a new maximum for ids."""

    sizes: dict[str, int]
    high: int | None = None


def alternatives(ir_model: ir.Model, workload: Workload, error_text: str) -> Workload | None:
    """Return the next workload to try after the first run failed.

    Returns:
        The workload; None if there is nothing left to try, or the inputs are the user's own.
    """
    if workload.inputs_path or not workload.cases:
        return None
    inputs = inspect_inputs(ir_model)
    for change in _changes(inputs, workload, error_text):
        cases = tuple(_changed(ir_model, inputs, case, change) for case in workload.cases)
        if cases != workload.cases:
            return msgspec.structs.replace(
                workload,
                cases=cases,
                notes=notes_on(inputs, cases[0].dims),
                tries=workload.tries + 1,
            )
    return None


def _changes(inputs: InputSet, workload: Workload, error: str) -> list[_Change]:
    """Return the changes that the error suggests, best first, then the untried common sizes."""
    case = workload.cases[0]
    steps = [_Change(sizes=step) for step in ladder(inputs, _free_symbols(inputs, case))]
    return _suggested(inputs, case, error) + steps[workload.tries :]


def _suggested(inputs: InputSet, case: Case, error: str) -> list[_Change]:
    """Return the changes that the error suggests, best first."""
    free = _free_symbols(inputs, case)
    changes = [*_declared(inputs, error), *_bounds(inputs, case, free, error)]
    if not _tried_by_trial(case):
        # Such hints may swap two sizes forever, so they are followed once.
        changes += [
            *_channels(inputs, free, error),
            *_broadcast(case, free, error),
            *_scaled(inputs, case, free, error),
        ]
    return changes


def _tried_by_trial(case: Case) -> bool:
    return any(choice.origin == "trial" for choice in case.inputs)


def _free_symbols(inputs: InputSet, case: Case) -> set[str]:
    """Return the symbols of guessed axes."""
    by_name = {choice.name: choice for choice in case.inputs}
    return {
        symbol
        for spec in inputs.inputs
        for axis in by_name[spec.name].guessed_axes
        for symbol, _ in spec.shape[axis].terms
    }


def _declared(inputs: InputSet, error: str) -> list[_Change]:
    """Return a change to the sizes that ONNX Runtime expects, if the error compares a feed with the declared shape."""
    match = _DECLARED.search(error)
    if match is None:
        return []
    sizes: dict[str, int] = {}
    for spec in inputs.inputs:
        if spec.name == match[1]:
            for axis, _, expected in _INDEX.findall(match[2]):
                if int(axis) < len(spec.shape):
                    sizes |= {s: int(expected) for s, _ in spec.shape[int(axis)].terms[:1]}
    return [_Change(sizes=sizes)] if sizes else []


def _bounds(inputs: InputSet, case: Case, free: set[str], error: str) -> list[_Change]:
    """Return changes for an index outside of its table: smaller ids, or a shorter sequence if it is a position."""
    match = next((found for form in _BOUNDS if (found := form.search(error))), None)
    if match is None:
        return []
    told = match.groupdict()
    index, top = int(told["value"]), int(told["top"]) if "top" in told else int(told["size"]) - 1
    changes = []
    if any(_has_ids(choice) and (choice.high or 0) >= index for choice in case.inputs):
        changes.append(_Change(sizes={}, high=top))
    # Positions count from 0, so a table with the last index top has top + 1 rows.
    counted = {s: top + 1 for s in free if case.dims.get(s, 0) > top}
    step = decoder_lengths(inputs, case.dims)
    if not counted and step is not None and sum(step) > top + 1:
        past = {s for s, kind in inputs.kinds.items() if kind == "past"} - _user_symbols(inputs, case)
        counted = dict.fromkeys(past, max(0, top + 1 - step[1]))
    if counted:
        changes.append(_Change(sizes=counted))
    return changes


def _has_ids(choice: InputChoice) -> bool:
    integral = element_type(choice.dtype).startswith(("int", "uint"))
    return choice.high is not None and integral and choice.role not in {"mask", "positions"}


def _channels(inputs: InputSet, free: set[str], error: str) -> list[_Change]:
    match = _CHANNELS.search(error)
    if match is None:
        return []
    wanted = int(match[2]) * int(match[3])
    sizes = {s: wanted for s in free if inputs.kinds.get(s) == "channels"}
    return [_Change(sizes=sizes)] if sizes else []


def _broadcast(case: Case, free: set[str], error: str) -> list[_Change]:
    """Return changes for two sizes that should be equal, each of which sets a guessed size to the other size."""
    match = _BROADCAST.search(error)
    if match is None:
        return []
    a, b = int(match[1]), int(match[2])
    pairs = [(a, b), (b, a)]
    return [
        _Change(sizes=sizes)
        for old, new in pairs
        if (sizes := {s: new for s in sorted(free) if case.dims.get(s) == old})
    ]


def _scaled(inputs: InputSet, case: Case, free: set[str], error: str) -> list[_Change]:
    """Return changes for a wrong number of elements after the convolutions, which scale the image or the length."""
    ratio = _ratio(error)
    if ratio is None or ratio == 1:
        return []
    image = sorted(s for s in free if inputs.kinds.get(s) in {"height", "width"})
    line = sorted(s for s in free if s not in image)
    if len(image) == 2:
        # Both sides of an image change by the square root of the ratio.
        return [_Change(sizes={s: max(1, round(case.dims[s] * math.sqrt(ratio))) for s in image})]
    return [_Change(sizes={s: max(1, round(case.dims[s] * ratio)) for s in (image + line)[:1]})]


def _ratio(error: str) -> float | None:
    """Return the ratio of expected to actual elements; None if the error does not state both."""
    inner = _INNER.search(error)
    if inner is not None:
        rows, columns, got = (int(inner[i]) for i in (1, 2, 3))
        # W is printed as stored, so either side may be the inner one; the other is the output's width.
        wanted = rows if f"N:{rows}" not in error.replace(" ", "") else columns
        return wanted / got if got else None
    shapes = _RESHAPED.search(error)
    if shapes is None:
        return None
    have = math.prod(int(d) for d in shapes[1].split(","))
    want = math.prod(int(d) for d in shapes[2].split(","))
    return want / have if have and want > 0 else None


def _changed(model: ir.Model, inputs: InputSet, case: Case, change: _Change) -> Case:
    """Return the case with a change, and with all sizes that depend on the change recomputed."""
    free = _free_symbols(inputs, case)
    user = {s: case.dims[s] for s in _user_symbols(inputs, case)}
    first = choose(model, inputs, user)
    follows = {s for s, origin in first.origin.items() if origin == "follows"}
    known_sizes = {s: case.dims[s] for s in free - follows}
    known_sizes |= {s: n for s, n in change.sizes.items() if s not in follows}
    chosen = choose(model, inputs, user | known_sizes)
    origin = chosen.origin | dict.fromkeys(free - follows, "name")
    origin |= {s: "trial" for s, n in known_sizes.items() if n != first.values.get(s)}
    sizes = replace(chosen, origin=origin)
    before = {c.name: c for c in case.inputs}
    return Case(
        name=case.name,
        weight=case.weight,
        inputs=tuple(_narrowed(c, before[c.name], change.high) for c in choices(inputs, sizes)),
        dims=chosen.values,
    )


def _user_symbols(inputs: InputSet, case: Case) -> set[str]:
    users = {c.name: set(c.guessed_axes) for c in case.inputs if c.origin == "user"}
    return {
        symbol
        for spec in inputs.inputs
        if spec.name in users
        for axis, dim in enumerate(spec.shape)
        if axis not in users[spec.name]
        for symbol, _ in dim.terms
    }


def _narrowed(choice: InputChoice, before: InputChoice, high: int | None) -> InputChoice:
    """Return the choice with the range found by earlier trials, narrowed further to ``high``."""
    if choice.values:
        return choice
    top = before.high if choice.low != choice.high else choice.high
    if high is not None and _has_ids(choice) and top is not None:
        top = min(top, high)
    if top == choice.high or top is None or choice.low is None:
        return choice
    return msgspec.structs.replace(choice, origin="trial", low=min(choice.low, top), high=top)


def cannot_feed(ir_model: ir.Model, workload: Workload, error_text: str) -> InputError | ModelError:
    """Return the error for a model without a working workload, which names the node, or the input and an option."""
    case = workload.cases[0] if workload.cases else None
    named = _DECLARED.search(error_text)
    if case is not None and (wrong := wrong_sizes(ir_model, case.dims)):
        dims = " ".join(f"--dim {shlex.quote(f'{held.dimension}={held.size}')}" for held in wrong)
        instead = "inputs with that size" if workload.inputs_path else dims
        return InputError(
            "; ".join(held.sentence for held in wrong),
            where=workload.inputs_path or ", ".join(f"{h.dimension}={case.dims[h.dimension]}" for h in wrong),
            do=f"pass {instead}, or export the model again without that size as a constant",
        )
    if case is not None and (fault := node_at_fault(ir_model, case, error_text)):
        return ModelError(fault[0], where="the model", do=fault[1])
    if case is None or not case.inputs:
        return InputError(f"the model does not run: {first_line(error_text)}", where="the first run")
    if workload.inputs_path:
        return InputError(
            f"the model does not run with these inputs: {first_line(error_text)}",
            where=workload.inputs_path,
            do="check their shapes and values against the training data",
        )
    unsure = [c for c in case.inputs if c.guessed] or list(case.inputs)
    culprit = next((c for c in case.inputs if named is not None and c.name == named[1]), unsure[0])
    shape = "x".join(map(str, culprit.shape)) or "scalar"
    declared = {v.name: v for v in ir_model.graph.inputs}[culprit.name].shape
    free = declared is None or any(not isinstance(size, int) for size in declared)
    wanted = _suggested_shape(ir_model, workload, culprit, error_text)
    flag = ""
    if wanted:
        flag = f"--shape {shlex.quote(f'{culprit.name}:{wanted}')}, or "
    elif culprit.shape and free:
        flag = f"--shape {culprit.name}:... with sizes other than {shape}, or "
    n_tries = workload.tries + 1
    return InputError(
        f"no working value was found in {amount(n_tries, 'try', 'tries')}; the last was {shape} "
        f"{culprit.dtype} for {declared if declared is not None else 'an undeclared shape'}, with the error: "
        f"{first_line(error_text)}",
        where=f"input {culprit.name!r}",
        do=f"pass {flag}--inputs FILE.npz with real inputs",
    )


def node_at_fault(model: ir.Model, case: Case, error_text: str) -> tuple[str, str] | None:
    """Return the fault and the fix if a node fails for all inputs; None if other inputs may help."""
    failing = named_node(error_text)
    if failing is None or _DECLARED.search(error_text) or _open(model, case):
        return None
    weights = [
        f"{value.name} {'x'.join(map(str, value.shape or ()))}"
        for node in nodes(model)
        if node.name == failing.name != ""
        for value in node.inputs
        if value is not None and value.const_value is not None
    ]
    stored = f" (weights: {', '.join(weights)})" if weights else ""
    what = f"{failing.label}{stored} fails, with and without graph optimisation: {first_line(error_text)}"
    return what, "correct this node: all inputs have fixed shapes, so no other input can help"


def why_not(model: ir.Model, dims: Mapping[str, int], error_text: str) -> str:
    """Return the reason that a model does not run at these sizes, from its graph or else the error's first line."""
    wrong = wrong_sizes(model, dims)
    return "; ".join(held.sentence for held in wrong) or first_line(error_text)


def _open(model: ir.Model, case: Case) -> bool:
    """Return whether other inputs are possible: a dimension is dynamic, or values were guessed or set by role."""
    static = all(
        value.shape is not None and all(isinstance(size, int) for size in value.shape)
        for value in feedable(model)
    )
    return not static or any(
        choice.guessed
        or (
            choice.low is not None
            and choice.low == choice.high
            and not choice.values
            and choice.role not in {"mask", "token-types"}
        )
        for choice in case.inputs
    )


def _suggested_shape(model: ir.Model, workload: Workload, culprit: InputChoice, error: str) -> str:
    """Return the shape that the error suggests in place of the user's; "" if it suggests none."""
    if culprit.origin != "user":
        return ""
    inputs, case = inspect_inputs(model), workload.cases[0]
    axes = {spec.name: tuple(i for i, dim in enumerate(spec.shape) if dim.terms) for spec in inputs.inputs}
    freed = msgspec.structs.replace(
        case,
        inputs=tuple(
            msgspec.structs.replace(c, origin="name", guessed_axes=axes[c.name]) if c == culprit else c
            for c in case.inputs
        ),
    )
    for change in _suggested(inputs, freed, error):
        choice = next(c for c in _changed(model, inputs, freed, change).inputs if c.name == culprit.name)
        if choice.shape != culprit.shape:
            return "x".join(map(str, choice.shape))
    return ""


def first_line(text: str) -> str:
    """Return the first line of an error, truncated to 300 characters."""
    line = next((part.strip() for part in text.splitlines() if part.strip()), "nothing")
    return line if len(line) <= 300 else line[:299] + "…"
