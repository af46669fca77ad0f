"""Proposes a workload: input shapes and values, derived from the model or specified by the user."""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import onnx_ir as ir

from ortune import files
from ortune.errors import InputError, UsageError
from ortune.graph.shapes.symbols import kind_of_name
from ortune.inputs import recording_file, user_feeds
from ortune.inputs.chosen_sizes import choose, notes_on
from ortune.inputs.declared import InputSet, InputSpec, inspect_inputs
from ortune.inputs.feeds import Array, FeedValue, Kind, make_feeds, make_some, require_holdable
from ortune.inputs.trial_fixes import alternatives, cannot_feed
from ortune.inputs.value_ranges import choices
from ortune.inputs.written_sizes import Mix, normalised
from ortune.printable import first_of
from ortune.records import Case, InputChoice, Workload, read_json

__all__ = [
    "alternatives", "cannot_feed", "describe", "feeds", "load", "propose", "save", "whole_numbers",
]  # fmt: skip

_MOST_COUNTS = 4096
"""Maximum number of elements of an input whose values may determine sizes."""

_NAMED = 6
"""Maximum number of cases of equal weight that are named individually."""

MOST_SEED = 1 << 31  # limit of both numpy's generators and ONNX Runtime


def propose(
    ir_model: ir.Model,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dims: Mapping[str, Mix] | None = None,
    kept: Mapping[str, tuple[int, ...]] | None = None,
    inputs_path: Path | None = None,
    image: str = "",
    seed: int = 0,
    gap_ns: int = 0,
    custom_ops: tuple[str, ...] = (),
) -> Workload:
    """Return the best workload that can be derived without running the model.

    Args:
        ir_model: The model; its weights are not read.
        shapes: Whole shapes by input name, as from ``--shape``.
        dims: Weighted sizes by dimension name, as from ``--dim``; several sizes make several cases.
        kept: Whole shapes of an earlier run by input name, used for dimensions that ``shapes`` and ``dims`` leave
            dynamic, as far as the model accepts them.
        inputs_path: The user's feeds, which determine the shapes.
        image: Options of ``--image``.
        seed: Seed of the generated feeds.
        gap_ns: Pause between calls in nanoseconds.
        custom_ops: Shared libraries with custom operators.

    Raises:
        InputError: A name or size does not fit the model, or no value can be generated for an input's type.
    """
    inputs = inspect_inputs(ir_model)
    if inputs_path is not None:
        if shapes or dims:
            raise UsageError(
                "--inputs decides the shapes, so it cannot be combined with --shape or --dim",
                do="remove one of them",
            )
        cases = _cases_of(inputs, user_feeds.load(inputs_path, ir_model, image=image))
        notes: tuple[str, ...] = ()
    else:
        cases = _proposed(
            ir_model, inputs, shapes or {}, dims or {}, _sizes_of_earlier_run(inputs, kept or {})
        )
        notes = (*_meant(inputs, dims or {}), *notes_on(inputs, cases[0].dims))
    return Workload(
        cases=cases,
        seed=seed,
        inputs_path=str(inputs_path) if inputs_path is not None else "",
        image=image,
        gap_ns=gap_ns,
        custom_ops=custom_ops,
        notes=notes,
    )


