"""Chooses the shape and value range of each input for given sizes, and marks guesses."""

from __future__ import annotations

from typing import Literal

from ortune.graph.shapes.symbols import has_chosen_name
from ortune.inputs.chosen_sizes import Sizes, decoder_lengths
from ortune.inputs.declared import InputSet, InputSpec
from ortune.inputs.semantics import element_type
from ortune.records import InputChoice

Origin = Literal["model", "constraint", "name", "trial", "user"]

_UNKNOWN_ROWS = 100
"""Number of ids to draw from if no table limits them."""

_FIXED: dict[str, float] = {
    "sample-rate": 16000,
    "past-flag": 1,
    "one": 1,
    "threshold": 0.5,
    "count": 100,
    "timestep": 500,
    "token-types": 0,
    "labels": 1,
    "mask": 1,
}
"""The only value that fits a role, whatever the model."""


def choices(inputs: InputSet, sizes: Sizes) -> tuple[InputChoice, ...]:
    """Return the choice for every input at the given sizes, in the model's order."""
    return tuple(_choice(inputs, spec, sizes) for spec in inputs.inputs)


def _choice(inputs: InputSet, spec: InputSpec, sizes: Sizes) -> InputChoice:
    shape = tuple(max(0, dim.at(sizes.values)) for dim in spec.shape)
    origins = [{sizes.origin.get(s, "name") for s, _ in dim.terms} for dim in spec.shape]
    guessed_axes = tuple(i for i, of_dim in enumerate(origins) if of_dim & {"name", "follows", "trial"})
    free = tuple(i for i, of_dim in enumerate(origins) if of_dim & {"name", "follows"})
    contents = sizes.contents.get(spec.name, ())
    low, high, unsure = (
        (min(contents), max(contents), False) if contents else _range(inputs, spec, shape, sizes)
    )
    return InputChoice(
        name=spec.name,
        dtype=spec.dtype,
        shape=shape,
        role=spec.role,
        origin=_origin({o for of_dim in origins for o in of_dim}),
        guessed=bool(free) or unsure or not spec.rank_known,
        note="; ".join(filter(None, (_note(spec, free, unsure, low), _shape_note(contents)))),
        guessed_axes=guessed_axes,
        low=low,
        high=high,
        values=contents,
    )


def _shape_note(contents: tuple[int, ...]) -> str:
    return f"a shape: {', '.join(map(str, contents))}" if contents else ""


def _origin(origins: set[str]) -> Origin:
    for origin in ("user", "trial"):
        if origin in origins:
            return "user" if origin == "user" else "trial"
    if not origins:
        return "model"
    return "constraint" if origins <= {"constraint"} else "name"


def _note(spec: InputSpec, guessed: tuple[int, ...], unsure: bool, low: float | None) -> str:
    parts = []
    if not spec.rank_known:
        parts.append("rank guessed")
    if guessed:
        parts.append(", ".join(dict.fromkeys(axis_label(spec, axis) for axis in guessed)) + " guessed")
    if unsure:
        parts.append("range of values guessed")
    if spec.role == "sample-rate":
        parts.append(f"{int(low or 0)} Hz")
    return "; ".join(parts)


def axis_label(spec: InputSpec, axis: int) -> str:
    """Return a label for an axis: H or W of an image, the symbol if it has a chosen name, the kind, or the index."""
    short = {"height": "H", "width": "W"}.get(spec.kinds[axis])
    if short and spec.role == "image":
        return short
    symbols = [s for s, _ in spec.shape[axis].terms]
    if symbols and has_chosen_name(symbols[0]):
        return symbols[0]
    return spec.kinds[axis] if spec.kinds[axis] != "other" else f"axis {axis}"


def _range(
    inputs: InputSet, spec: InputSpec, shape: tuple[int, ...], sizes: Sizes
) -> tuple[float | None, float | None, bool]:
    """Return the smallest and largest value of an input, and whether these are guesses."""
    rows = sizes.rows.get(spec.name)
    if spec.role == "positions":
        past, _ = decoder_lengths(inputs, sizes.values) or (0, 0)
        last = past + (shape[-1] if shape else 1) - 1
        top = last if rows is None else min(last, rows - 1)
        return min(past, top), top, False
    value = _role_value(inputs, spec, sizes)
    if value is not None:
        value = min(value, rows - 1) if rows else value
        return value, value, False
    return _element_range(spec, rows)


def _role_value(inputs: InputSet, spec: InputSpec, sizes: Sizes) -> float | None:
    """Return the only value that fits the input's role at these sizes; None if a range of values fits."""
    past, new = decoder_lengths(inputs, sizes.values) or (0, 0)
    match spec.role:
        case "total-length":
            return past + new
        case "past-length":
            # GroupQueryAttention takes the index of the last key: one less than their number.
            return past + new - 1 if "seqlens_k" in spec.name else past
        case "lengths":
            return _longest(inputs, sizes)
        case "image-size":
            return max((_axis(inputs, sizes, k) for k in ("height", "width")), default=0) or 640
        case "mask" if "pad" in spec.name.lower() and element_type(spec.dtype) == "bool":
            return 0  # a padding mask is true for positions to ignore
    return _FIXED.get(spec.role)


def _element_range(spec: InputSpec, rows: int | None) -> tuple[float | None, float | None, bool]:
    """Return the smallest and largest value that the type and the table allow, and whether these are guesses."""
    element = element_type(spec.dtype)
    if element == "bool":
        return 1, 1, False
    if not element.startswith(("int", "uint")):
        return None, None, False
    if rows is not None:
        return (1 if rows > 2 else 0), rows - 1, False  # 0 is padding in most vocabularies
    bits = int("".join(c for c in element if c.isdigit()))
    if bits <= 8:
        signed = element.startswith("int")
        return (-(2 ** (bits - 1)) if signed else 0), 2 ** (bits - 1 if signed else bits) - 1, False
    return 0, (_UNKNOWN_ROWS if spec.role == "token-ids" else 10) - 1, True


def _longest(inputs: InputSet, sizes: Sizes) -> int:
    """Return the value for an input of role "lengths": the longest time axis of the other inputs."""
    lengths = [_axis(inputs, sizes, kind) for kind in ("seq", "samples", "frames", "encoder")]
    return max(lengths) or 1


def _axis(inputs: InputSet, sizes: Sizes, kind: str) -> int:
    return max(
        (
            dim.at(sizes.values)
            for spec in inputs.inputs
            for dim, own in zip(spec.shape, spec.kinds, strict=True)
            if own == kind
        ),
        default=0,
    )
