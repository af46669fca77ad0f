"""Chooses a size for every dynamic dimension: by the user, the graph, or the name, in this order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from ortune.graph.shapes.demands import study
from ortune.graph.shapes.shape_inputs import shape_values
from ortune.graph.shapes.symbols import DEFAULT_SIZES, Size, has_chosen_name, kind_of_name, quotient
from ortune.graph.shapes.walk import SizeFacts
from ortune.inputs.declared import InputSet

LADDER: dict[str, tuple[int, ...]] = {
    "image": (224, 640, 32, 28, 64, 256, 128, 96, 112, 160, 299, 384, 416, 512, 48, 1024, 16, 227, 20, 8),
    "seq": (128, 64, 32, 77, 16, 8, 256, 512, 1),
    "samples": (16000, 512, 1536, 1280, 8000, 32000, 48000, 80000, 160000, 480000, 1024, 4096),
    "frames": (100, 3000, 76, 80, 64, 128, 1000, 1500, 96, 16, 1),
    "other": (64, 1, 16, 32, 128, 224, 256, 512, 3, 2, 10, 16000),
}
"""Sizes to try in turn, by kind of dimension, if the first choice does not work."""

_FREE_KINDS = {"height": "image", "width": "image", "encoder": "seq", "points": "seq", "channels": "other"}
_SHRINKABLE = frozenset({"seq", "past", "other", "frames", "samples", "encoder", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """A size for every symbol.

    Attributes:
        values: Size of each symbol.
        origin: Origin of each symbol's size: "user", "constraint", "name", "convention" or "follows" (from guesses).
        rows: Number of table rows that an input's values index, by input name.
        contents: Values of inputs that are shapes, by input name.
        clash: Reason that the graph cannot run at these sizes; "" if no contradiction is known.
    """

    values: dict[str, int]
    origin: dict[str, str]
    rows: Mapping[str, int]
    contents: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    clash: str = ""

    @property
    def guessed(self) -> set[str]:
        """The symbols with guessed sizes, which may be changed."""
        return {s for s, origin in self.origin.items() if origin == "name"}


def choose(model: ir.Model, inputs: InputSet, user: Mapping[str, int]) -> Sizes:
    """Choose a size for every symbol in the input shapes; ``user`` has the user's sizes by symbol."""
    shapes: dict[str, tuple[Size, ...] | None] = {i.name: i.shape for i in inputs.inputs}
    facts = study(model, shapes, user, inputs.keep)
    origin = dict.fromkeys(user, "user")
    values = dict(user)
    symbols = list(dict.fromkeys(s for i in inputs.inputs for d in i.shape for s, _ in d.terms))
    derived = {s: e for s, e in facts.solution.items() if s in symbols and s not in values}
    free = [s for s in symbols if s not in derived and s not in values]
    free += [s for e in derived.values() for s, _ in e.terms if s not in free and s not in values]
    for symbol in free:
        kind = inputs.kinds.get(symbol, "other")
        values[symbol] = _default(model, inputs, kind)
        origin[symbol] = "convention" if _by_convention(symbol, kind) else "name"
    _fill_related(inputs, values, free)
    for symbol, size in _limited(inputs, facts, values, free):
        values[symbol], origin[symbol] = size, "constraint"
    _fill_related(inputs, values, free)
    values |= {s: e.at(values) for s, e in derived.items()}
    for s, e in derived.items():
        guessed = any(origin.get(t) == "name" for t, _ in e.terms)
        origin[s] = "follows" if guessed else "constraint"
    chosen = Sizes(values=values, origin=origin, rows=facts.rows, clash=facts.clash)
    return with_contents(model, inputs, _first_that_works(model, inputs, chosen, derived))


def with_contents(model: ir.Model, inputs: InputSet, sizes: Sizes) -> Sizes:
    """Return the sizes with ``contents`` set: the values of inputs that are themselves shapes."""
    names = [spec.name for spec in inputs.inputs if spec.role == "data"]
    shapes = {spec.name: tuple(max(0, d.at(sizes.values)) for d in spec.shape) for spec in inputs.inputs}
    return replace(sizes, contents=shape_values(model, shapes, names, sizes.values))


def _by_convention(symbol: str, kind: str) -> bool:
    """Return whether the size of a symbol follows a universal convention, and so is not a guess."""
    if kind == "batch" and has_chosen_name(symbol):
        return kind_of_name(symbol) == "batch"  # the first axis of a graph's edges is not a batch
    return kind in {"batch", "total", "past", "heads"}


def _first_that_works(model: ir.Model, inputs: InputSet, chosen: Sizes, derived: Mapping[str, Size]) -> Sizes:
    """Return the chosen sizes, or the first alternative that the graph does not contradict, with ``clash`` set."""
    shapes: dict[str, tuple[Size, ...] | None] = {i.name: i.shape for i in inputs.inputs}

    def checked(values: dict[str, int]) -> SizeFacts:
        return study(model, shapes, values, inputs.keep)

    first = checked(chosen.values)
    if not first.clash or not chosen.guessed:
        return replace(chosen, clash=first.clash)
    for change in ladder(inputs, chosen.guessed):
        values = chosen.values | change
        values |= {s: e.at(values) for s, e in derived.items()}
        if not checked(values).clash:
            return replace(chosen, values=values, clash="")
    return replace(chosen, clash=first.clash)


def ladder(inputs: InputSet, guessed: set[str]) -> Iterator[dict[str, int]]:
    """Yield other sizes for the guessed symbols, the most plausible sizes first."""
    kinds = {s: _ladder_kind(inputs.kinds.get(s, "other")) for s in sorted(guessed)}
    for step in range(max((len(LADDER[k]) for k in kinds.values()), default=0)):
        yield {s: LADDER[k][min(step, len(LADDER[k]) - 1)] for s, k in kinds.items()}