def _sizes_of_earlier_run(inputs: InputSet, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the size of each symbol from the shapes of an earlier run; empty if the inputs no longer fit."""
    names = {i.name for i in inputs.inputs}
    try:
        return _from_shapes(inputs, {name: shape for name, shape in shapes.items() if name in names})
    except InputError:
        return {}


def _proposed(
    model: ir.Model,
    inputs: InputSet,
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, Mix],
    kept: Mapping[str, int],
) -> tuple[Case, ...]:
    fixed = _from_shapes(inputs, shapes)
    mixes = {name: normalised(name, mix) for name, mix in dims.items()}
    targets = {name: _symbols_named(inputs, name) for name in mixes}
    cases = []
    for combination in itertools.product(*mixes.values()):
        user = dict(fixed)
        for name, (size, _) in zip(mixes, combination, strict=True):
            for symbol in targets[name]:
                if user.setdefault(symbol, size) != size:
                    raise InputError(
                        f"--shape makes it {user[symbol]} and --dim {name} makes it {size}",
                        where=f"dimension {symbol!r}",
                        do="remove one of the two",
                    )
        sizes = choose(model, inputs, {**kept, **user})
        # Sizes of an earlier run are dropped if they contradict the requested ones.
        if kept and sizes.clash:
            sizes = choose(model, inputs, user)
        label = ",".join(f"{name}={size}" for name, (size, _) in zip(mixes, combination, strict=True))
        cases.append(
            Case(
                name=label or "default",
                weight=math.prod(weight for _, weight in combination),
                inputs=choices(inputs, sizes),
                dims=sizes.values,
            )
        )
    return tuple(cases)


def _from_shapes(inputs: InputSet, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Return the size of each symbol that ``--shape`` determines."""
    by_name = {i.name: i for i in inputs.inputs}
    user: dict[str, int] = {}
    for name, shape in shapes.items():
        spec = by_name.get(name)
        if spec is None:
            raise InputError(
                f"the model has no input with this name; available: {_listed(by_name)}",
                where=f"--shape {name}",
                do="use one of these names",
            )
        if len(shape) != len(spec.shape) or any(size < 0 for size in shape):
            raise _wrong_shape(spec, shape)
        for dim, size in zip(spec.shape, shape, strict=True):
            if dim.value is not None:
                if dim.value != size:
                    raise _wrong_shape(spec, shape)
            elif len(dim.terms) == 1 and dim.terms[0][1] == 1:
                symbol, value = dim.terms[0][0], size - dim.add
                if user.setdefault(symbol, value) != value or value < 0:
                    raise InputError(
                        f"two inputs share {symbol!r}, but the shapes make it {user[symbol]} and {value}",
                        where=f"--shape {name}",
                        do="pass the same size for both inputs there",
                    )
    for name, shape in shapes.items():  # sums last, since other inputs may give their symbols
        _check_sums(by_name[name], shape, user)
    return user


def _check_sums(spec: InputSpec, shape: tuple[int, ...], user: dict[str, int]) -> None:
    for dim, size in zip(spec.shape, shape, strict=True):
        unknown = [(s, f) for s, f in dim.terms if s not in user]
        if not unknown and dim.at(user) != size:
            raise _wrong_shape(spec, shape)
        if unknown:
            symbol, factor = unknown[-1]
            # One size determines one symbol: of several unknown ones, all but the last become 1.
            rest = sum(f * user.setdefault(s, 1) for s, f in dim.terms if s != symbol) + dim.add
            if (size - rest) % factor or (size - rest) // factor < 0:
                raise _wrong_shape(spec, shape)
            user[symbol] = (size - rest) // factor


def _wrong_shape(spec: InputSpec, shape: tuple[int, ...]) -> InputError:
    declared = "x".join(user_feeds.dim_text(dim) for dim in spec.shape) or "scalar"
    asked = "x".join(map(str, shape)) or "scalar"
    return InputError(
        f"{asked} does not fit the model's {declared}",
        where=f"--shape {spec.name}",
        do="pass one size for each dimension, with the fixed ones unchanged",
    )


def _meant(inputs: InputSet, dims: Mapping[str, Mix]) -> Iterator[str]:
    """Yield a note for each ``--dim`` name that is not itself a symbol, with the symbols to which it refers."""
    for name in dims:
        symbols = _symbols_named(inputs, name)
        if symbols != [name]:
            yield f"--dim {name} was taken for {_listed(dict.fromkeys(symbols))}"


def _symbols_named(inputs: InputSet, name: str) -> list[str]:
    """Return the symbols to which a ``--dim`` name refers: the symbol with this name, or all symbols of that kind."""
    symbols = list(inputs.kinds)
    if name in symbols:
        return [name]
    same = [s for s in symbols if s.lower() == name.lower()]
    if len(same) == 1:
        return same
    kind = kind_of_name(name)
    matching = [s for s in symbols if kind and inputs.kinds[s] == kind]
    if matching:
        return matching
    named = f"; available: {_listed(dict.fromkeys(symbols))}" if symbols else ": all its shapes are fixed"
    raise InputError(
        f"the model has no dynamic dimension with this name{named}",
        where=f"--dim {name}",
        do="use one of these names" if symbols else "omit --dim, or export the model with dynamic dimensions",
    )


def _listed(names: Mapping[str, object]) -> str:
    return first_of([repr(name) for name in names], 12)


def _cases_of(inputs: InputSet, all_feeds: list[dict[str, FeedValue]]) -> tuple[Case, ...]:
    """Return one case for each set of the user's feeds, with equal weights."""
    roles = {i.name: (i.role, i.dtype) for i in inputs.inputs}
    cases = []
    for number, feeds_ in enumerate(all_feeds):
        picked = []
        for name, value in feeds_.items():
            role, dtype = roles[name]
            first = value[0] if isinstance(value, list) and value else value
            shape = () if first is None or isinstance(first, list) else tuple(first.shape)
            low, high = user_feeds.value_range(value)
            picked.append(
                InputChoice(name=name, dtype=dtype, shape=shape, role=role, origin="user", low=low, high=high)
            )
        label = f"set {number}" if len(all_feeds) > 1 else "default"
        cases.append(Case(name=label, weight=1 / len(all_feeds), inputs=tuple(picked)))
    return tuple(cases)


def feeds(
    ir_model: ir.Model, workload: Workload, kind: Kind = "usual"
) -> list[tuple[Case, dict[str, FeedValue]]]:
    """Return the feeds of every case: the user's if there are any and ``kind`` is "usual", otherwise generated feeds.

    Raises:
        InputError: The seed is invalid, the user's feeds cannot be read, or the shapes are too large.
    """
    if not 0 <= workload.seed < MOST_SEED:
        raise InputError(
            f"{workload.seed} is not a valid seed", where="--seed", do="use a number from 0 to 2147483647"
        )
    if workload.inputs_path and kind == "usual":
        return list(zip(workload.cases, _user_feeds(ir_model, workload), strict=True))
    require_holdable(workload.cases)
    return [(case, make_feeds(ir_model, case, seed=workload.seed, kind=kind)) for case in workload.cases]


def _user_feeds(ir_model: ir.Model, workload: Workload) -> list[dict[str, FeedValue]]:
    """Return the user's feeds for all cases; for a recording's cases without recorded values, they are generated."""
    path, n = Path(workload.inputs_path), len(workload.cases)
    of_calls = recording_file.values_in(path, ir_model)
    if of_calls is None:
        own = user_feeds.load(path, ir_model, image=workload.image, most=n)
        if len(own) != n:
            what = f"it holds {len(own)} inputs, and the workload has {n}"
            raise InputError(what, where=str(path), do="pass the folder with --inputs again")
        return own
    values = user_feeds.recorded(of_calls, ir_model)
    made = [case for case in workload.cases if case.name not in values]
    require_holdable(made)
    return [
        values.get(case.name) or make_feeds(ir_model, case, seed=workload.seed) for case in workload.cases
    ]


def whole_numbers(ir_model: ir.Model, workload: Workload) -> list[dict[str, Array]]:
    """Return the values of small integer and boolean inputs for each case, such as lengths, counts and flags.

    Such values determine other sizes and the amount of work.
    """
    from_user = bool(workload.inputs_path)
    wanted = [
        {choice.name for choice in case.inputs if _counts(choice, from_user)} for case in workload.cases
    ]
    own: list[dict[str, FeedValue]]
    if not any(wanted):
        return [{} for _ in wanted]
    if from_user:
        own = _user_feeds(ir_model, workload)
    else:
        own = [
            make_some(c, names, seed=workload.seed) for c, names in zip(workload.cases, wanted, strict=True)
        ]
    return [
        {name: value for name, value in values.items() if name in names and isinstance(value, np.ndarray)}
        for values, names in zip(own, wanted, strict=True)
    ]


def _counts(choice: InputChoice, from_user: bool) -> bool:
    """Return whether an input is a small tensor of integers or booleans with known values."""
    can_make = choice.dtype == "bool" or choice.role in ("mask", "positions")
    ranged = choice.low is not None and choice.high is not None
    small = math.prod(choice.shape) <= _MOST_COUNTS
    return choice.dtype.startswith(("int", "uint", "bool")) and small and (from_user or can_make or ranged)


def describe(workload: Workload) -> str:
    """Describe the workload in one line, with guesses marked."""
    if not workload.cases:
        return "inputs: none"
    parts = [_group_text(group) for group in _grouped(workload.cases[0].inputs)]
    line = "inputs: " + ("; ".join(parts) or "none")
    if workload.inputs_path:
        line += f"; from {workload.inputs_path}"
    if len(workload.cases) > 1:
        cases, alike = workload.cases, len({case.weight for case in workload.cases}) == 1
        mix = ", ".join(f"{case.name} ({100 * case.weight:.0f} %)" for case in cases)
        line += f"; {len(cases)} cases" + (
            " of equal weight" if alike and len(cases) > _NAMED else f": {mix}"
        )
    if workload.tries:
        line += f"; found by trial after {workload.tries} failed {'try' if workload.tries == 1 else 'tries'}"
    return "; ".join([line, *workload.notes])


def _grouped(inputs: tuple[InputChoice, ...]) -> list[list[InputChoice]]:
    """Group inputs with equal choices, such as a decoder's many past tensors."""
    groups: dict[tuple[object, ...], list[InputChoice]] = {}
    for choice in inputs:
        groups.setdefault((choice.dtype, choice.shape, choice.role, choice.note), []).append(choice)
    return list(groups.values())


def _group_text(group: list[InputChoice]) -> str:
    choice = group[0]
    names = choice.name if len(group) == 1 else ", ".join(c.name for c in group)
    if len(group) > 3:
        names = f"{choice.name} … {group[-1].name} ({len(group)} inputs)"
    shape = "x".join(map(str, choice.shape)) or "scalar"
    words = [choice.role.replace("-", " ")] if choice.role != "data" else []
    words += [choice.note] if choice.note else []
    return f"{names} {shape} {choice.dtype}" + (f" ({'; '.join(words)})" if words else "")


def save(path: Path, workload: Workload) -> None:
    """Save a workload as JSON."""
    text = msgspec.json.format(msgspec.json.encode(workload), indent=2)
    try:
        files.write(path, text + b"\n", typed=True)
    except OSError as error:
        raise UsageError(
            f"the workload cannot be written: {error.strerror}", where=str(path), do="choose another path"
        ) from error


def load(path: Path, custom_ops: Sequence[str] = (), *, inside: bool = False) -> Workload:
    """Load a saved workload; a relative path of its inputs is resolved from the workload's folder if they are there.

    Args:
        path: The file.
        custom_ops: The libraries that the user names; libraries that only the file names are never loaded.
        inside: Whether the inputs must be in the workload's folder, as for a bundle, which may be from someone else.

    Raises:
        InputError: The file cannot be read, is not a workload, has no shapes, needs libraries that the user does not
            name, or has inputs outside of its folder.
    """
    try:
        saved = read_json(files.read(path), Workload)
    except OSError as error:
        raise InputError(f"the workload cannot be read: {error.strerror}", where=str(path)) from error
    except msgspec.DecodeError as error:
        raise InputError(
            f"not a workload file: {error}", where=str(path), do="create one with --save-workload"
        ) from error
    if not (saved.cases or inside):
        raise InputError("it has no shapes", where=str(path), do="create it again with --save-workload")
    if saved.custom_ops and not custom_ops:
        wanted = [f"--custom-ops {shlex.quote(str(path.parent / library))}" for library in saved.custom_ops]
        raise InputError(
            "it was saved with libraries of custom operators, which are native code and loaded only when named",
            where=str(path),
            do=f"if you trust them: {' '.join(wanted)}",
        )
    inputs = saved.inputs_path and path.parent / saved.inputs_path
    if inputs and inside and not inputs.resolve().is_relative_to(path.parent.resolve()):
        raise InputError(f"its inputs are in another folder: {saved.inputs_path!r}", where=str(path))
    # What does not exist from the workload's folder is a path from the current folder, as the user wrote it.
    exists = inputs and files.exists(recording_file.split(inputs)[0])
    inputs_path = str(inputs) if inputs and (inside or exists) else saved.inputs_path
    return msgspec.structs.replace(saved, inputs_path=inputs_path, custom_ops=tuple(custom_ops))