def _ladder_kind(kind: str) -> str:
    return kind if kind in LADDER else _FREE_KINDS.get(kind, "other")


def _default(model: ir.Model, inputs: InputSet, kind: str) -> int:
    decoder = any(i.role == "past" for i in inputs.inputs)
    if kind == "seq" and decoder:
        return 1
    if kind in {"height", "width"}:
        height, width = image_size(model, inputs)
        return height if kind == "height" else width
    if kind == "samples" and inputs.with_role("state"):
        return 512  # a streaming model is fed in short pieces
    if kind == "frames" and any("input_features" in i.name for i in inputs.with_role("mel")):
        return 3000  # thirty seconds at 10 ms per frame, as in speech recognition models with this input name
    return DEFAULT_SIZES.get(kind, DEFAULT_SIZES["other"])


def image_size(model: ir.Model, inputs: InputSet) -> tuple[int, int]:
    """Return a height and width for dynamic image sizes, by the likely kind of vision model."""
    ops = {node.op_type for node in model.graph}
    names = " ".join(o.name or "" for o in model.graph.outputs).lower()
    images = inputs.with_role("image")
    ranks = [len(o.shape) for o in model.graph.outputs if o.shape is not None]
    producers = {p.op_type for o in model.graph.outputs if (p := o.producer()) is not None}
    if any("pixel_values" in i.name for i in images):
        return 224, 224
    if (
        "NonMaxSuppression" in ops
        or re.search(r"box|dets?\b|detection", names)
        or images[:1] == []
        or (images[0].name == "images")
    ):
        return 640, 640
    if ranks == [3] and "Softmax" in producers:
        return 48, 320  # a line of text read column by column
    if ranks and max(ranks) == 4 and ops & {"Resize", "Upsample", "ConvTranspose"}:
        return _dense_size(model, images[0].shape)
    return 224, 224


def _dense_size(model: ir.Model, image: tuple[Size, ...]) -> tuple[int, int]:
    """Return 640x640 for detection and segmentation maps, and 256x256 for models that return an image."""
    channels = {d.value for d in image}
    for output in model.graph.outputs:
        if output.shape is not None and len(output.shape) == 4:
            declared = output.shape.dims[1]
            if isinstance(declared, int) and declared in channels and declared > 1:
                return 256, 256
    return 640, 640


def _fill_related(inputs: InputSet, values: dict[str, int], free: list[str]) -> None:
    """Set, in place, sizes that follow from others by their meaning: a decoder's mask covers past and new tokens."""
    total = decoder_total(inputs, values)
    for symbol in free:
        if inputs.kinds.get(symbol) == "total" and total is not None:
            values[symbol] = total
        half = quotient(symbol)
        if half is not None and half[0] in values:
            values[symbol] = max(1, values[half[0]] // half[1])


def decoder_lengths(inputs: InputSet, values: Mapping[str, int]) -> tuple[int, int] | None:
    """Return the numbers of past and of new tokens in a decoder step; None for a model without a past."""
    past = _axis_value(inputs, values, "past", "past")
    if past is None:
        return None
    new = _axis_value(inputs, values, "token-ids", "seq")
    if new is None:
        new = _axis_value(inputs, values, "data", "seq")
    return past, new if new is not None else 1


def decoder_total(inputs: InputSet, values: Mapping[str, int]) -> int | None:
    """Return the number of past and new tokens together; None for a model without a past."""
    lengths = decoder_lengths(inputs, values)
    return None if lengths is None else sum(lengths)


def notes_on(inputs: InputSet, values: Mapping[str, int]) -> tuple[str, ...]:
    """Return notes for users on the chosen sizes."""
    step = decoder_lengths(inputs, values)
    if step is None:
        return ()
    past, new = step
    if past == 0:
        return (f"decoder: prefill of {new} tokens; steps not measured",)
    steps = "one step" if new == 1 else f"{new} tokens"
    return (f"decoder: {steps} at past={past}; prefill not measured",)


def _axis_value(inputs: InputSet, values: Mapping[str, int], role: str, kind: str) -> int | None:
    for spec in inputs.with_role(role):
        for dim, own in zip(spec.shape, spec.kinds, strict=True):
            if own == kind and all(s in values for s, _ in dim.terms):
                return dim.at(values)
    return None


def _limited(
    inputs: InputSet, facts: SizeFacts, values: Mapping[str, int], free: list[str]
) -> list[tuple[str, int]]:
    """Return (symbol, new size) for the symbols that must shrink so that no index exceeds its table."""
    now = dict(values)
    limits = list(facts.limits)
    for spec in inputs.with_role("positions"):
        if spec.name in facts.rows:
            past = next((d for i in inputs.with_role("past") for d, k in zip(i.shape, i.kinds, strict=True)
                         if k == "past"), Size())  # fmt: skip
            new = next((d for d, k in zip(spec.shape, spec.kinds, strict=True) if k == "seq"), Size())
            limits.append((past.plus(new), facts.rows[spec.name]))
    for size, rows in limits:
        if any(s not in now for s, _ in size.terms) or size.at(now) <= rows:
            continue
        able = [
            (now[s] * f, s, f)
            for s, f in size.terms
            if f > 0 and s in free and inputs.kinds.get(s, "") in _SHRINKABLE
        ]
        if able:
            # The largest part has the most room.
            _, symbol, factor = max(able)
            # 500 past and 32 new tokens exceed 512 rows: the past becomes 512 - 32 = 480.
            now[symbol] = max(1, (rows - (size.at(now) - factor * now[symbol])) // factor)
    return [(s, n) for s, n in now.items() if values[s] != n]
